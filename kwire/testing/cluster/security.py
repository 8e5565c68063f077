"""Security: TLS and SASL of a cluster, as the arguments of `Cluster` ask for them.

Arguments that contradict each other are refused here, before anything listens.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import TYPE_CHECKING

from kwire.errors import IllegalStateError, InvalidArgumentError
from kwire.testing.cluster.sasl.scram import MIN_ITERATIONS
from kwire.testing.cluster.sasl.server import MECHANISMS, OAUTHBEARER, SaslServer

if TYPE_CHECKING:
    from kwire.testing.certificates import CertificateAuthority
    from kwire.testing.cluster.sasl.server import TokenValidator

CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
"""Kafka's `ssl.client.auth`."""


class SecurityProtocol(Enum):
    """Kafka's security protocols: whether there is TLS, and whether there is SASL."""

    PLAINTEXT = (False, False)
    SSL = (True, False)
    SASL_PLAINTEXT = (False, True)
    SASL_SSL = (True, True)

    @property
    def has_tls(self) -> bool:
        return self.value[0]

    @property
    def has_sasl(self) -> bool:
        return self.value[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityOptions:
    """The security arguments of `Cluster`; see there."""

    security_protocol: str | None = None
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    sasl_mechanisms: Sequence[str] = ()
    validate_token: TokenValidator | None = None
    scram_iterations: int = MIN_ITERATIONS
    tls: ssl.SSLContext | bool | None = None
    tls_client_auth: str = "none"


class Security:
    """What was made of the options. `close` removes the files of certificates.

    Args:
        options: What was asked for.
        hosts: The names and addresses of the brokers.
        seed: The seed of salts and nonces.

    Raises:
        InvalidArgumentError: The options contradict each other.
        ImportError: Certificates were asked for, and trustme is not installed.
    """

    def __init__(self, options: SecurityOptions, *, hosts: Sequence[str], seed: int) -> None:
        self.protocol = _protocol(options)
        self.sasl = _sasl(options, seed) if self.protocol.has_sasl else None
        self._authority: CertificateAuthority | None = None
        self.tls = self._server_side(options, hosts) if self.protocol.has_tls else None

    def _server_side(self, options: SecurityOptions, hosts: Sequence[str]) -> ssl.SSLContext:
        if isinstance(options.tls, ssl.SSLContext):
            return options.tls
        from kwire.testing.certificates import CertificateAuthority

        self._authority = CertificateAuthority()
        return self._authority.server_context(*hosts, client_auth=CLIENT_AUTH[options.tls_client_auth])

    @property
    def certificates(self) -> CertificateAuthority:
        """The authority of the brokers' certificates. Raises: IllegalStateError, if it was not made here."""
        if self._authority is None:
            raise IllegalStateError("this cluster has made no certificates; it does with tls=True")
        return self._authority

    def client_config(self, user: str | None, mechanism: str | None) -> dict[str, str]:
        """The security settings of a client. Raises: InvalidArgumentError, if there is no such user or mechanism."""
        config = {"security.protocol": self.protocol.name}
        if self._authority is not None:
            config |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self._authority.path)}
        if self.sasl is not None:
            config |= _login(self.sasl, user, mechanism)
        elif user is not None or mechanism is not None:
            raise InvalidArgumentError(f"nobody authenticates by SASL where the protocol is {self.protocol.name}")
        return config

    def close(self) -> None:
        if self._authority is not None:
            self._authority.close()


def _login(sasl: SaslServer, user: str | None, mechanism: str | None) -> dict[str, str]:
    chosen = mechanism or next((one for one in sasl.mechanisms if one != OAUTHBEARER), OAUTHBEARER)
    if chosen not in sasl.mechanisms:
        raise InvalidArgumentError(f"the cluster offers {', '.join(sasl.mechanisms)}, not {chosen!r}")
    config = {"sasl.mechanism": chosen}
    if chosen == OAUTHBEARER:
        return config  # the client has to bring the token
    name = next(iter(sasl.users), "") if user is None else user
    return {**config, "sasl.username": name, "sasl.password": sasl.password_of(name)}


def _protocol(options: SecurityOptions) -> SecurityProtocol:
    """The protocol that was asked for, or that the other options imply."""
    wants_tls = bool(options.tls)
    wants_sasl = bool(options.users or options.sasl_mechanisms or options.validate_token)
    if options.security_protocol is None:
        found = SecurityProtocol((wants_tls, wants_sasl))
    elif options.security_protocol in SecurityProtocol.__members__:
        found = SecurityProtocol[options.security_protocol]
    else:
        names = ", ".join(SecurityProtocol.__members__)
        raise InvalidArgumentError(f"security_protocol is one of {names}, not {options.security_protocol!r}")
    _check_tls(options, found, wants_tls=wants_tls)
    if wants_sasl and not found.has_sasl:
        raise InvalidArgumentError(f"users, mechanisms and tokens are of SASL, and {found.name} has none")
    return found


def _check_tls(options: SecurityOptions, protocol: SecurityProtocol, *, wants_tls: bool) -> None:
    if wants_tls and not protocol.has_tls:
        raise InvalidArgumentError(f"tls is given, and {protocol.name} has no TLS")
    if options.tls is False and protocol.has_tls:
        raise InvalidArgumentError(
            f"tls is False, and {protocol.name} needs it; leave it out to have certificates made"
        )
    if options.tls_client_auth not in CLIENT_AUTH:
        raise InvalidArgumentError(
            f"tls_client_auth is one of {', '.join(CLIENT_AUTH)}, not {options.tls_client_auth!r}"
        )
    if options.tls_client_auth != "none" and (isinstance(options.tls, ssl.SSLContext) or not protocol.has_tls):
        raise InvalidArgumentError("tls_client_auth goes with certificates made here; set verify_mode of a context")


def _sasl(options: SecurityOptions, seed: int) -> SaslServer:
    mechanisms = tuple(options.sasl_mechanisms) or (MECHANISMS if options.users else (OAUTHBEARER,))
    if not options.users and mechanisms != (OAUTHBEARER,):
        raise InvalidArgumentError('SASL needs users={"name": "password"}; only OAUTHBEARER does without')
    return SaslServer(
        options.users,
        mechanisms,
        validate_token=options.validate_token,
        scram_iterations=options.scram_iterations,
        random=Random(seed),
    )
