"""SaslServer: a cluster's users, and the mechanisms by which they prove who they are."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.errors import InvalidArgumentError
from kwire.testing.cluster.sasl.exchange import AuthenticationRefusedError, Identity
from kwire.testing.cluster.sasl.oauthbearer import OAuthBearerExchange
from kwire.testing.cluster.sasl.plain import PlainExchange
from kwire.testing.cluster.sasl.scram import DIGESTS, MIN_ITERATIONS, ScramCredential, ScramExchange
from kwire.testing.cluster.sasl.unsecured_jws import check_unsecured_jws

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from kwire.testing.cluster.sasl.exchange import Exchange

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
MECHANISMS = (PLAIN, *DIGESTS, OAUTHBEARER)
SALT_BYTES = 16
NONCE_BYTES = 18

TokenValidator = Callable[[str], str]
"""Returns the user of a token, or raises any exception to refuse the token."""


class SaslServer:
    """The users and mechanisms of a cluster. Passwords may be changed at any time.

    Args:
        users: Names and passwords, for PLAIN and SCRAM.
        mechanisms: The mechanisms that are offered.
        validate_token: Checks the tokens of OAUTHBEARER; without it, any unsecured token is accepted.
        scram_iterations: The number of SCRAM's hash iterations.
        random: The random generator of salts and nonces.

    Raises:
        InvalidArgumentError: There is no such mechanism, none at all, or too few iterations.
    """

    def __init__(
        self,
        users: Mapping[str, str],
        mechanisms: Sequence[str] = MECHANISMS,
        *,
        validate_token: TokenValidator | None = None,
        scram_iterations: int = MIN_ITERATIONS,
        random: Random,
    ) -> None:
        unknown = [name for name in mechanisms if name not in MECHANISMS]
        if unknown or not mechanisms:
            wrong = f"not {unknown[0]!r}" if unknown else "and needs one at least"
            raise InvalidArgumentError(f"the in-process cluster speaks {', '.join(MECHANISMS)}, {wrong}")
        if scram_iterations < MIN_ITERATIONS:
            raise InvalidArgumentError(f"SCRAM takes {MIN_ITERATIONS} iterations at least, not {scram_iterations}")
        self.mechanisms = tuple(mechanisms)
        self._passwords: dict[str, str] = {}
        self._validate_token = validate_token
        self._scram_iterations = scram_iterations
        self._random = random
        self.sessions_ended = 0
        """How often something came on a session that had ended, and the connection was closed over it."""
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        for name, password in users.items():
            self.set_password(name, password)

    def __repr__(self) -> str:
        return f"<SaslServer: {', '.join(self.mechanisms)} for {', '.join(self._passwords) or 'nobody'}>"

    @property
    def users(self) -> tuple[str, ...]:
        """The names of the users."""
        return tuple(self._passwords)

    def password_of(self, name: str) -> str:
        """The user's password. Raises: InvalidArgumentError."""
        if name not in self._passwords:
            raise InvalidArgumentError(f"there is no user {name!r}; there are {list(self._passwords)}")
        return self._passwords[name]

    def set_password(self, name: str, password: str) -> None:
        """Add a user, or change a password. Raises: InvalidArgumentError, if either is empty."""
        if not name or not password:
            raise InvalidArgumentError(f"users have a name and a password; one of them is empty, of {name!r}")
        self._passwords[name] = password
        self._forget_credentials(name)

    def remove_user(self, name: str) -> None:
        """Remove a user. Raises: InvalidArgumentError."""
        self.password_of(name)
        del self._passwords[name]
        self._forget_credentials(name)

    def _forget_credentials(self, name: str) -> None:
        for digest in DIGESTS.values():
            self._credentials.pop((digest, name), None)

    def begin(self, mechanism: str, now_ms: Callable[[], float]) -> Exchange:
        """An exchange by that mechanism; `now_ms` is the wall clock."""
        if mechanism == PLAIN:
            return PlainExchange(self._passwords)
        if mechanism == OAUTHBEARER:
            return OAuthBearerExchange(lambda token: self._check_token(token, now_ms()))
        digest = DIGESTS[mechanism]
        nonce = b64encode(self._random.randbytes(NONCE_BYTES)).decode()
        return ScramExchange(digest, lambda name: self._credential(digest, name), nonce)

    def _credential(self, digest: str, name: str) -> ScramCredential | None:
        """Made when first asked for, as thousands of hashes take milliseconds."""
        password = self._passwords.get(name)
        if password is None:
            return None
        made = self._credentials.get((digest, name))
        if made is None:
            salt = self._random.randbytes(SALT_BYTES)
            made = ScramCredential.of(password, digest=digest, salt=salt, iterations=self._scram_iterations)
            self._credentials[digest, name] = made
        return made

    def _check_token(self, token: str, now_ms: float) -> Identity:
        if self._validate_token is None:
            return check_unsecured_jws(token, now_ms)
        try:
            return Identity(name=self._validate_token(token))
        except Exception as error:  # a callable of the test's: whatever it raises means no
            raise AuthenticationRefusedError from error
