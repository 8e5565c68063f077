"""Where tokens for OAUTHBEARER come from, if the user's own code has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, cast, runtime_checkable

from kwire.config.parsers import BadValueError, Parser, check_call

VALID = "a function or coroutine function that returns a token, an object with token(), or None"


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """A token, and how long it is valid.

    Attributes:
        value: The token as the broker gets it. `repr` does not show it.
        expires_at_ms: The end of its life, in ms since 1970. Without it, the token's own claim `exp` is read; one that
            has none either is asked for again when it is needed, once it has served for
            `sasl_login_refresh_min_period_seconds`.
        extensions: SASL extensions that are sent beside it (KIP-342).
    """

    value: str = field(repr=False)
    expires_at_ms: float | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)


TokenAnswer: TypeAlias = OAuthToken | str | tuple[str, float]
"""What a provider returns: a token, its text alone, or its text and the end of its life, in seconds (as confluent-kafka
has it) or ms (as the signer of MSK IAM has it) since 1970."""


@runtime_checkable
class TokenSource(Protocol):
    """An object that gives tokens, as kafka-python and aiokafka have them."""

    def token(self) -> TokenAnswer | Awaitable[TokenAnswer]:
        """A token that is valid now."""


TokenProvider: TypeAlias = Callable[[], TokenAnswer | Awaitable[TokenAnswer]] | TokenSource


def token_provider() -> Parser[TokenProvider | None]:
    return Parser(_read, VALID)


def _read(value: object) -> TokenProvider | None:
    if value is None:
        return None
    if isinstance(value, TokenSource) and not isinstance(value, type):
        function_without_arguments(value.token, "gives no tokens")
        return value
    return cast("TokenProvider", function_without_arguments(value, "gives no tokens"))


def function_without_arguments(value: object, otherwise: str) -> Callable[[], object]:
    """The value, if it is one. Errors do not show it: it may be the secret itself, and a partial shows its arguments.

    Raises:
        BadValueError: It is none; `otherwise` is the reason that the error gives.
    """
    if isinstance(value, type):
        raise BadValueError("a class; give an object of it")
    if not callable(value):
        raise BadValueError(otherwise, may_be_secret=True)
    check_call(value, told="without arguments", may_be_secret=True)
    return value
