"""Settings of brokers and topics under Kafka's names, dots written as underscores, with Kafka 4.3's defaults.

The one default that differs is `group_initial_rebalance_delay_ms`: tests should not wait 3 s for their first member.
Only settings that the cluster acts on are here; `config_catalog` knows what DescribeConfigs shows besides.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from kwire.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

UNLIMITED = -1
MAX_INT64 = (1 << 63) - 1

_WORDS = {bool: "true or false", int: "a whole number", str: "text", tuple: "a list"}
_CHOICES = {
    "group_consumer_assignors": ("uniform", "range"),
    "group_consumer_migration_policy": ("bidirectional", "upgrade", "downgrade", "disabled"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The settings of every broker of the cluster, and the defaults of topics."""

    auto_create_topics_enable: bool = True
    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    message_max_bytes: int = 1_048_588
    socket_request_max_bytes: int = 104_857_600
    broker_session_timeout_ms: int = 9_000

    fetch_max_bytes: int = 57_671_680
    max_incremental_fetch_session_cache_slots: int = 1_000
    min_incremental_fetch_session_eviction_ms: int = 120_000
    replica_selector_is_rack_aware: bool = False
    """Kafka's `replica.selector.class`: whether fetches are sent to the replica of the reader's rack (KIP-392)."""

    group_initial_rebalance_delay_ms: int = 0
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096

    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_regex_refresh_interval_ms: int = 600_000

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_partition_verification_enable: bool = True
    transaction_two_phase_commit_enable: bool = False
    transaction_marker_delay_ms: int = 0
    """How long after EndTxn is answered its markers are written. Kafka's coordinators take a round trip or two."""

    load_ms: int = 0
    """How long a coordinator that has just moved answers COORDINATOR_LOAD_IN_PROGRESS. Kafka's depends on the log."""

    connections_max_reauth_ms: int = 0
    """How long an authenticated session lasts (KIP-368); 0 for as long as the connection."""

    connection_failed_authentication_delay_ms: int = 100
    sasl_server_max_receive_size: int = 524_288

    allow_everyone_if_no_acl_found: bool = True
    """Whether operations that no rule of `Cluster.allow` and `Cluster.deny` matches are allowed."""

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> BrokerSettings:
        """The defaults with these settings changed. Names have dots or underscores; values are Python values or text.

        Raises:
            InvalidArgumentError: There is no such setting here, or it has another type.
        """
        kinds = {field.name: type(getattr(cls(), field.name)) for field in fields(cls)}
        named = {name.replace(".", "_"): value for name, value in settings.items()}
        unknown = [name for name in named if name not in kinds]
        if unknown:
            raise InvalidArgumentError(f"the in-process cluster has no setting {unknown[0]!r}; it has {sorted(kinds)}")
        values = {name: _taken(name, kinds[name], value) for name, value in named.items()}
        return replace(cls(), **values)  # type: ignore[arg-type]  # each was compared with its field's own type


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The settings of one topic's logs."""

    cleanup_policy: str = "delete"
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = MAX_INT64
    message_timestamp_after_max_ms: int = 3_600_000
    min_insync_replicas: int = 1
    compression_type: str = "producer"
    segment_bytes: int = 1_073_741_824
    retention_ms: int = 604_800_000
    retention_bytes: int = UNLIMITED
    delete_retention_ms: int = 86_400_000

    @property
    def is_compacted(self) -> bool:
        return "compact" in self._policies

    @property
    def is_retained(self) -> bool:
        """Whether records are deleted by age or size."""
        return "delete" in self._policies

    @property
    def _policies(self) -> tuple[str, ...]:
        return tuple(policy.strip() for policy in self.cleanup_policy.split(","))

    @classmethod
    def of(cls, config: Mapping[str, str], broker: BrokerSettings) -> TopicSettings:
        """The settings of a topic with this configuration; other names than those above change nothing."""
        defaults = cls(max_message_bytes=broker.message_max_bytes, min_insync_replicas=broker.min_insync_replicas)
        kinds = {field.name: type(getattr(defaults, field.name)) for field in fields(cls)}
        named = {name.replace(".", "_"): value for name, value in config.items()}
        values = {name: _parsed(kinds[name], value) for name, value in named.items() if name in kinds}
        return replace(defaults, **values)  # type: ignore[arg-type]  # each was parsed as its field's own type


def _taken(name: str, kind: type, value: object) -> object:
    """The value in the type of the setting. Raises: InvalidArgumentError."""
    try:
        taken = _parsed(kind, value) if isinstance(value, str) else value
    except (ValueError, KeyError):
        taken = None
    if kind is tuple and isinstance(taken, list):
        taken = tuple(taken)
    # True is a number in Python, and none in a file of Kafka's.
    is_of_kind = isinstance(taken, kind) and isinstance(taken, bool) is (kind is bool)
    choices = _CHOICES.get(name, ())
    chosen = taken if isinstance(taken, tuple) else (taken,)
    if not is_of_kind or (choices and not (chosen and set(chosen) <= set(choices))):
        wanted = f"of {', '.join(choices)}" if choices else _WORDS[kind]
        raise InvalidArgumentError(f"the setting {name!r} of the in-process cluster takes {wanted}, not {value!r}")
    return taken


def _parsed(kind: type, text: str) -> str | int | bool | tuple[str, ...]:
    """Raises: ValueError or KeyError, if the text is no value of this type."""
    if kind is bool:
        return {"true": True, "false": False}[text.strip().lower()]
    if kind is tuple:
        return tuple(part.strip() for part in text.split(","))
    return int(text) if kind is int else text.strip()
