"""Security of a real cluster: listeners with TLS and SASL beside the plain one, users, certificates, permissions.

    with KafkaCluster(1, security=Security(users={"alice": "secret"})) as kafka:
        connect(kafka.bootstrap("SASL_SSL"), ssl_truststore_location=kafka.certificates.path, ...)

`cluster` adds these settings to those of the brokers. Brokers, controllers and the test itself connect in plain text:
the principal of that listener, User:ANONYMOUS, may do everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kwire.testing.kafka.jars import ClusterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SECURED = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""The security protocols that get a listener of the same name."""

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (PLAIN, *SCRAM, OAUTHBEARER)
CLIENT_AUTH = ("none", "requested", "required")
_PACKAGE = "org.apache.kafka.common.security"
# Characters with a meaning in the format tool's [name=...,password=...].
_SCRAM_SPECIAL = frozenset(",[]='\"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The security of a cluster.

    Args:
        users: names and passwords for PLAIN and both kinds of SCRAM. OAUTHBEARER accepts any unsecured token.
        client_auth: Kafka's `ssl.client.auth`, of the listeners with TLS: "none", "requested" or "required".
        authorizer: whether permissions (ACLs) are checked. Then only User:ANONYMOUS, the principal of the plain
            listener, may do anything until ACLs are added.
        hosts: more names and addresses for the brokers' certificates.
        proxied: the security protocol of the listener that is advertised as something else (`KafkaCluster.advertised`).

    Raises:
        ClusterError: an argument has no valid value.
    """

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    client_auth: str = "none"
    authorizer: bool = False
    hosts: Sequence[str] = ()
    proxied: str = "PLAINTEXT"

    def __post_init__(self) -> None:
        if self.client_auth not in CLIENT_AUTH:
            raise ClusterError(f"client_auth is one of {', '.join(CLIENT_AUTH)}, not {self.client_auth!r}")
        if self.proxied not in ("PLAINTEXT", *SECURED):
            raise ClusterError(f"proxied is one of PLAINTEXT, {', '.join(SECURED)}, not {self.proxied!r}")
        for name, password in self.users.items():
            text = name + password
            if not name or not password or _SCRAM_SPECIAL & {*text} or not (text.isascii() and text.isprintable()):
                raise ClusterError(
                    f"user {name!r}: names and passwords are of printable ASCII, without , [ ] = ' and \", which stand "
                    "for something else in what Kafka is told of them"
                )

    @property
    def scram_options(self) -> list[str]:
        """The options of the format tool that create the users (KIP-900)."""
        return [
            option
            for name, password in self.users.items()
            for mechanism in SCRAM
            for option in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
        ]

    def settings(self, keystore: Path, truststore: Path) -> dict[str, str]:
        """The settings of brokers. The files are PEM (KIP-651)."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(truststore),
            **{f"listener.name.{name.lower()}.ssl.client.auth": self.client_auth for name in self._listeners("SSL")},
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            **{
                f"listener.name.{name.lower()}.{mechanism.lower()}.sasl.jaas.config": self._login(mechanism)
                for name in self._listeners("SASL")
                for mechanism in MECHANISMS
            },
            **(AUTHORIZER if self.authorizer else {}),
        }

    def _listeners(self, what: str) -> list[str]:
        """The names of the listeners with "SSL", or with "SASL"."""
        named = {**{protocol: protocol for protocol in SECURED}, "CLIENT": self.proxied}
        return [name for name, protocol in named.items() if what in protocol.split("_")]

    def _login(self, mechanism: str) -> str:
        """The JAAS configuration of a mechanism. Without another validator OAUTHBEARER's tokens are unsecured ones."""
        match mechanism:
            case "PLAIN":
                users = "".join(f' "user_{name}"="{_quoted(password)}"' for name, password in self.users.items())
                return f"{_PACKAGE}.plain.PlainLoginModule required{users};"
            case "OAUTHBEARER":
                subject = 'unsecuredLoginStringClaim_sub="broker"'
                return f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule required {subject};"
            case _:
                return f"{_PACKAGE}.scram.ScramLoginModule required;"


AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\")
