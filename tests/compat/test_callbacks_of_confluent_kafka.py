"""`stats_cb`, `oauth_cb` and `logger`, given to confluent-kafka and to kwire's adapter."""

from __future__ import annotations

import gc
import json
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from kwire.compat import confluent_kafka as adapter
from kwire.testing import Cluster

if TYPE_CHECKING:
    from tests.compat.confluent_settings import settings
else:
    from confluent_settings import settings

pytestmark = pytest.mark.slow
BOTH = pytest.mark.parametrize("module", [confluent_kafka, adapter], ids=["confluent-kafka", "kwire"])
PATIENCE_S = 30.0
OFFSETS = ("next_offset", "app_offset", "stored_offset", "committed_offset", "hi_offset", "ls_offset")


def poll_until(consumer: Any, done: Callable[[], object]) -> list[Any]:  # noqa: ANN401  of either module
    found: list[Any] = []
    end_s = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < end_s, found
        if (message := consumer.poll(0.05)) is not None and message.error() is None:
            found.append(message)
    return found


def read_values(consumer: Any, count: int) -> list[bytes]:  # noqa: ANN401  of either module
    values: list[bytes] = []
    end_s = time.monotonic() + PATIENCE_S
    while len(values) < count:
        assert time.monotonic() < end_s, values
        if (message := consumer.poll(0.05)) is not None and message.error() is None:
            values.append(message.value())
    return values


# --- statistics ------------------------------------------------------------------------------------------------------


def partitions_of(told: list[str]) -> dict[str, Any]:
    """librdkafka has one more, -1, for what is not known to be of any."""
    topic = json.loads(told[-1])["topics"].get("orders", {"partitions": {}}) if told else {"partitions": {}}
    return {number: found for number, found in topic["partitions"].items() if number != "-1"}


