"""The settings as keyword arguments, for `def f(**settings: Unpack[Settings])`.

The types are what a user of the keywords writes; mappings may also hold the spellings of a properties file. A test
keeps the names equal to those of `ConsumerConfig`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from kwire.config.choices import (
    ClientDnsLookup,
    GroupProtocol,
    IsolationLevel,
    MetadataRecoveryStrategy,
    SecurityProtocol,
)
from kwire.config.deserializers import AnyDeserializer
from kwire.config.endpoints import Endpoint
from kwire.config.offset_reset import OffsetReset
from kwire.config.strategy import Strategy


class Settings(TypedDict, total=False):
    """See `ConsumerConfig` for what each means, or run `kwire config`."""

    bootstrap_servers: str | Sequence[str | Endpoint]
    client_dns_lookup: str | ClientDnsLookup
    client_id: str
    client_rack: str
    security_protocol: str | SecurityProtocol

    group_id: str | None
    group_protocol: str | GroupProtocol
    group_instance_id: str | None
    partition_assignment_strategy: Strategy | Sequence[Strategy]
    group_remote_assignor: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    enable_async_revocation: bool
    enable_parallel_rebalance: bool
    parallel_rebalance_min_lag_records: int
    parallel_rebalance_min_lag_ms: int | None
    parallel_rebalance_head_share: float
    parallel_rebalance_children: int

    auto_offset_reset: str | OffsetReset
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    isolation_level: str | IsolationLevel

    key_deserializer: AnyDeserializer | None
    value_deserializer: AnyDeserializer | None
    max_poll_records: int
    check_crcs: bool

    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    fetch_buffer_bytes: int

    metadata_max_age_ms: int
    allow_auto_create_topics: bool
    metadata_recovery_strategy: str | MetadataRecoveryStrategy
    metadata_recovery_rebootstrap_trigger_ms: int
    metadata_cluster_check_enable: bool
    exclude_internal_topics: bool

    default_api_timeout_ms: int
    request_timeout_ms: int
    close_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int

    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    receive_buffer_bytes: int
    send_buffer_bytes: int
