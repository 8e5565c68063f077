"""The settings as a whole: names, defaults, and what must fit together."""

from __future__ import annotations

import logging
from dataclasses import FrozenInstanceError, fields, replace
from uuid import UUID

import pytest

from kwire.assignors import ASSIGNORS
from kwire.config import (
    SETTINGS,
    AllSettings,
    ConsumerConfig,
    Endpoint,
    IsolationLevel,
    MetadataRecoveryStrategy,
    OffsetReset,
    ResetKind,
    docs,
)
from kwire.config.java_names import JAVA_ONLY
from kwire.config.strategy import JAVA_CLASSES
from kwire.errors import ConfigError, InvalidGroupIdError

SERVERS = "localhost:9092"

# Java's defaults (4.x), each under its name in a properties file.
JAVA_DEFAULTS: dict[str, object] = {
    "client.id": "",
    "client.rack": "",
    "group.id": None,
    "group.instance.id": None,
    "session.timeout.ms": 45000,
    "heartbeat.interval.ms": 3000,
    "max.poll.interval.ms": 300000,
    "exclude.internal.topics": True,
    "auto.commit.interval.ms": 5000,
    "default.api.timeout.ms": 60000,
    "fetch.min.bytes": 1,
    "fetch.max.bytes": 52428800,
    "fetch.max.wait.ms": 500,
    "max.poll.records": 500,
    "check.crcs": True,
    "request.timeout.ms": 30000,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 1000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1000,
    "socket.connection.setup.timeout.ms": 10000,
    "socket.connection.setup.timeout.max.ms": 30000,
    "connections.max.idle.ms": 540000,
    "send.buffer.bytes": 131072,
    "metadata.max.age.ms": 300000,
    "metadata.recovery.rebootstrap.trigger.ms": 300000,
    "allow.auto.create.topics": True,
}

# Java's 64 KiB make a call to the system, and a wait for the interpreter, of each 64 KiB of an answer; its 1 MiB of a
# partition make answers small where there are few partitions.
OTHERWISE_THAN_JAVA: dict[str, object] = {"receive.buffer.bytes": -1, "max.partition.fetch.bytes": None}


def of(config: dict[str, object] | None = None, **settings: object) -> ConsumerConfig:
    """As `ConsumerConfig.of`, with a server, and for values no type checker would let through."""
    return ConsumerConfig.of({"bootstrap.servers": SERVERS, **(config or {}), **settings})


@pytest.mark.parametrize("java_name", JAVA_DEFAULTS)
def test_defaults_are_those_of_java(java_name: str) -> None:
    assert getattr(of(), java_name.replace(".", "_")) == JAVA_DEFAULTS[java_name]


@pytest.mark.parametrize("java_name", OTHERWISE_THAN_JAVA)
def test_other_defaults_need_no_tuning(java_name: str) -> None:
    assert getattr(of(), java_name.replace(".", "_")) == OTHERWISE_THAN_JAVA[java_name]


def test_defaults_of_closed_sets_are_those_of_java() -> None:
    config = of()
    assert config.auto_offset_reset == OffsetReset(ResetKind.LATEST)
    assert config.isolation_level is IsolationLevel.READ_UNCOMMITTED
    assert config.metadata_recovery_strategy is MetadataRecoveryStrategy.REBOOTSTRAP
    assert (config.group_protocol.value, config.security_protocol.value) == ("classic", "PLAINTEXT")


def test_each_setting_is_a_field_and_a_keyword() -> None:
    names = [found.name for found in fields(ConsumerConfig)]
    assert sorted(names) == sorted(SETTINGS)
    assert sorted(names) == sorted(AllSettings.__annotations__)


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "group_id"])
def test_both_spellings_of_a_name_mean_the_same(name: str) -> None:
    value = SERVERS if name == "bootstrap_servers" else SETTINGS[name].default
    base: dict[str, object] = {"group.id": "g"} if name == "bootstrap_servers" else {"bootstrap.servers": SERVERS}
    dotted, snake = ({**base, spelling: value} for spelling in (SETTINGS[name].java_name, name))
    assert ConsumerConfig.of(dotted) == ConsumerConfig.of(snake)


def test_keywords_and_mapping_come_together() -> None:
    config = ConsumerConfig.of({"auto.offset.reset": "earliest", "fetch_min_bytes": "7"}, bootstrap_servers=SERVERS)
    assert config.auto_offset_reset == OffsetReset(ResetKind.EARLIEST)
    assert config.fetch_min_bytes == 7
    assert config.bootstrap_servers == (Endpoint("localhost", 9092),)


