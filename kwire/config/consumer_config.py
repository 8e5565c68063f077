# ruff: noqa: RUF009 - setting() answers what dataclasses.field() does, which that rule allows
"""The settings of a consumer: one frozen dataclass, in which a field is type, default, doc and parser.

Contract: a `ConsumerConfig` made by `of` is complete and consistent: nothing is checked again. Names,
defaults, ranges and cross-checks are those of the Java client 4.x, so that its properties files can be used unchanged.
Made by the facades and the command line, read everywhere above.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Unpack, cast

from kwire.config.choices import ClientDnsLookup, GroupProtocol, IsolationLevel, MetadataRecoveryStrategy
from kwire.config.deserializers import AnyDeserializer, deserializer
from kwire.config.endpoints import Endpoint, endpoints, listeners
from kwire.config.event_listener import event_listener
from kwire.config.foreign_values import settle_key_pair
from kwire.config.names import kwires_own, snake_case_names
from kwire.config.offset_reset import OffsetReset, ResetKind, offset_reset
from kwire.config.parsers import (
    MAX_LONG,
    Parser,
    boolean,
    choice,
    integer,
    optional_integer,
    optional_text,
    share,
    text,
)
from kwire.config.problems import Problems
from kwire.config.registry_classes import with_registry_classes
from kwire.config.security_checks import (
    check_listeners,
    check_security,
    fill_in_mechanism,
    hide_secrets,
    warn_of_unused,
)
from kwire.config.security_config import SecurityConfig
from kwire.config.setting import setting, settings_of
from kwire.config.settings import AllSettings
from kwire.config.strategy import NamedAssignor, strategies
from kwire.errors import ConfigError, InvalidGroupIdError

if TYPE_CHECKING:
    from kwire.consumer_events import OnEvent

log = logging.getLogger("kwire.config")

MIB = 1024 * 1024
DEFAULT_MAX_POLL_RECORDS = 500
# Each has a buffer and fetch sessions; one network thread feeds them all.
MAX_CHILDREN = 16


def _group_id() -> Parser[str | None]:
    def read(value: object) -> str | None:
        if isinstance(value, str) and not value.strip():
            raise InvalidGroupIdError("group_id is blank; name the group, or leave group_id out to read without one")
        return optional_text().read(value)

    return Parser(read, "text that is not blank, or None to read without a group")


NO_BROKERS = "bootstrap_servers is missing; name at least one broker, as in localhost:9092"
"""The text of an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(SecurityConfig):
    """All settings of a consumer, with values that are valid each and together. Make one with `of`."""

    # --- brokers and identity -----------------------------------------------------------------------------------
    bootstrap_servers: tuple[Endpoint, ...] = setting(
        (), "Brokers to begin with; the others are learned from them.", endpoints(), shown_default="required"
    )
    client_dns_lookup: ClientDnsLookup = setting(
        ClientDnsLookup.USE_ALL_DNS_IPS,
        "How to use the addresses of a bootstrap server's name: as addresses of one broker (KIP-302), or each as a "
        "broker of its own, under the canonical name of the address (KIP-235).",
        choice(ClientDnsLookup),
    )
    client_id: str = setting("", "How brokers name this client in logs and quotas; made up when empty.", text())
    client_rack: str = setting("", "Where this client is; replicas in the same rack are read from (KIP-392).", text())

    # --- the group ----------------------------------------------------------------------------------------------
    group_id: str | None = setting(
        None, "The group whose members share the partitions, and under which offsets are committed.", _group_id()
    )
    group_protocol: GroupProtocol = setting(
        GroupProtocol.CLASSIC,
        "How the members of the group agree on who reads what.",
        choice(GroupProtocol),
    )
    group_instance_id: str | None = setting(
        None,
        "Makes this a static member, which keeps its partitions over a restart (KIP-345); unique in the group.",
        optional_text("text that is not blank, or None for a dynamic member"),
    )
    partition_assignment_strategy: tuple[str | NamedAssignor, ...] = setting(
        ("range", "cooperative-sticky"),
        "How the partitions are shared out, the preferred way first: range, roundrobin, sticky, cooperative-sticky, "
        "or an Assignor of your own. Only with group_protocol=classic.",
        strategies(),
    )
    group_remote_assignor: str | None = setting(
        None,
        'Which assignor the broker uses, with group_protocol="consumer": uniform, range, or another one that it has.',
        optional_text(),
        shown_default="the broker's choice",
    )
    session_timeout_ms: int = setting(
        45_000,
        "If no heartbeat arrives for this long, the broker removes the member. Only with group_protocol=classic: "
        "otherwise the broker decides.",
        integer(1),
    )
    heartbeat_interval_ms: int = setting(
        3_000,
        "Time between heartbeats; at most a third of session_timeout_ms is best. Only with group_protocol=classic.",
        integer(1),
    )
    max_poll_interval_ms: int = setting(
        300_000,
        "Without a poll for this long, the member leaves; also how long a rebalance waits for this member.",
        integer(1),
    )
    enable_async_revocation: bool = setting(
        False,
        "When the group asks for partitions, return no more of their records, and give them back in the next poll, or "
        "later with delay_revoke (KIP-983); kwire's own.",
        boolean(),
    )

    enable_parallel_rebalance: bool = setting(
        False,
        "After a crash, read the newest records first, and the backlog beside them; kwire's own.",
        boolean(),
    )
    parallel_rebalance_min_lag_records: int = setting(
        1,
        "A backlog of at least this many records is read beside the newest ones, a smaller one in order; kwire's own.",
        integer(1),
    )
    parallel_rebalance_min_lag_ms: int | None = setting(
        None,
        "A smaller backlog is read beside the newest records, too, if its first one is at least this old; kwire's own.",
        optional_integer(1),
        shown_default="not set: a smaller backlog is read in order",
    )
    parallel_rebalance_head_share: float = setting(
        0.5, "The share of fetched bytes that the newest records have beside a backlog; kwire's own.", share()
    )
    parallel_rebalance_children: int = setting(
        1, "How many child cursors share a long backlog; kwire's own.", integer(1, MAX_CHILDREN)
    )

    # --- offsets ------------------------------------------------------------------------------------------------
    auto_offset_reset: OffsetReset = setting(
        OffsetReset(ResetKind.LATEST),
        "Where to begin without a committed offset, or with one that is no longer in the log: earliest, latest, none "
        "(an error), or with records of a certain age, as in by_duration:PT6M.",
        offset_reset(),
    )
    enable_auto_commit: bool = setting(
        False,
        "Commit in the background what earlier polls returned.",
        boolean(),
        shown_default="true with a group_id, else false",
    )
    auto_commit_interval_ms: int = setting(5_000, "Time between automatic commits.", integer(0))
    isolation_level: IsolationLevel = setting(
        IsolationLevel.READ_UNCOMMITTED,
        "Whether to hold back records of transactions until they are committed.",
        choice(IsolationLevel),
    )

    # --- records ------------------------------------------------------------------------------------------------
    key_deserializer: AnyDeserializer | None = setting(None, "Makes keys of bytes.", deserializer())
    value_deserializer: AnyDeserializer | None = setting(None, "Makes values of bytes.", deserializer())
    max_poll_records: int = setting(
        DEFAULT_MAX_POLL_RECORDS,
        "How many records one poll returns at most; poll(max_records=...) overrides it. Of large records it returns "
        "fewer: see fetch_buffer_bytes.",
        integer(1),
    )
    check_crcs: bool = setting(True, "Verify the checksum of each batch.", boolean())

    # --- fetching -----------------------------------------------------------------------------------------------
    fetch_min_bytes: int = setting(1, "A broker waits until it has this much, up to fetch_max_wait_ms.", integer(0))
    fetch_max_wait_ms: int = setting(500, "How long a broker waits for fetch_min_bytes, at most.", integer(0))
    fetch_max_bytes: int = setting(
        50 * MIB, "The most bytes in the answer to one fetch, except for a first batch that is larger.", integer(0)
    )
    max_partition_fetch_bytes: int | None = setting(
        None,
        "The most bytes of one partition in the answer to one fetch, except for a first batch that is larger.",
        optional_integer(0),
        shown_default="1 to 4 MiB, the fewer partitions the more",
    )
    fetch_buffer_bytes: int = setting(
        64 * MIB,
        "The most that is fetched ahead of poll (KIP-81). A poll adds no more records once it has 3 MiB, or a "
        "quarter of this, if that is less. kwire's own.",
        integer(1, MAX_LONG),
    )

    # --- metadata -----------------------------------------------------------------------------------------------
    metadata_max_age_ms: int = setting(
        300_000, "After this long, topics and leaders are asked for again.", integer(0, MAX_LONG)
    )
    allow_auto_create_topics: bool = setting(
        True,
        "Let the broker create a missing topic, if it does that, when it is subscribed to, assigned, or looked up, "
        "as by end_offsets or partitions_for.",
        boolean(),
    )
    metadata_recovery_strategy: MetadataRecoveryStrategy = setting(
        MetadataRecoveryStrategy.REBOOTSTRAP,
        "What to do when no known broker is of use: start from bootstrap_servers again (KIP-899), or nothing.",
        choice(MetadataRecoveryStrategy),
    )
    metadata_recovery_rebootstrap_trigger_ms: int = setting(
        300_000,
        "Metadata that cannot be had for this long makes the client start from bootstrap_servers again (KIP-1102).",
        integer(0, MAX_LONG),
    )
    metadata_cluster_check_enable: bool = setting(
        True,
        "Send the expected cluster and broker ids when connecting, so that a broker can refuse a connection that is "
        "meant for another one (KIP-1242). After a refusal the client starts from bootstrap_servers again. Needs "
        "metadata_recovery_strategy=rebootstrap.",
        boolean(),
    )
    exclude_internal_topics: bool = setting(True, "Keep Kafka's own topics out of subscribed patterns.", boolean())

    # --- time ---------------------------------------------------------------------------------------------------
    default_api_timeout_ms: int = setting(60_000, "How long a call without a timeout of its own may take.", integer(0))
    request_timeout_ms: int = setting(
        30_000,
        "How long one request may wait for its answer; up to ten times as long while a large one comes in.",
        integer(0),
    )
    close_timeout_ms: int = setting(30_000, "How long close may take by default; kwire's own.", integer(0))
    retry_backoff_ms: int = setting(100, "Pause before a request is first tried again.", integer(0, MAX_LONG))
    retry_backoff_max_ms: int = setting(1_000, "The pause between attempts doubles up to this.", integer(0, MAX_LONG))
    reconnect_backoff_ms: int = setting(50, "Pause before a broker is first connected to again.", integer(0, MAX_LONG))
    reconnect_backoff_max_ms: int = setting(
        1_000,
        "The pause between attempts to connect doubles up to this.",
        integer(0, MAX_LONG),
        shown_default="1000; reconnect_backoff_ms, if only that is given",
    )

    # --- metrics ------------------------------------------------------------------------------------------------
    metrics_num_samples: int = setting(
        2, "From how many samples the rates, averages and extremes of metrics are calculated.", integer(1)
    )
    metrics_sample_window_ms: int = setting(30_000, "How long a sample of metrics is.", integer(0, MAX_LONG))

    enable_metrics_push: bool = setting(
        True, "Push metrics to brokers that want them (KIP-714); those that do not are not asked.", boolean()
    )

    # --- events -------------------------------------------------------------------------------------------------
    on_event: OnEvent | None = setting(
        None,
        "A function that is called, in a thread of its own, with events that operators want to know at once; kwire's "
        "own.",
        event_listener(),
    )
    event_lag_records: int | None = setting(
        None,
        "on_event is called for a partition that is further behind the end of its log than this; kwire's own.",
        optional_integer(0, MAX_LONG),
    )

    # --- connections --------------------------------------------------------------------------------------------
    socket_connection_setup_timeout_ms: int = setting(
        10_000, "How long a first attempt to connect may take.", integer(1, MAX_LONG)
    )
    socket_connection_setup_timeout_max_ms: int = setting(
        30_000, "Each further attempt to connect may take twice as long, up to this.", integer(1, MAX_LONG)
    )
    connections_max_idle_ms: int = setting(
        540_000, "A connection that is idle for this long is closed; -1 or 0 keeps it.", integer(-1, MAX_LONG)
    )
    receive_buffer_bytes: int = setting(-1, "SO_RCVBUF; -1 leaves it to the system.", integer(-1))
    send_buffer_bytes: int = setting(131_072, "SO_SNDBUF; -1 leaves it to the system.", integer(-1))

    def __post_init__(self) -> None:
        if not self.bootstrap_servers:
            raise ConfigError(NO_BROKERS)
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be below "
                f"session_timeout_ms={self.session_timeout_ms}, best a third of it or less"
            )
        if self.enable_auto_commit and self.group_id is None:
            raise ConfigError("enable_auto_commit=True needs a group_id to commit under")
        if self.enable_parallel_rebalance and self.group_id is None:
            raise ConfigError(
                "enable_parallel_rebalance=True needs a group_id: it reads what the group has not committed"
            )
        check_security(self)

    @property
    def reads_committed(self) -> bool:
        """Whether records of transactions that are aborted, or not over yet, are left out."""
        return self.isolation_level is IsolationLevel.READ_COMMITTED

    @classmethod
    def of(cls, config: Mapping[str, object] | None = None, **settings: Unpack[AllSettings]) -> ConsumerConfig:
        """Read settings as a user gives them.

        Args:
            config: under Java's dotted names or in snake_case; values may be spelled as in a properties file.
            settings: in snake_case.

        Returns:
            The settings, with defaults for those that are not given.

        Raises:
            ConfigError: names are unknown or given twice, values are bad, or two contradict each other.
            InvalidGroupIdError: `group_id` is blank.
        """
        if config is not None and not isinstance(config, Mapping):
            raise ConfigError(f"config is a mapping of names to values, not {type(config).__name__}")
        keywords = cast("dict[str, object]", settings)
        hide_secrets(SETTINGS, keywords)
        given = snake_case_names(SETTINGS, with_registry_classes(config or {}), keywords)
        hide_secrets(SETTINGS, given)
        values = _parsed(given)
        _check_protocol(values)
        settle_key_pair(values)
        fill_in_mechanism(values)
        warn_of_unused(values)
        _fill_in(values)
        make: Callable[..., ConsumerConfig] = cls
        config_made = make(**values)
        check_listeners(listeners(given.get("bootstrap_servers")), config_made.security_protocol)
        return _clamped(config_made)


