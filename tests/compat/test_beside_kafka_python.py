"""The same small programs with kafka-python and with kwire's adapter: what comes is the same."""

from __future__ import annotations

import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import permutations
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import kwire.errors
from kwire.compat import kafka_python as adapter
from kwire.compat.kafka_python import errors
from kwire.compat.kafka_python.future import Future
from kwire.testing import Cluster

if TYPE_CHECKING:
    from tests.compat.kafka_python_consumers import BOTH, open_consumer
else:
    from kafka_python_consumers import BOTH, open_consumer

with warnings.catch_warnings(action="ignore"):  # it reads its schemas in a deprecated way
    import kafka

# Its own code warns of what Python has deprecated.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@BOTH
def test_the_loop_ends_after_its_timeout(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = open_consumer(module, cluster, "orders", value_deserializer=int)
    records = sorted(consumer, key=lambda record: record.value)
    assert [(r.topic, r.partition, r.offset, r.key, r.value) for r in records] == [
        ("orders", number % 2, number // 2, None, number) for number in range(6)
    ]
    assert {(r.timestamp_type, tuple(r.headers), r.checksum) for r in records} == {(0, (), None)}
    assert {(r.serialized_key_size, r.serialized_value_size, r.serialized_header_size) for r in records} == {
        (-1, 1, -1)
    }
    assert records[0]._fields == module_record_fields()
    consumer.close()
    assert list(consumer) == []


def module_record_fields() -> tuple[str, ...]:
    from kafka.consumer.fetcher import ConsumerRecord

    return tuple(ConsumerRecord._fields)


@BOTH
def test_polls_answer_dictionaries_and_commits_cover_them(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    tp = module.TopicPartition("orders", 0)
    consumer = open_consumer(module, cluster, group_id="billing", enable_auto_commit=False)
    consumer.assign([tp])
    found: list[int] = []
    for _ in range(100):
        for partition, records in consumer.poll(timeout_ms=200, max_records=2).items():
            assert partition == tp
            assert len(records) <= 2
            found += [record.offset for record in records]
        if len(found) >= 2:
            break
    consumer.commit()
    assert (found, consumer.committed(tp), consumer.position(tp)) == ([0, 1], 2, 2)
    assert consumer.committed(tp, metadata=True).offset == 2
    consumer.commit({tp: module.OffsetAndMetadata(1, "note", -1)})
    assert consumer.committed(tp) == 1
    assert consumer.committed(module.TopicPartition("orders", 1)) is None
    consumer.close()


@BOTH
def test_looking_up(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = open_consumer(module, cluster)
    tp = module.TopicPartition("orders", 1)
    assert consumer.partitions_for_topic("orders") == {0, 1}
    cluster.create_topic("__consumer_offsets")
    assert consumer.topics() == {"orders"}
    assert (consumer.beginning_offsets([tp]), consumer.end_offsets([tp])) == ({tp: 0}, {tp: 3})
    assert consumer.offsets_for_times({tp: 4_000_000_000_000}) == {tp: None}
    assert "consumer-fetch-manager-metrics" in consumer.metrics()
    consumer.close()


@BOTH
def test_seeking_and_pausing(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    tp = module.TopicPartition("orders", 1)
    consumer = open_consumer(module, cluster)
    consumer.assign([tp])
    consumer.seek(tp, 1)
    assert [record.value for record in consumer] == [b"3", b"5"]
    consumer.seek_to_beginning(tp)
    assert next(consumer).value == b"1"
    consumer.pause(tp)
    assert consumer.paused() == {tp}
    assert consumer.poll(100) == {}
    consumer.resume(tp)
    assert next(consumer).value == b"3"
    assert (consumer.assignment(), consumer.subscription()) == ({tp}, None)
    consumer.close()


@BOTH
def test_listeners_of_a_group(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    told: list[object] = []

    class Listener(module.ConsumerRebalanceListener):  # type: ignore[misc]  # of either module
        def on_partitions_revoked(self, revoked: set[object]) -> None:
            told.append(("revoked", len(revoked)))

        def on_partitions_assigned(self, assigned: set[object]) -> None:
            told.append(("assigned", len(assigned)))
            for tp in assigned:
                consumer.seek(tp, 2)

    cluster.create_topic("my-orders", partitions=1)  # a pattern matches from the start of a name
    consumer = open_consumer(module, cluster, group_id="billing")
    consumer.subscribe(pattern="(?i)ORD.*", listener=Listener())
    assert sorted(record.value for record in consumer) == [b"4", b"5"]
    consumer.close()
    assert [what for what in told if what[1]] == [("assigned", 2), ("revoked", 2)]  # type: ignore[index]
    assert {tp.partition: at.offset for tp, at in cluster.committed("billing").items()} == {0: 3, 1: 3}


@BOTH
def test_a_listener_that_raises_is_not_called_again(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    told: list[int] = []

    class Listener(module.ConsumerRebalanceListener):  # type: ignore[misc]  # of either module
        def on_partitions_revoked(self, revoked: set[object]) -> None:
            pass

        def on_partitions_assigned(self, assigned: set[object]) -> None:
            told.append(len(assigned))
            if assigned:
                raise LookupError("of the listener")

    consumer = open_consumer(module, cluster, group_id="billing")
    consumer.subscribe(["orders"], listener=Listener())
    with pytest.raises(kafka.errors.KafkaError):
        list(consumer)
    assert len(list(consumer)) == 6
    consumer.close()
    assert [count for count in told if count] == [2]


@BOTH
def test_going_on_to_other_topics_without_a_group(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    cluster.create_topic("others")
    cluster.produce("others", b"x")
    consumer = open_consumer(module, cluster, "orders")
    assert len([next(consumer) for _ in range(6)]) == 6
    consumer.subscribe(["others"])
    assert next(consumer).value == b"x"
    cluster.produce("orders", b"no longer read")
    assert [record.topic for record in consumer] == []
    assert {tp.topic for tp in consumer.assignment()} == {"others"}
    consumer.close()


WAYS: dict[str, Callable[[Any, Any], None]] = {
    "topics": lambda consumer, _module: consumer.subscribe(["orders"]),
    "pattern": lambda consumer, _module: consumer.subscribe(pattern="^or"),
    "partitions": lambda consumer, module: consumer.assign([module.TopicPartition("orders", 0)]),
}


@BOTH
@pytest.mark.parametrize("group", [{}, {"group_id": "billing"}], ids=["no group", "group"])
@pytest.mark.parametrize(("first", "second"), [*permutations(WAYS, 2)])
def test_one_way_to_choose_what_is_read_does_not_replace_another(
    cluster: Cluster,
    module: Any,  # noqa: ANN401
    group: dict[str, str],
    first: str,
    second: str,
) -> None:
    """It did so silently, so a program that had both by mistake read something else than with kafka-python."""
    if not group and "pattern" in (first, second):
        pytest.skip("the adapter refuses a pattern without a group")
    consumer = open_consumer(module, cluster, **group)
    for choose in (WAYS[first], WAYS[first]):  # the same way does
        choose(consumer, module)
    with pytest.raises(module.errors.IllegalStateError, match="only one way"):
        WAYS[second](consumer, module)
    consumer.unsubscribe()
    WAYS[second](consumer, module)
    consumer.close()


def test_a_pattern_that_is_refused_without_a_group_leaves_the_choice_open(cluster: Cluster) -> None:
    with adapter.KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        with pytest.raises(errors.IllegalStateError, match="need a group_id"):
            consumer.subscribe(pattern="^or")
        consumer.subscribe(["orders"])
        assert consumer.subscription() == {"orders"}


@BOTH
def test_bootstrap_waits_for_a_broker(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = open_consumer(module, cluster)
    consumer.bootstrap(timeout_ms=10_000)
    assert consumer.topics() == {"orders"}
    consumer.close()


def test_bootstrap_says_that_there_is_none() -> None:
    with (
        adapter.KafkaConsumer(bootstrap_servers="localhost:1", api_version=(2, 6)) as consumer,
        pytest.raises(errors.KafkaTimeoutError),
    ):
        consumer.bootstrap(timeout_ms=100)


class WithHeaders:
    def deserialize(self, topic: str, headers: object, data: bytes) -> str:
        return f"{topic}: {data.decode()}"


class WithoutHeaders:
    def deserialize(self, topic: str, data: bytes) -> str:
        return f"{topic}: {data.decode()}"


class Partial:
    def __init__(self) -> None:
        self.deserialize = partial(WithHeaders().deserialize)


class Wrapped:
    def deserialize(self, *arguments: Any) -> str:  # noqa: ANN401
        return WithHeaders().deserialize(*arguments)


@pytest.mark.parametrize("kind", [WithHeaders, WithoutHeaders, Partial, Wrapped])
def test_deserializers_of_any_kind(cluster: Cluster, kind: type) -> None:
    consumer = open_consumer(adapter, cluster, "orders", value_deserializer=kind())
    assert next(consumer).value.startswith("orders: ")
    consumer.close()


@pytest.mark.parametrize("group", [{}, {"group_id": "billing"}])
def test_a_topic_may_be_given_by_its_name_alone(cluster: Cluster, group: dict[str, str]) -> None:
    consumer = open_consumer(adapter, cluster, **group)
    consumer.subscribe("orders")
    assert consumer.subscription() == {"orders"}
    consumer.close()


def test_servers_may_be_without_a_port() -> None:
    with adapter.KafkaConsumer(bootstrap_servers="127.0.0.1:1,localhost", api_version=(2, 6)) as consumer:
        assert [*map(str, consumer._kwire_consumer.config.bootstrap_servers)] == ["127.0.0.1:1", "localhost:9092"]


def poll_each(consumer: Any) -> Iterator[Any]:  # noqa: ANN401
    while True:
        for records in consumer.poll(500).values():
            yield from records


@BOTH
@pytest.mark.parametrize("read", [iter, poll_each], ids=["loop", "polls"])
def test_a_with_block_that_fails_commits_nothing(cluster: Cluster, module: Any, read: Any) -> None:  # noqa: ANN401
    """Not what it failed over, which would be lost, and not what was in front of that."""

    def fail_over_the_third() -> None:
        with open_consumer(module, cluster, "orders", group_id="billing") as consumer:
            for number, _ in enumerate(read(consumer), start=1):
                if number == 3:
                    raise LookupError

    with pytest.raises(LookupError):
        fail_over_the_third()
    assert not any(at.offset for at in cluster.committed("billing").values())
    with open_consumer(module, cluster, "orders", group_id="billing") as consumer:
        assert len(list(consumer)) == 6
    assert {tp.partition: at.offset for tp, at in cluster.committed("billing").items()} == {0: 3, 1: 3}


@BOTH
def test_a_close_without_a_commit_commits_nothing(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = open_consumer(module, cluster, "orders", group_id="billing")
    assert len(list(consumer)) == 6
    consumer.close(autocommit=False)
    assert not any(at.offset for at in cluster.committed("billing").values())


@BOTH
def test_a_loop_ends_when_its_body_closes_the_consumer(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    """What the loop has not seen is not its any more: the partitions are another member's by now."""
    consumer = open_consumer(module, cluster, "orders", group_id="billing")
    found = []
    for record in consumer:
        found.append(record.value)
        if len(found) == 2:
            consumer.close()
    assert len(found) == 2
    assert sum(at.offset for at in cluster.committed("billing").values()) == 2
    with pytest.raises(module_error(module, "IllegalStateError")):
        consumer.poll()


def module_error(module: Any, name: str) -> type[Exception]:  # noqa: ANN401
    found: type[Exception] = getattr(import_module(f"{module.__name__}.errors"), name)
    return found


@BOTH
@pytest.mark.parametrize("read", [iter, poll_each], ids=["loop", "polls"])
def test_another_thread_closes_the_consumer(cluster: Cluster, module: Any, read: Any) -> None:  # noqa: ANN401
    consumer = open_consumer(module, cluster, "orders", group_id="billing", consumer_timeout_ms=60_000)
    has_all, failures = threading.Event(), []

    def work() -> None:
        try:
            for number, _ in enumerate(read(consumer), start=1):
                if number == 6:
                    has_all.set()
        except module_error(module, "IllegalStateError") as error:  # of a poll that comes after it
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert has_all.wait(30)
    consumer.close()
    thread.join(30)
    assert not thread.is_alive()
    assert module is kafka or len(failures) == (read is poll_each)  # kafka-python's loop may end with the error as well
    consumer.close()


@BOTH
def test_a_signal_handler_closes_the_consumer_while_it_polls(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = open_consumer(module, cluster)
    consumer.assign([module.TopicPartition("orders", 0)])
    consumer.seek(module.TopicPartition("orders", 0), 3)
    before = signal.signal(signal.SIGALRM, lambda *_: consumer.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert consumer.poll(30_000) == {}
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_close_that_was_refused_is_made_by_the_next(cluster: Cluster) -> None:
    refused: list[Exception] = []

    class Listener(adapter.ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: set[adapter.TopicPartition]) -> None:
            try:
                consumer.close()
            except errors.IllegalStateError as error:
                refused.append(error)

    consumer = open_consumer(adapter, cluster, group_id="billing")
    consumer.subscribe(["orders"], listener=Listener())
    assert len(list(consumer)) == 6
    assert len(refused) == 1
    consumer.close()
    assert {tp.partition: at.offset for tp, at in cluster.committed("billing").items()} == {0: 3, 1: 3}


@BOTH
def test_there_is_nothing_before_something_is_subscribed(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = open_consumer(module, cluster)
    assert consumer.poll() == {}
    assert consumer.poll(50) == {}
    assert list(consumer) == []
    consumer.subscribe(["orders"])
    assert len([next(consumer) for _ in range(6)]) == 6
    consumer.unsubscribe()
    assert consumer.poll(50) == {}
    consumer.assign([module.TopicPartition("orders", 0)])
    assert [record.offset for record in consumer] == [0, 1, 2]
    consumer.close()


@BOTH
@pytest.mark.parametrize("is_patched", [False, True], ids=["class", "instance"])
def test_a_loop_calls_a_poll_that_is_overridden(cluster: Cluster, module: Any, *, is_patched: bool) -> None:  # noqa: ANN401
    """One that deciphers records, or traces polls. Commits cover what the loop is at all the same."""

    def decoded(records: dict[Any, list[Any]]) -> dict[Any, list[Any]]:
        return {tp: [one._replace(value=b"decoded " + one.value) for one in of] for tp, of in records.items()}

    class Decoding(module.KafkaConsumer):  # type: ignore[misc]  # of either module
        def poll(self, *arguments: Any, **more: Any) -> dict[Any, list[Any]]:  # noqa: ANN401
            return decoded(super().poll(*arguments, **more))

    kind = module.KafkaConsumer if is_patched else Decoding
    consumer = open_consumer(SimpleNamespace(KafkaConsumer=kind), cluster, "orders", group_id="billing")
    if is_patched:
        poll = consumer.poll
        consumer.poll = lambda *arguments, **more: decoded(poll(*arguments, **more))
    found = []
    for record in consumer:
        found.append(record.value)
        consumer.commit()
        assert sum(at.offset for at in cluster.committed("billing").values()) == len(found)
    assert sorted(found) == [b"decoded %d" % number for number in range(6)]
    consumer.close()


@BOTH
def test_numbers_of_records_that_no_poll_can_return_are_refused(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = open_consumer(module, cluster, "orders")
    for bad in (0, -1):
        with pytest.raises(ValueError, match="must be positive"):
            consumer.poll(max_records=bad)
    with pytest.raises(TypeError, match="must be an integer"):
        consumer.poll(max_records=1.5)
    with pytest.raises(ValueError, match="must not be negative"):
        consumer.poll(-1)
    assert len(list(consumer)) == 6
    consumer.close()


@BOTH
def test_times_may_be_floats_and_in_seconds(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    """`datetime.timestamp() * 1000` is a float. Seconds are a time in January 1970, as every client has it."""
    consumer = open_consumer(module, cluster)
    tp = module.TopicPartition("orders", 1)
    for moment in (0, 0.5, 1_700_000_000, 1_700_000_000_000.5):
        found = consumer.offsets_for_times({tp: moment})[tp]
        offset, timestamp, leader_epoch = found
        assert (offset, leader_epoch, found._fields) == (0, 0, ("offset", "timestamp", "leader_epoch"))
        assert timestamp > 1_700_000_000_000
    with pytest.raises(ValueError, match="negative"):
        consumer.offsets_for_times({tp: -1})
    consumer.close()


@BOTH
def test_to_ask_for_a_topic_does_not_make_it(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = open_consumer(module, cluster)
    assert consumer.partitions_for_topic("nothing") == set()
    assert consumer.topics() == {"orders"}
    cluster.create_topic("others", partitions=3)
    assert len(consumer.topics()) == 2
    assert consumer.partitions_for_topic("others") == {0, 1, 2}
    consumer.close()


@BOTH
def test_a_class_that_derives_from_the_consumer_may_have_attributes_of_its_own(
    cluster: Cluster,
    module: Any,  # noqa: ANN401
) -> None:
    class Own(module.KafkaConsumer):  # type: ignore[misc]  # of either module
        def __init__(self, *topics: str, **configs: object) -> None:
            super().__init__(*topics, **configs)
            self._loop = self._consumer = self._on_commit = None

        def _poll(self) -> None:
            pass

    consumer = open_consumer(SimpleNamespace(KafkaConsumer=Own), cluster, "orders")
    assert len(list(consumer)) == 6
    consumer.close()


def test_private_names_are_those_that_nobody_else_has(cluster: Cluster) -> None:
    with open_consumer(adapter, cluster) as consumer:
        private = {name for name in dir(consumer) if not name.startswith("__") and re.match("_(?!kwire)", name)}
        assert private == {"_subscription"}


@BOTH
def test_a_tracer_reads_the_topics(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    """As Elastic APM does: each poll raised an AttributeError."""
    with open_consumer(module, cluster, group_id="billing") as consumer:
        assert not consumer._subscription.subscription
        consumer.subscribe(["orders"])
        assert consumer._subscription.subscription == {"orders"}


def test_a_derived_class_may_have_a_subscription_of_its_own(cluster: Cluster) -> None:
    class Own(adapter.KafkaConsumer):
        def __init__(self, *topics: str, **configs: object) -> None:
            self._subscription = "its own"  # type: ignore[assignment]
            super().__init__(*topics, **configs)

    with open_consumer(SimpleNamespace(KafkaConsumer=Own), cluster, "orders") as consumer:
        assert len(list(consumer)) == 6
        assert consumer._subscription == "its own"


@BOTH
def test_what_is_committed_in_the_background_is_told_to_the_callback(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    told: list[tuple[dict[Any, Any], object]] = []
    consumer = open_consumer(
        module,
        cluster,
        group_id="billing",
        auto_commit_interval_ms=1,
        default_offset_commit_callback=lambda offsets, response: told.append((offsets, response)),
    )
    tp = module.TopicPartition("orders", 0)
    consumer.assign([tp])
    assert [record.offset for record in consumer] == [0, 1, 2]
    assert [(offsets[tp].offset, response) for offsets, response in told if tp in offsets][-1] == (3, None)
    assert cluster.committed("billing")[tp].offset == 3
    consumer.close()


@BOTH
def test_a_commit_that_is_not_waited_for_answers_a_future(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    told: list[object] = []
    consumer = open_consumer(module, cluster, group_id="billing", enable_auto_commit=False)
    tp = module.TopicPartition("orders", 0)
    consumer.assign([tp])
    assert next(consumer).offset == 0
    future = consumer.commit_async()
    assert future.add_callback(lambda name, _: told.append(name), "done") is future
    assert future.add_errback(told.append) is future
    for _ in range(100):
        consumer.poll(100, max_records=1)
        if future.is_done:
            break
    assert (told, future.succeeded(), future.failed(), future.exception) == (["done"], True, False, None)
    future.add_callback(lambda _: told.append("again"))
    assert told == ["done", "again"]
    assert cluster.committed("billing")[tp].offset == 1
    consumer.close()


def test_a_commit_that_fails_tells_the_future_why(caplog: pytest.LogCaptureFixture) -> None:
    told: list[object] = []
    failure = kwire.errors.CommitFailedError("gone")
    future = Future().add_callback(told.append).add_errback(told.append).add_both(lambda error: 1 / 0)
    future.end({}, failure)
    assert told == [failure]
    assert (future.failed(), future.value) == (True, None)
    assert len(caplog.records) == 1  # of the function that has failed itself


@BOTH
def test_settings_that_were_not_given_can_be_looked_up(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = open_consumer(module, cluster, max_poll_records=7)
    assert consumer.config["bootstrap_servers"] == cluster.bootstrap_servers
    assert {name: consumer.config[name] for name in ("group_id", "max_poll_records", "enable_auto_commit")} == {
        "group_id": None,
        "max_poll_records": 7,
        "enable_auto_commit": True,
    }
    assert (consumer.config["session_timeout_ms"], consumer.config["consumer_timeout_ms"]) == (45_000, 2_000)
    consumer.close()


@BOTH
def test_calls_without_an_assignment_or_a_group(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = open_consumer(module, cluster)
    for seek in (consumer.seek_to_beginning, consumer.seek_to_end):
        with pytest.raises(ValueError, match="No partitions are currently assigned"):
            seek()
    assert consumer.group_metadata().group_id is None
    consumer.close()


@BOTH
def test_methods_of_a_listener_may_be_coroutine_functions(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    told: list[tuple[str, int]] = []

    class Listener(module.ConsumerRebalanceListener):  # type: ignore[misc]  # of either module
        async def on_partitions_revoked(self, revoked: set[object]) -> None:
            told.append(("revoked", len(revoked)))

        async def on_partitions_assigned(self, assigned: set[object]) -> None:
            told.append(("assigned", len(assigned)))

    consumer = open_consumer(module, cluster, group_id="billing")
    consumer.subscribe(["orders"], listener=Listener())
    assert len(list(consumer)) == 6
    consumer.close()
    assert [what for what in told if what[1]] == [("assigned", 2), ("revoked", 2)]


@BOTH
def test_deserializers_are_closed_with_the_consumer(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    closed = []

    class Closing(WithHeaders):
        def close(self) -> None:
            closed.append(True)

    consumer = open_consumer(module, cluster, "orders", value_deserializer=Closing())
    consumer.close()
    consumer.close()
    assert closed == [True]


@BOTH
@pytest.mark.usefixtures("open_transaction")
def test_what_is_not_committed_yet_is_within_the_log(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = open_consumer(module, cluster, "orders", isolation_level="read_committed", group_id=None)
    assert sorted(next(consumer).value for _ in range(6)) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    consumer.poll(timeout_ms=200)
    assert [consumer.highwater(module.TopicPartition("orders", number)) for number in (0, 1)] == [4, 3]
    consumer.close()