@pytest.mark.parametrize(
    "config",
    [{"group.id": "a", "group_id": "a"}, {"group.id": "a"}, {"group_id": "a"}],
    ids=["both in the mapping", "dotted and keyword", "snake and keyword"],
)
def test_a_setting_given_twice_is_refused(config: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="group_id is given twice"):
        ConsumerConfig.of({"bootstrap.servers": SERVERS, **config}, group_id="a")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fetch_min_byte", "unknown setting 'fetch_min_byte'; did you mean 'fetch_min_bytes'?"),
        ("auto.offset.rest", "unknown setting 'auto.offset.rest'; did you mean 'auto.offset.reset'?"),
        ("group.Id", "unknown setting 'group.Id'; did you mean 'group.id'?"),
        ("auto.offset_reset", "unknown setting 'auto.offset_reset'; did you mean 'auto_offset_reset'?"),
        ("zzz", "unknown setting 'zzz'; `kwire config` lists all there are"),
        ("ssl.engine.factory.class", "kwire has no setting 'ssl.engine.factory.class': make an ssl.SSLContext"),
        ("interceptor_classes", "kwire has no setting 'interceptor_classes': do what it does in the loop"),
    ],
)
def test_an_unknown_name_is_refused_and_the_nearest_named(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        of({name: "1"})
    assert str(caught.value).startswith(message)


def test_a_dotted_keyword_is_refused() -> None:
    dotted: dict[str, str] = {"group.id": "g"}
    with pytest.raises(ConfigError, match=r"as a keyword, 'group\.id' is spelled group_id"):
        ConsumerConfig.of(None, **dotted)  # type: ignore[arg-type]  # what a type checker refuses as well


def test_a_config_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(ConfigError, match="config is a mapping of names to values, not str"):
        ConsumerConfig.of("localhost:9092")  # type: ignore[arg-type]  # what a type checker refuses as well


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="the name of a setting is text, not 5"):
        ConsumerConfig.of({5: 1})  # type: ignore[dict-item]  # what a type checker refuses as well


def test_the_names_only_java_has_are_not_kwires() -> None:
    assert JAVA_ONLY.isdisjoint(found.java_name for found in SETTINGS.values())


def test_the_assignors_that_can_be_named_are_there() -> None:
    assert set(JAVA_CLASSES) == set(ASSIGNORS)


def test_servers_are_required() -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers is missing"):
        ConsumerConfig.of()


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_group_id_is_refused(blank: str) -> None:
    with pytest.raises(InvalidGroupIdError, match="group_id is blank"):
        of(group_id=blank)


@pytest.mark.parametrize(
    ("group_id", "given", "expected"),
    [("g", None, True), (None, None, False), ("g", "false", False), (None, False, False), ("g", True, True)],
)
def test_auto_commit_is_on_by_default_in_a_group(group_id: str | None, given: object, expected: bool) -> None:
    config = of({} if given is None else {"enable.auto.commit": given}, group_id=group_id)
    assert config.enable_auto_commit is expected


def test_auto_commit_without_a_group_is_refused() -> None:
    with pytest.raises(ConfigError, match="enable_auto_commit=True needs a group_id"):
        of(enable_auto_commit=True)


def test_a_lag_needs_a_group() -> None:
    """Without one it was taken, and had no effect."""
    with pytest.raises(ConfigError, match="enable_parallel_rebalance=True needs a group_id"):
        of(enable_parallel_rebalance=True)
    assert of(enable_parallel_rebalance=True, group_id="g").enable_parallel_rebalance


@pytest.mark.parametrize(
    ("name", "value"),
    [("partition_assignment_strategy", "range"), ("heartbeat.interval.ms", "3000"), ("session_timeout_ms", 45_000)],
)
def test_the_consumer_protocol_refuses_what_only_the_classic_one_looks_at(name: str, value: object) -> None:
    snake = name.replace(".", "_")
    with pytest.raises(ConfigError, match=f'{snake} cannot be set with group_protocol="consumer"'):
        ConsumerConfig.of({"bootstrap_servers": "h:1", "group_id": "g", "group_protocol": "consumer", name: value})


def test_the_brokers_assignor_belongs_to_the_consumer_protocol() -> None:
    with pytest.raises(ConfigError, match='group_remote_assignor needs group_protocol="consumer"'):
        of(group_remote_assignor="uniform")
    assert of(group_protocol="consumer", group_remote_assignor="range").group_remote_assignor == "range"
    assert of(group_remote_assignor=None).group_remote_assignor is None


