"""The closed sets among the settings."""

from __future__ import annotations

from enum import Enum


class IsolationLevel(Enum):
    """Which records of transactions are read. The value is what Fetch and ListOffsets send."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class GroupProtocol(Enum):
    """How group members agree on who reads what."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class MetadataRecoveryStrategy(Enum):
    """What to do when the brokers that are known are of no use any more (KIP-899)."""

    NONE = "none"
    REBOOTSTRAP = "rebootstrap"


class ClientDnsLookup(Enum):
    """What a name among the bootstrap servers stands for."""

    USE_ALL_DNS_IPS = "use_all_dns_ips"
    RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY = "resolve_canonical_bootstrap_servers_only"


class SecurityProtocol(Enum):
    """How connections are secured. The names are those of Kafka's listeners."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def is_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class SaslMechanism(Enum):
    """SASL mechanisms. The values are their registered names."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"
    GSSAPI = "GSSAPI"

    @property
    def is_scram(self) -> bool:
        return self in (SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)

    @property
    def takes_password(self) -> bool:
        return self is SaslMechanism.PLAIN or self.is_scram


class TlsVersion(Enum):
    """Versions of TLS that are safe to speak. The values are Java's names."""

    TLS_1_2 = "TLSv1.2"
    TLS_1_3 = "TLSv1.3"


class EndpointIdentification(Enum):
    """Whether the name in a broker's certificate has to be the one it was reached by."""

    HTTPS = "https"
    NONE = ""


class AssertionAlgorithm(Enum):
    """How an assertion for a login server is signed (RFC 7518)."""

    RS256 = "RS256"
    ES256 = "ES256"
