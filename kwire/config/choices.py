"""The closed sets among the settings, and which of their members kwire cannot serve so far."""

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


UNAVAILABLE_SECURITY_PROTOCOLS = dict.fromkeys(
    (SecurityProtocol.SSL, SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL),
    "TLS and SASL are known to kwire but not available yet",
)