@BOTH
def test_statistics_tell_where_each_partition_stands(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    told: list[str] = []
    consumer = module.Consumer({**settings(cluster, statistics_interval_ms=50), "stats_cb": told.append})
    consumer.subscribe(["orders"])
    read: list[object] = []
    while len(read) < 6:
        read += poll_until(consumer, lambda: True) or consumer.consume(1, 0.1)
    consumer.commit(asynchronous=False)

    def is_all_known() -> bool:
        known = partitions_of(told)
        return len(known) == 2 and all(one["committed_offset"] == one["hi_offset"] == 3 for one in known.values())

    poll_until(consumer, is_all_known)
    for number, found in partitions_of(told).items():
        assert {name: found[name] for name in OFFSETS} == dict.fromkeys(OFFSETS, 3)
        assert (found["consumer_lag"], found["consumer_lag_stored"]) == (0, 0)
        assert (found["partition"], found["leader"], found["broker"]) == (int(number), 0, 0)
        assert (found["fetch_state"], found["desired"], found["unknown"]) == ("active", True, False)
    whole = json.loads(told[-1])
    assert (whole["type"], whole["rxmsgs"], whole["txmsgs"]) == ("consumer", 6, 0)
    assert whole["name"]
    assert whole["client_id"]
    assert abs(whole["time"] - time.time()) < PATIENCE_S
    assert 0 < whole["age"] < 1e6 * PATIENCE_S
    consumer.close()


@BOTH
@pytest.mark.usefixtures("open_transaction")
def test_statistics_tell_of_what_is_not_committed_yet(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    told: list[str] = []
    consumer = module.Consumer({**settings(cluster, statistics_interval_ms=50), "stats_cb": told.append})
    consumer.subscribe(["orders"])
    poll_until(consumer, lambda: partitions_of(told).get("0", {}).get("consumer_lag_stored") == 0)
    consumer.commit(offsets=[module.TopicPartition("orders", 0, 2)], asynchronous=False)
    poll_until(consumer, lambda: partitions_of(told)["0"]["committed_offset"] == 2)
    found = partitions_of(told)["0"]
    assert (found["hi_offset"], found["ls_offset"], found["app_offset"]) == (4, 3, 3)
    assert (found["consumer_lag"], found["consumer_lag_stored"]) == (1, 0)
    consumer.close()


@BOTH
def test_statistics_tell_of_brokers_and_of_the_group(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    told: list[str] = []
    consumer = module.Consumer({**settings(cluster, statistics_interval_ms=50), "stats_cb": told.append})
    consumer.subscribe(["orders"])
    poll_until(consumer, lambda: told and json.loads(told[-1])["cgrp"]["join_state"] == "steady")
    poll_until(consumer, lambda: json.loads(told[-1])["brokers"].get(f"{cluster.bootstrap_servers}/0", {}).get("rx"))
    whole = json.loads(told[-1])
    group, broker = whole["cgrp"], whole["brokers"][f"{cluster.bootstrap_servers}/0"]
    assert (group["state"], group["assignment_size"], group["rebalance_cnt"]) == ("up", 2, 1)
    assert 0 <= group["rebalance_age"] < 1e3 * PATIENCE_S
    assert (broker["nodeid"], broker["nodename"]) == (0, cluster.bootstrap_servers)
    assert (broker["source"], broker["state"]) == ("learned", "UP")
    assert min(broker[name] for name in ("tx", "txbytes", "rxbytes")) > 0
    assert 0 <= broker["rtt"]["avg"] <= broker["rtt"]["max"] < 1e6 * PATIENCE_S
    assert set(broker["toppars"]) == {"orders-0", "orders-1"}
    assert whole["tx"] >= broker["tx"]
    assert whole["rx_bytes"] >= broker["rxbytes"]
    consumer.close()


@BOTH
def test_a_poll_that_waits_tells_statistics_and_waits_on(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    told: list[float] = []
    given = {**settings(cluster, statistics_interval_ms=100), "stats_cb": lambda _: told.append(time.monotonic())}
    consumer = module.Consumer(given)
    consumer.assign([module.TopicPartition("orders", 0, 3)])
    began_s = time.monotonic()
    assert consumer.poll(1.0) is None
    assert time.monotonic() - began_s >= 0.95
    assert len(told) >= 3
    consumer.close()


@BOTH
def test_without_an_interval_there_are_no_statistics(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    told: list[str] = []
    consumer = module.Consumer({**settings(cluster), "stats_cb": told.append})
    consumer.assign([module.TopicPartition("orders", 0, 3)])
    consumer.poll(0.3)
    consumer.close()
    assert told == []


def call_for_ever(call: Callable[[float], object]) -> None:
    while True:
        call(10.0)


@pytest.mark.parametrize("call", ["poll", "consume"])
def test_what_a_callback_of_statistics_raises_comes_out_of_the_poll(cluster: Cluster, call: str) -> None:
    """Of confluent-kafka's consumer too, which then hangs in `close()` at times."""

    def stop(_: str) -> None:
        raise LookupError("enough")

    consumer = adapter.Consumer({**settings(cluster, statistics_interval_ms=50), "stats_cb": stop})
    consumer.subscribe(["orders"])
    with pytest.raises(LookupError, match="enough"):
        call_for_ever(consumer.poll if call == "poll" else partial(consumer.consume, 100))
    consumer.close()


@BOTH
@pytest.mark.parametrize("interval", ["often", -5, 86_400_001])
def test_an_interval_that_cannot_be_is_refused(module: Any, interval: object) -> None:  # noqa: ANN401
    with pytest.raises(module.KafkaException, match=r"statistics\.interval\.ms") as raised:
        module.Consumer({"bootstrap.servers": "localhost:1", "group.id": "g", "statistics.interval.ms": interval})
    assert raised.value.args[0].code() == module.KafkaError._INVALID_ARG


@BOTH
@pytest.mark.parametrize("name", ["error_cb", "stats_cb", "throttle_cb", "oauth_cb"])
def test_a_callback_has_to_be_a_function(module: Any, name: str) -> None:  # noqa: ANN401
    with pytest.raises((TypeError, ValueError), match=f"expected {name} property as a callable function"):
        module.Consumer({"bootstrap.servers": "localhost:1", "group.id": "g", name: 1})


# --- logins by tokens ------------------------------------------------------------------------------------------------


@pytest.fixture
def with_tokens() -> Iterator[Cluster]:
    people = {"opaque": "eve", "newer": "eve"}
    with Cluster(sasl_mechanisms=["OAUTHBEARER"], validate_token=people.__getitem__) as found:
        found.create_topic("orders", partitions=1)
        found.produce("orders", b"0")
        yield found


def by_token(cluster: Cluster, oauth_cb: object) -> dict[str, object]:
    return {
        **settings(cluster),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.config": "of whom",
        "oauth_cb": oauth_cb,
    }


@BOTH
@pytest.mark.parametrize("more", [(), ("eve", {"traceId": "7"})], ids=["token", "with extensions"])
def test_a_token_comes_from_a_callback(with_tokens: Cluster, module: Any, more: tuple[object, ...]) -> None:  # noqa: ANN401
    asked: list[object] = []

    def token(text: str) -> tuple[object, ...]:
        asked.append(text)
        return ("opaque", time.time() + 300.0, *more)

    consumer = module.Consumer(by_token(with_tokens, token))
    assert asked == ["of whom"]  # before anything is asked of a broker
    consumer.subscribe(["orders"])
    found: list[object] = []
    while not found:
        found += consumer.consume(1, 1.0)
    assert asked == ["of whom"]
    consumer.close()


def test_a_token_is_renewed_before_it_ends(with_tokens: Cluster) -> None:
    asked: list[str] = []

    def token(_: str) -> tuple[str, float]:
        asked.append("opaque" if not asked else "newer")
        return asked[-1], time.time() + (1.5 if len(asked) == 1 else 300.0)

    given = by_token(with_tokens, token) | {
        "sasl.login.refresh.min.period.seconds": 0,
        "sasl.login.refresh.buffer.seconds": 0,
    }
    consumer = adapter.Consumer(given)
    consumer.subscribe(["orders"])
    poll_until(consumer, lambda: len(asked) == 2)
    consumer.close()
    assert asked == ["opaque", "newer"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (LookupError("the signer is down"), "LookupError: the signer is down"),
        ("opaque", "has to return the token, the end of its life"),
        (("opaque",), "has to return the token, the end of its life"),
        (("opaque", 1.0), "has expired before it came"),
    ],
)
def test_without_a_first_token_there_is_no_consumer(answer: object, told: str) -> None:
    def token(_: str) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    given = {"bootstrap.servers": "localhost:1", "group.id": "g", "security.protocol": "SASL_SSL"}
    with pytest.raises(adapter.KafkaException, match=told) as raised:
        adapter.Consumer({**given, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": token})
    assert raised.value.args[0].code() == adapter.KafkaError.SASL_AUTHENTICATION_FAILED


def test_a_callback_for_tokens_is_not_called_where_nobody_logs_in_by_them(cluster: Cluster) -> None:
    asked: list[object] = []
    adapter.Consumer({**settings(cluster), "oauth_cb": asked.append}).close()
    assert asked == []


# --- logins by passwords ---------------------------------------------------------------------------------------------


@BOTH
def test_credentials_are_changed_for_later_logins(module: Any) -> None:  # noqa: ANN401
    """What is connected stays so; another broker, or the same one later, is told the new ones."""
    with Cluster(2, topics={"orders": 2}, users={"alice": "old"}, sasl_mechanisms=["SCRAM-SHA-256"]) as cluster:
        for partition in range(2):
            cluster.produce("orders", b"0", partition=partition)
        login = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "alice", "sasl.password": "old"}
        consumer = module.Consumer({**settings(cluster), "security.protocol": "SASL_PLAINTEXT", **login})
        consumer.subscribe(["orders"])
        assert read_values(consumer, 2) == [b"0", b"0"]
        cluster.set_password("alice", "new")
        consumer.set_sasl_credentials("alice", "new")
        for broker in range(2):
            cluster.kill_broker(broker)
            cluster.start_broker(broker)
        cluster.produce("orders", b"1")
        assert read_values(consumer, 1) == [b"1"]
        consumer.close()


def test_credentials_are_changed_where_settings_have_underscores() -> None:
    """As kwire's own have them. confluent-kafka takes none."""
    with Cluster(topics={"orders": 1}, users={"alice": "new"}, sasl_mechanisms=["PLAIN"]) as cluster:
        cluster.produce("orders", b"0")
        login = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "old"}
        consumer = adapter.Consumer({**settings(cluster), "security_protocol": "SASL_PLAINTEXT", **login})
        consumer.set_sasl_credentials("alice", "new")
        consumer.subscribe(["orders"])
        assert read_values(consumer, 1) == [b"0"]
        consumer.close()


@BOTH
def test_credentials_are_texts(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    """Without a login they have no effect, and are no error."""
    consumer = module.Consumer(settings(cluster))
    consumer.set_sasl_credentials("alice", "new")
    for given, number in (((None, "new"), 1), (("alice", None), 2)):
        with pytest.raises(TypeError, match=f"argument {number} must be str, not None"):
            consumer.set_sasl_credentials(*given)
    consumer.close()


# --- logs ------------------------------------------------------------------------------------------------------------


class Lines:
    """What both modules need of a logger."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str]] = []

    def log(self, level: int, message: str, *args: object, **_: object) -> None:
        self.found.append((level, message % args))


@BOTH
def test_a_logger_gets_what_is_logged_about_its_consumer(module: Any) -> None:  # noqa: ANN401
    lines = Lines()
    nowhere = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
    consumer, silent = module.Consumer({**nowhere, "logger": lines}), module.Consumer(nowhere)
    consumer.subscribe(["orders"])
    poll_until(consumer, lambda: lines.found)
    consumer.close()
    silent.close()
    assert "127.0.0.1:1" in " ".join(text for _, text in lines.found)
    assert max(level for level, _ in lines.found) >= logging.WARNING


def test_a_logger_of_kwire_itself_gets_each_line_once(caplog: pytest.LogCaptureFixture) -> None:
    nowhere = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
    consumer = adapter.Consumer(nowhere, logger=logging.getLogger("kwire.of_mine"))
    consumer.subscribe(["orders"])
    poll_until(consumer, lambda: caplog.records)
    consumer.close()
    assert len({record.getMessage() for record in caplog.records}) == len(caplog.records)


def test_no_logger_is_held_for_a_consumer_that_is_gone() -> None:
    gc.collect()
    before = list(logging.getLogger("kwire").handlers)
    consumer = adapter.Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, logger=Lines())
    assert logging.getLogger("kwire").handlers != before
    consumer.close()
    del consumer
    gc.collect()
    assert logging.getLogger("kwire").handlers == before


def test_debug_lines_come_where_they_are_asked_for() -> None:
    kwire, lines = logging.getLogger("kwire"), Lines()
    try:
        nowhere = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "debug": "all"}
        consumer = adapter.Consumer(nowhere, logger=lines)
        consumer.subscribe(["orders"])
        poll_until(consumer, lambda: any(level == logging.DEBUG for level, _ in lines.found))
        consumer.close()
    finally:
        kwire.setLevel(logging.NOTSET)