def test_heartbeats_are_more_frequent_than_the_session_timeout() -> None:
    with pytest.raises(ConfigError, match="heartbeat_interval_ms=3000 must be below session_timeout_ms=3000"):
        of(session_timeout_ms=3000)


def test_what_fits_together_is_also_checked_in_copies() -> None:
    with pytest.raises(ConfigError, match="heartbeat_interval_ms"):
        replace(of(), heartbeat_interval_ms=45_000)


def test_reconnects_keep_their_pace_when_only_the_first_pause_is_given() -> None:
    assert of(reconnect_backoff_ms=2000).reconnect_backoff_max_ms == 2000
    assert of(reconnect_backoff_ms=20, reconnect_backoff_max_ms=200).reconnect_backoff_max_ms == 200


@pytest.mark.parametrize("kind", ["retry_backoff", "reconnect_backoff", "socket_connection_setup_timeout"])
def test_a_first_pause_above_the_longest_is_cut_with_a_warning(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kwire.config"):
        config = of({f"{kind}_ms": 900, f"{kind}_max_ms": 300})
    assert getattr(config, f"{kind}_ms") == 300
    assert caplog.messages == [f"{kind}_ms is above {kind}_max_ms; it is taken as 300"]


def test_fetches_that_outwait_their_request_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    of(fetch_max_wait_ms=30_000)
    assert "fetch_max_wait_ms is not below request_timeout_ms" in caplog.text


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        of().group_id = "g"  # type: ignore[misc]  # what a type checker refuses as well


def test_each_setting_is_documented() -> None:
    rows = docs()
    assert [row.name for row in rows] == list(SETTINGS)
    assert all(row.doc.endswith(".") for row in rows)
    assert all(row.default and row.valid for row in rows)


def test_defaults_are_shown_as_one_would_write_them() -> None:
    shown = {row.java_name: row.default for row in docs()}
    assert shown["bootstrap.servers"] == "required"
    assert shown["group.id"] == "not set"
    assert shown["check.crcs"] == "true"
    assert shown["auto.offset.reset"] == "latest"
    assert shown["isolation.level"] == "read_uncommitted"
    assert shown["partition.assignment.strategy"] == "range,cooperative-sticky"
    assert shown["client.id"] == '""'
    assert shown["max.poll.records"] == "500"


@pytest.mark.parametrize("name", [name for name, found in SETTINGS.items() if found.shown_default is None])
def test_a_shown_default_can_be_given_back(name: str) -> None:
    shown = {row.name: row.default for row in docs()}[name]
    if shown not in ("not set", '""'):
        assert SETTINGS[name].parse(shown) == SETTINGS[name].default


# --- files of the Java client -----------------------------------------------------------------------------------


def test_settings_of_the_java_client_that_change_nothing_are_left_out_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = {"metric.reporters": "", "metrics.recording.level": "INFO"}
    ConsumerConfig.of({"bootstrap.servers": "b:1", **given})
    (line,) = caplog.messages
    assert all(name in line for name in given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("interceptor.classes", "com.example.Mine"),
        ("ssl.cipher.suites", "TLS_AES_256_GCM_SHA384"),
    ],
)
def test_those_that_would_change_something_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"kwire has no setting '{name}'"):
        ConsumerConfig.of({"bootstrap.servers": "b:1", name: value})


@pytest.mark.parametrize(
    ("java", "data", "value"),
    [
        ("String", "zwölf".encode(), "zwölf"),
        ("Long", b"\0\0\0\0\0\0\0\x0c", 12),
        ("Integer", b"\xff\xff\xff\xfe", -2),
        ("Short", b"\0\x03", 3),
        ("Double", b"?\xf8\0\0\0\0\0\0", 1.5),
        ("Float", b"?\xc0\0\0", 1.5),
        ("Boolean", b"\1", True),
        ("UUID", b"5f0f3bc4-6a0c-4b3e-8f1e-0d3c1a2b3c4d", UUID("5f0f3bc4-6a0c-4b3e-8f1e-0d3c1a2b3c4d")),
    ],
)
def test_deserializers_of_the_java_client_go_by_their_names(java: str, data: bytes, value: object) -> None:
    name = f"org.apache.kafka.common.serialization.{java}Deserializer"
    decode = ConsumerConfig.of({"bootstrap.servers": "b:1", "value.deserializer": name}).value_deserializer
    assert callable(decode)
    assert decode(data) == value  # type: ignore[call-arg]  # Java's take no context