SETTINGS = settings_of(ConsumerConfig)


def _parsed(given: Mapping[str, object]) -> dict[str, object]:
    """The values. Raises: ConfigError, which names all that are bad."""
    values: dict[str, object] = {}
    problems = Problems()
    for name, value in given.items():
        with problems.noted():
            values[name] = SETTINGS[name].parse(value)
    problems.raise_them()
    return values


def parse_setting(name: str, value: object) -> tuple[str, object]:
    """The snake_case name and the checked value of one setting, for callers that know where it comes from.

    Raises:
        ConfigError: there is no such setting, or the value is bad.
    """
    snake, converted = kwires_own(SETTINGS, name, value)
    return snake, SETTINGS[snake].parse(converted)


# As in the Java client: what the other protocol does not look at is refused, so that nobody relies on it.
_OF_CLASSIC_ALONE = ("partition_assignment_strategy", "heartbeat_interval_ms", "session_timeout_ms")


def _check_protocol(values: Mapping[str, object]) -> None:
    """Settings that are given (not those by default) must be ones that the group protocol knows."""
    if values.get("group_protocol") is not GroupProtocol.CONSUMER:
        if values.get("group_remote_assignor") is not None:
            raise ConfigError('group_remote_assignor needs group_protocol="consumer"')
        return
    for name in _OF_CLASSIC_ALONE:
        if name in values:
            raise ConfigError(
                f'{name} cannot be set with group_protocol="consumer", where the broker decides it; '
                'leave it out, or set group_protocol="classic"'
            )


def _fill_in(values: dict[str, object]) -> None:
    """Defaults that depend on what was given, as in the Java client."""
    values.setdefault("enable_auto_commit", values.get("group_id") is not None)
    if "reconnect_backoff_ms" in values:
        values.setdefault("reconnect_backoff_max_ms", values["reconnect_backoff_ms"])


def _clamped(config: ConsumerConfig) -> ConsumerConfig:
    """A first pause above the longest is cut to it, as in the Java client: the user sees a warning, not an error."""
    changes: dict[str, int] = {}
    for first, longest in (
        ("retry_backoff_ms", "retry_backoff_max_ms"),
        ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
        ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
    ):
        limit_ms: int = getattr(config, longest)
        if getattr(config, first) > limit_ms:
            log.warning("%s is above %s; it is taken as %d", first, longest, limit_ms)
            changes[first] = limit_ms
    if config.fetch_max_wait_ms >= config.request_timeout_ms:
        log.warning("fetch_max_wait_ms is not below request_timeout_ms: fetches that find no data will time out")
    make: Callable[..., ConsumerConfig] = replace
    return make(config, **changes)
