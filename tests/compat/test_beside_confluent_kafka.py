"""The same small programs with confluent-kafka and with kwire's adapter: what comes is the same."""

from __future__ import annotations

import copy
import pickle
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka.serialization import SerializationError

from kwire import Header
from kwire.compat import confluent_kafka as adapter
from kwire.compat.confluent_kafka.error import ValueDeserializationError, as_serialization_error
from kwire.testing import Cluster, NewRecord

if TYPE_CHECKING:
    from tests.compat.confluent_settings import settings
else:
    from confluent_settings import settings

pytestmark = pytest.mark.slow
BOTH = pytest.mark.parametrize("module", [confluent_kafka, adapter], ids=["confluent-kafka", "kwire"])


def read(consumer: Any, count: int) -> list[Any]:  # noqa: ANN401  of either module
    found: list[Any] = []
    for _ in range(200):
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
        if len(found) == count:
            break
    return found


@BOTH
def test_messages_and_their_methods(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    consumer.subscribe(["orders"])
    messages = read(consumer, 6)
    assert sorted(message.value() for message in messages) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    of_0 = [message for message in messages if message.partition() == 0]
    assert [(m.topic(), m.offset(), m.key(), m.headers(), len(m)) for m in of_0] == [
        ("orders", offset, None, None, 1) for offset in range(3)
    ]
    assert {m.timestamp()[0] for m in messages} == {1}
    assert consumer.poll(0.1) is None
    consumer.close()
    with pytest.raises(RuntimeError):
        consumer.poll(0.1)


@BOTH
def test_commits_cover_what_was_returned(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    tp = module.TopicPartition("orders", 0)
    consumer.assign([tp])
    read(consumer, 2)
    assert [(p.partition, p.offset) for p in consumer.commit(asynchronous=False)] == [(0, 2)]
    assert [p.offset for p in consumer.committed([tp])] == [2]
    assert [p.offset for p in consumer.position([tp])] == [2]
    (third,) = read(consumer, 1)
    consumer.commit(third, asynchronous=False)
    assert [p.offset for p in consumer.committed([tp, module.TopicPartition("orders", 1)])] == [3, -1001]
    consumer.close()


@BOTH
def test_the_end_of_a_partition_is_an_event(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster, enable_partition_eof=True))
    consumer.assign([module.TopicPartition("orders", 1, 1)])
    seen: list[object] = []
    for _ in range(200):
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            assert message.error().code() == module.KafkaError._PARTITION_EOF
            assert message.error().name() == "_PARTITION_EOF"
            seen.append((message.partition(), message.offset()))
            break
        seen.append(message.value())
    assert seen == [b"3", b"5", (1, 3)]
    consumer.close()


@BOTH
def test_where_to_begin_is_said_in_the_callback(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    told: list[object] = []

    def on_assign(consumer: Any, partitions: list[Any]) -> None:  # noqa: ANN401
        told.append(("assigned", sorted((p.topic, p.partition, p.offset) for p in partitions)))
        for partition in partitions:
            partition.offset = 2
        consumer.assign(partitions)

    def on_revoke(_: object, partitions: list[Any]) -> None:
        told.append(("revoked", sorted((p.topic, p.partition) for p in partitions)))

    consumer = module.Consumer(settings(cluster))
    consumer.subscribe(["^ord.*"], on_assign=on_assign, on_revoke=on_revoke)
    assert sorted(message.value() for message in read(consumer, 2)) == [b"4", b"5"]
    consumer.close()
    assert told == [
        ("assigned", [("orders", 0, -1001), ("orders", 1, -1001)]),
        ("revoked", [("orders", 0), ("orders", 1)]),
    ]


@BOTH
def test_looking_up(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    tp = module.TopicPartition("orders", 1)
    assert consumer.get_watermark_offsets(tp, timeout=5) == (0, 3)
    assert [p.offset for p in consumer.offsets_for_times([module.TopicPartition("orders", 1, 4_000_000_000_000)])] == [
        -1
    ]
    topic = consumer.list_topics("orders", timeout=5).topics["orders"]
    assert (topic.topic, sorted(topic.partitions), topic.error) == ("orders", [0, 1], None)
    assert consumer.assignment() == []
    consumer.close()


@BOTH
def test_several_at_once_and_seeking_and_pausing(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    tp = module.TopicPartition("orders", 0, module.OFFSET_BEGINNING)
    consumer.assign([tp])
    assert [m.value() for m in consumer.consume(3, timeout=10)] == [b"0", b"2", b"4"]
    consumer.seek(module.TopicPartition("orders", 0, 1))
    assert [m.value() for m in consumer.consume(2, timeout=10)] == [b"2", b"4"]
    consumer.pause([tp])
    cluster.produce("orders", b"6", partition=0)
    assert consumer.consume(1, timeout=0.3) == []
    consumer.resume([tp])
    assert [m.value() for m in consumer.consume(1, timeout=10)] == [b"6"]
    consumer.close()


@BOTH
def test_offsets_are_stored_by_hand(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster, enable_auto_commit=True, enable_auto_offset_store=False))
    consumer.subscribe(["orders"])
    messages = read(consumer, 6)
    consumer.store_offsets(message=next(m for m in messages if m.partition() == 0 and m.offset() == 1))
    consumer.close()
    assert {tp.partition: at.offset for tp, at in cluster.committed("billing").items()} == {0: 2}


def test_callbacks_that_kwire_cannot_call_are_warned_of(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    committed: list[object] = []
    given = settings(cluster, enable_auto_commit=True)
    consumer = adapter.Consumer(given, throttle_cb=print, on_commit=lambda error, partitions: committed.append(error))
    consumer.subscribe(["orders"])
    read(consumer, 6)
    consumer.commit()
    consumer.close()
    assert set(committed) == {None}
    (line,) = [message for message in caplog.messages if "never called" in message]
    assert "throttle_cb" in line
    assert "on_commit" not in line


def test_an_error_takes_the_place_of_a_message(cluster: Cluster) -> None:
    cluster.deny(topic="orders")
    consumer = adapter.Consumer(settings(cluster))
    consumer.subscribe(["orders"])
    message = consumer.poll(10)
    assert message is not None
    error = message.error()
    assert error is not None
    assert (error.code(), message.value()) == (
        adapter.KafkaError.TOPIC_AUTHORIZATION_FAILED,
        b"not authorized to access topics: orders",
    )
    consumer.close()


def test_bad_settings_are_a_kafka_exception() -> None:
    with pytest.raises(adapter.KafkaException):
        adapter.Consumer({"bootstrap.servers": "b:1", "group.id": "x", "group.idd": "x"})


# --- what confluent-kafka's own tests have found -------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(("given", "error"), [((), TypeError), (({"bootstrap.servers": "b:1"},), ValueError)])
def test_a_consumer_wants_settings_and_a_group(module: Any, given: Any, error: type[Exception]) -> None:  # noqa: ANN401
    with pytest.raises(error, match=r"expected configuration dict|group.id must be set"):
        module.Consumer(*given)


@BOTH
def test_a_session_may_be_shorter_than_the_heartbeats_default(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    module.Consumer(settings(cluster, session_timeout_ms=1_000)).close()


@BOTH
def test_how_many_messages_consume_takes(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    for count in (-100, 1_000_001):
        with pytest.raises(ValueError, match=r"num_messages must be between 0 and 1000000"):
            consumer.consume(count)
    consumer.close()


@BOTH
def test_consume_returns_all_there_is_when_its_time_is_over(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    """Also if that is more than the polls behind it would return."""
    cluster.produce("orders", *(b"%d" % number for number in range(2_000)), partition=0)
    consumer = module.Consumer(settings(cluster))
    consumer.assign([module.TopicPartition("orders", 0, 3)])
    while not (first := consumer.consume(1_200, 1.0)):
        pass
    sizes = [len(first)]
    while found := consumer.consume(1_200, 1.0):
        sizes.append(len(found))
    assert sizes == [1_200, 800]
    consumer.close()


@BOTH
def test_a_poll_of_nothing_waits_and_answers_nothing(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    assert consumer.poll(0.01) is None
    assert consumer.consume(10, 0.01) == []
    consumer.close()


@BOTH
def test_a_message_that_a_program_makes(module: Any) -> None:  # noqa: ANN401
    message = module.Message(topic="orders", partition=1, offset=7, key=b"k", value=b"abc", headers=[("a", b"b")])
    assert (message.topic(), message.partition(), message.offset()) == ("orders", 1, 7)
    assert (message.key(), message.value(), message.headers(), len(message)) == (b"k", b"abc", [("a", b"b")], 3)
    empty = module.Message()
    assert (empty.topic(), empty.offset(), empty.headers(), empty.error(), empty.timestamp()) == (
        None, None, None, None, (0, 0),
    )  # fmt: skip


@BOTH
def test_commits_and_stores_take_a_message_or_offsets(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster, enable_auto_offset_store=False))
    place = module.TopicPartition("orders", 0, 1)
    consumer.assign([place])
    message = module.Message(topic="orders", partition=0, offset=0)
    consumer.store_offsets(message=message)
    consumer.store_offsets(offsets=[place])
    for both in (consumer.store_offsets, consumer.commit):
        with pytest.raises(ValueError, match="mutually exclusive"):
            both(message=message, offsets=[place])
    with pytest.raises(ValueError, match="expected either message or offsets"):
        consumer.store_offsets()
    consumer.commit(message=module.Message(topic="orders", partition=0))  # of no offset
    with pytest.raises(ValueError, match="embedded null character"):
        consumer.commit(offsets=[module.TopicPartition("orders", 0, 1, "a\0b")], asynchronous=False)
    consumer.close()


@BOTH
def test_nothing_to_commit_is_an_error_for_those_who_wait(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    consumer.assign([module.TopicPartition("orders", 0)])
    assert consumer.commit() is None
    with pytest.raises(module.KafkaException) as raised:
        consumer.commit(asynchronous=False)
    assert raised.value.args[0].code() == module.KafkaError._NO_OFFSET
    assert "No offset stored" in str(raised.value), "frameworks look for this text"
    consumer.close()


@BOTH
def test_partitions_are_added_and_taken_away_once(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer, place = module.Consumer(settings(cluster)), module.TopicPartition("orders", 0)
    consumer.incremental_assign([place])
    with pytest.raises(module.KafkaException) as raised:
        consumer.incremental_assign([place])
    assert raised.value.args[0].code() == module.KafkaError._CONFLICT
    consumer.incremental_unassign([place])
    with pytest.raises(module.KafkaException) as raised:
        consumer.incremental_unassign([place])
    assert raised.value.args[0].code() == module.KafkaError._INVALID_ARG
    consumer.close()


@BOTH
def test_error_cb_hears_of_brokers_that_cannot_be_reached_and_may_raise(module: Any) -> None:  # noqa: ANN401
    codes: list[int] = []

    def told(error: Any) -> None:  # noqa: ANN401
        codes.append(error.code())
        if len(codes) == 1:
            raise LookupError("of the callback")

    consumer = module.Consumer({"bootstrap.servers": "localhost:1", "group.id": "billing", "error_cb": told})
    consumer.subscribe(["orders"])
    with pytest.raises(LookupError, match="of the callback"):
        read(consumer, 1)
    assert codes[0] in (module.KafkaError._ALL_BROKERS_DOWN, module.KafkaError._TRANSPORT)
    consumer.close()


@BOTH
def test_a_consumer_that_was_never_made_is_closed(module: Any) -> None:  # noqa: ANN401
    class Unmade(module.Consumer):  # type: ignore[misc]  # of either module
        def __init__(self) -> None:
            pass

    consumer = Unmade()
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.poll()
    with pytest.raises(RuntimeError, match="Handle has been closed"):
        consumer.list_topics()
    consumer.close()


class Deserializer:
    """Told when it is closed."""

    def __init__(self, prefix: str) -> None:
        self.prefix, self.is_closed = prefix, False

    def __call__(self, data: bytes | None, ctx: object) -> str | None:
        return None if data is None else self.prefix + data.decode()

    def close(self) -> None:
        self.is_closed = True


class Builder:
    """Takes one setting of its own, which no Kafka client knows."""

    def __init__(self) -> None:
        self.made: list[Deserializer] = []

    def build(self, conf: dict[str, Any], is_key: bool) -> tuple[Deserializer, dict[str, Any]]:
        self.made.append(Deserializer(f"{'key' if is_key else 'value'} {conf['my.prefix']} "))
        return self.made[-1], {name: value for name, value in conf.items() if name != "my.prefix"}


@BOTH
def test_builders_make_deserializers_that_are_closed_with_the_consumer(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    builder, own = Builder(), {**settings(cluster), "my.prefix": "of"}
    consumer = module.DeserializingConsumer(
        {**own, "key.deserializer.builder": builder, "value.deserializer.builder": builder}
    )
    consumer.subscribe(["orders"])
    assert sorted(message.value() for message in read(consumer, 6)) == [f"value of {number}" for number in range(6)]
    consumer.close()
    assert [made.is_closed for made in builder.made] == [True, True]


@BOTH
def test_a_deserializer_and_its_builder_exclude_each_other(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    both = {"value.deserializer": Deserializer(""), "value.deserializer.builder": Builder()}
    with pytest.raises(ValueError, match=r"value.deserializer and value.deserializer.builder"):
        module.DeserializingConsumer({**settings(cluster), **both})


def test_ends_are_not_looked_for_with_each_message(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """That asks the network thread for each partition."""
    monkeypatch.setattr("kwire.compat.confluent_kafka.ends.ENDS_S", 3600.0)
    consumer = adapter.Consumer(settings(cluster, enable_partition_eof=True))
    asked: list[object] = []

    def current_lag(partition: object) -> None:
        asked.append(partition)

    monkeypatch.setattr(consumer._kwire.consumer, "current_lag", current_lag)
    consumer.subscribe(["orders"])
    assert len(read(consumer, 6)) == 6
    assert len(asked) <= 2
    consumer.close()


@BOTH
def test_a_seek_forgets_the_position_until_the_next_message(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer, place = module.Consumer(settings(cluster)), module.TopicPartition("orders", 0)
    consumer.assign([module.TopicPartition("orders", 0, 0)])
    assert len(consumer.consume(3, 10)) == 3
    assert [at.offset for at in consumer.position([place])] == [3]
    consumer.seek(module.TopicPartition("orders", 0, 1))
    assert [at.offset for at in consumer.position([place])] == [module.OFFSET_INVALID]
    assert consumer.poll(10).offset() == 1
    assert [at.offset for at in consumer.position([place])] == [2]
    consumer.close()


@BOTH
def test_a_commit_in_the_callback_of_close(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    consumer.subscribe(["orders"], on_revoke=lambda consumer, partitions: consumer.commit(asynchronous=False))
    read(consumer, 6)
    consumer.close()
    assert {tp.partition: at.offset for tp, at in cluster.committed("billing").items()} == {0: 3, 1: 3}


@BOTH
def test_unassign_in_the_callback_of_a_rebalance(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    consumer.subscribe(["orders"], on_revoke=lambda consumer, partitions: consumer.unassign())
    read(consumer, 6)
    consumer.close()


@BOTH
def test_a_message_with_an_error_is_true_and_has_its_text(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster, enable_partition_eof=True))
    consumer.assign([module.TopicPartition("orders", 0, 3)])
    message = consumer.poll(10)
    assert message
    assert message.error().code() == module.KafkaError._PARTITION_EOF
    assert message.value()
    consumer.close()


@BOTH
def test_an_end_is_told_again_after_the_partition_is_assigned_again(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster, enable_partition_eof=True))
    for _ in range(2):
        consumer.assign([module.TopicPartition("orders", 0, 0)])
        messages = consumer.consume(4, 10)
        assert [message.offset() for message in messages] == [0, 1, 2, 3]
        assert messages[3].error().code() == module.KafkaError._PARTITION_EOF
    consumer.close()


@BOTH
def test_a_topic_that_is_not_there_has_an_error(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    error = consumer.list_topics("absent", timeout=5).topics["absent"].error
    assert error is not None
    assert error.code() == module.KafkaError.UNKNOWN_TOPIC_OR_PART
    consumer.close()


@BOTH
def test_look_ups_without_time_are_an_error(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer, place = module.Consumer(settings(cluster)), module.TopicPartition("orders", 0, 1)
    with pytest.raises(module.KafkaException):
        consumer.offsets_for_times([place], timeout=0)
    with pytest.raises(module.KafkaException):
        consumer.get_watermark_offsets(place, timeout=0)
    consumer.close()


def test_errors_have_the_same_constants_and_names() -> None:
    """A program that compares with one that is not there fails when the error comes."""

    def constants(error: Any) -> dict[str, int]:  # noqa: ANN401
        return {name: getattr(error, name) for name in dir(error) if name.lstrip("_").isupper()}

    theirs = constants(confluent_kafka.KafkaError)
    assert constants(adapter.KafkaError) == theirs
    for code in (*theirs.values(), 9_999):
        assert adapter.KafkaError(code).name() == confluent_kafka.KafkaError(code).name()


@BOTH
@pytest.mark.parametrize(
    ("offset", "place"),
    [(-1001, ("orders", 1, None)), (99, ("orders", 1, 99))],
    ids=["nothing is committed", "out of range"],
)
def test_an_error_of_a_partition_says_which(cluster: Cluster, module: Any, offset: int, place: object) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster, auto_offset_reset="error"))
    consumer.assign([module.TopicPartition("orders", 1, offset)])
    message = consumer.poll(10)
    assert message.error().code() == module.KafkaError._AUTO_OFFSET_RESET
    assert (message.topic(), message.partition(), message.offset()) == place
    consumer.close()


@BOTH
def test_an_error_of_a_topic_says_which(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    cluster.deny(topic="orders")
    consumer = module.Consumer(settings(cluster))
    consumer.subscribe(["orders"])
    message = consumer.poll(10)
    assert message.error().code() == module.KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert (message.topic(), message.partition(), message.offset()) == ("orders", 0, None)
    consumer.close()


@BOTH
def test_a_pattern_that_is_none_is_refused(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    with pytest.raises(module.KafkaException) as raised:
        consumer.subscribe(["orders", "^(("])
    assert raised.value.args[0].code() == module.KafkaError._INVALID_ARG
    consumer.close()


@BOTH
def test_a_program_changes_its_message(module: Any) -> None:  # noqa: ANN401
    message = module.Message("orders", 1, 7)
    message.set_topic("prices")
    message.set_error(module.KafkaError(module.KafkaError._FAIL))
    assert (message.topic(), message.error().code()) == ("prices", module.KafkaError._FAIL)


def events(consumer: Any, most: int, module: Any) -> list[object]:  # noqa: ANN401
    """Offsets of messages, and of ends, each behind the word."""
    found: list[object] = []
    for _ in range(50):
        message = consumer.poll(0.1)
        if message is not None:
            is_end = message.error() is not None and message.error().code() == module.KafkaError._PARTITION_EOF
            found.append(("end", message.offset()) if is_end else message.offset())
        if len(found) == most:
            break
    return found


@BOTH
def test_an_end_from_before_a_pause_is_not_told(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    """While a partition is paused nothing is fetched of it, and its end moves on unseen."""
    consumer, place = (
        module.Consumer(settings(cluster, enable_partition_eof=True)),
        module.TopicPartition("orders", 0, 0),
    )
    consumer.assign([place])
    assert events(consumer, 4, module) == [0, 1, 2, ("end", 3)]
    consumer.pause([place])
    for _ in range(5):
        cluster.produce("orders", b"more", partition=0)
    consumer.seek(module.TopicPartition("orders", 0, 6))
    assert consumer.poll(0.3) is None
    consumer.resume([place])
    assert events(consumer, 3, module) == [6, 7, ("end", 8)]
    consumer.close()


@BOTH
def test_behind_the_end_is_no_end(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster, enable_partition_eof=True))
    consumer.assign([module.TopicPartition("orders", 0, 0)])
    assert events(consumer, 4, module) == [0, 1, 2, ("end", 3)]
    consumer.seek(module.TopicPartition("orders", 0, 99))  # where auto.offset.reset decides
    assert events(consumer, 3, module) == [0, 1, 2]
    consumer.close()


@BOTH
def test_an_end_is_told_again_after_a_pause(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer, place = module.Consumer(settings(cluster, enable_partition_eof=True)), module.TopicPartition("orders", 0)
    consumer.assign([module.TopicPartition("orders", 0, 3)])
    assert events(consumer, 1, module) == [("end", 3)]
    consumer.resume([place])
    assert consumer.poll(0.3) is None, "it was not paused"
    consumer.pause([place])
    assert consumer.poll(0.3) is None
    consumer.resume([place])
    assert events(consumer, 1, module) == [("end", 3)]
    consumer.close()


@BOTH
@pytest.mark.parametrize("call", ["poll", "consume"])
def test_what_on_assign_raises_is_raised_by_the_call(cluster: Cluster, module: Any, call: str) -> None:  # noqa: ANN401
    told: list[object] = []

    def on_assign(consumer: object, partitions: object) -> None:
        told.append(partitions)
        raise LookupError("of the callback")

    consumer = module.Consumer(settings(cluster))
    consumer.subscribe(["orders"], on_assign=on_assign)
    with pytest.raises(LookupError, match="of the callback"):
        consumer.poll(10) if call == "poll" else consumer.consume(10, 10)
    assert len(consumer.assignment()) == 2
    cluster.produce("orders", b"6", partition=0)  # confluent-kafka drops the others
    assert read(consumer, 1)
    assert len(told) == 1, "it is not called again"
    consumer.close()


@BOTH
def test_what_on_revoke_raises_is_raised_by_close(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    def on_revoke(consumer: object, partitions: object) -> None:
        raise LookupError("of the callback")

    consumer = module.Consumer(settings(cluster))
    consumer.subscribe(["orders"], on_revoke=on_revoke)
    read(consumer, 6)
    with pytest.raises(LookupError, match="of the callback"):
        consumer.close()
    with pytest.raises(RuntimeError):
        consumer.poll(0)


COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky"}


@BOTH
@pytest.mark.parametrize(
    ("call", "more"), [("assign", {}), ("incremental_assign", COOPERATIVE)], ids=["eager", "cooperative"]
)
def test_on_assign_takes_some_of_the_partitions(cluster: Cluster, module: Any, call: str, more: Any) -> None:  # noqa: ANN401
    def on_assign(consumer: Any, partitions: list[Any]) -> None:  # noqa: ANN401
        getattr(consumer, call)([one for one in partitions if one.partition == 1])

    consumer = module.Consumer(settings(cluster, **more))
    consumer.subscribe(["orders"], on_assign=on_assign)
    assert [message.value() for message in read(consumer, 3)] == [b"1", b"3", b"5"]
    assert [one.partition for one in consumer.assignment()] == [1]
    consumer.resume([module.TopicPartition("orders", 0)])
    assert consumer.poll(0.3) is None
    consumer.close()


INCREMENTAL = [COOPERATIVE, {"group_protocol": "consumer"}]


@BOTH
@pytest.mark.parametrize(
    ("call", "more"),
    [
        *[(call, more) for call in ("assign", "unassign") for more in INCREMENTAL],
        ("incremental_assign", {}),
        ("incremental_unassign", {}),
    ],
)
def test_callbacks_refuse_calls_of_the_other_rebalance_protocol(
    cluster: Cluster,
    module: Any,  # noqa: ANN401
    call: str,
    more: dict[str, str],
) -> None:
    """`assign([])`, in a rebalance that brought this member nothing, took out all that it had: nobody read it."""
    raised: list[Exception] = []

    def on_assign(consumer: Any, partitions: list[Any]) -> None:  # noqa: ANN401
        try:
            getattr(consumer, call)(*([] if call == "unassign" else [partitions]))
        except module.KafkaException as error:
            raised.append(error)

    consumer = module.Consumer(settings(cluster, **more))
    consumer.subscribe(["orders"], on_assign=on_assign)
    for _ in range(200):
        consumer.poll(0 if raised else 0.05)
    assert raised[0].args[0].code() == module.KafkaError._STATE
    consumer.close()


@BOTH
@pytest.mark.parametrize("more", [{}, COOPERATIVE])
@pytest.mark.parametrize("call", ["assign", "incremental_unassign"])
def test_on_revoke_may_make_either_call_when_the_consumer_is_closed(
    cluster: Cluster,
    module: Any,  # noqa: ANN401
    call: str,
    more: dict[str, str],
) -> None:
    revoked: list[int] = []

    def on_revoke(consumer: Any, partitions: list[Any]) -> None:  # noqa: ANN401
        getattr(consumer, call)([] if call == "assign" else partitions)
        revoked.extend(one.partition for one in partitions)

    consumer = module.Consumer(settings(cluster, **more))
    consumer.subscribe(["orders"], on_revoke=on_revoke)
    read(consumer, 6)
    consumer.close()
    assert sorted(revoked) == [0, 1]


@BOTH
def test_on_assign_takes_no_partition(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    called: list[int] = []

    def on_assign(consumer: Any, partitions: list[Any]) -> None:  # noqa: ANN401
        called.append(len(partitions))
        consumer.unassign()

    consumer = module.Consumer(settings(cluster))
    consumer.subscribe(["orders"], on_assign=on_assign)
    while not called:
        assert consumer.poll(0.1) is None
    assert consumer.poll(0.3) is None
    assert consumer.assignment() == []
    consumer.close()


@BOTH
def test_pauses_of_partitions_that_are_not_assigned_are_passed_over(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    """A program that pauses what it has for a long job resumes it all, whatever was revoked meanwhile."""
    consumer = module.Consumer(settings(cluster))
    consumer.assign([module.TopicPartition("orders", 0, 0)])
    places = [module.TopicPartition("orders", 0), module.TopicPartition("orders", 1)]
    consumer.pause(places)
    assert consumer.poll(0.3) is None
    consumer.resume(places)
    assert len(read(consumer, 3)) == 3
    consumer.close()


# --- settings -------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    "more",
    [
        {"bootstrap.servers": "localhost"},
        {"bootstrap.servers": "kafka1,kafka2:9093"},
        {"metadata.broker.list": "kafka1, [::1], PLAINTEXT://kafka2"},
        {"topic.metadata.refresh.interval.ms": -1},
        {"topic.metadata.refresh.interval.ms": 1000, "metadata.max.age.ms": 300_000},
        {"topic.metadata.refresh.interval.ms": -1, "metadata.max.age.ms": 300_000},
        {"sasl.username": "", "sasl.password": ""},
        {"ssl.ca.location": "", "ssl.key.location": "", "ssl.certificate.location": "", "ssl.key.password": ""},
        {"security.protocol": "SSL", "ssl.ca.location": "probe"},
        {"group.instance.id": ""},
        {"enable.auto.commit": "t", "check.crcs": "f"},
        {"enable.metrics.push": "1", "enable.ssl.certificate.verification": "t"},
        {"enable.metrics.push": "f"},
        {"group.remote.assignor": "uniform"},
        {"group.remote.assignor": "", "group.protocol": "consumer"},
        {"enable.auto.commit": 0},
    ],
    ids=str,
)
def test_a_setting_as_librdkafka_takes_it(module: Any, more: dict[str, object]) -> None:  # noqa: ANN401
    servers = {} if "metadata.broker.list" in more else {"bootstrap.servers": "localhost:1"}
    module.Consumer({**servers, "group.id": "billing", "log_level": 0, **more}).close()


@pytest.mark.parametrize(("value", "commits"), [("t", True), ("1", True), ("f", False), (0, False)])
def test_auto_commit_in_librdkafkas_words(cluster: Cluster, value: object, commits: bool) -> None:
    with adapter.Consumer(settings(cluster, enable_auto_commit=value)) as consumer:
        consumer.subscribe(["orders"])
        read(consumer, 6)
    assert bool(cluster.committed("billing")) is commits


# --- polls that wait ------------------------------------------------------------------------------------------------


def test_a_poll_that_a_signal_handler_closes_the_consumer_in_answers_nothing(cluster: Cluster) -> None:
    """A usual way to end a loop of polls. confluent-kafka does the same, or crashes if the signal comes early."""
    consumer = adapter.Consumer(settings(cluster))
    consumer.subscribe(["orders"])
    read(consumer, 6)
    before = signal.signal(signal.SIGALRM, lambda *_: consumer.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert consumer.poll(1.0) is None
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.poll(1.0)


# --- where to begin -------------------------------------------------------------------------------------------------


def offsets(consumer: Any, count: int) -> list[int]:  # noqa: ANN401
    return [message.offset() for message in read(consumer, count)]


@BOTH
def test_a_partition_that_is_assigned_again_begins_where_the_group_has_committed(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    """What was not processed is read again in this way."""
    consumer, place = module.Consumer(settings(cluster)), module.TopicPartition("orders", 0)
    for _ in range(2):
        consumer.assign([place])
        assert offsets(consumer, 2) == [0, 1]
    consumer.commit(offsets=[module.TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.assign([module.TopicPartition("orders", 0, module.OFFSET_STORED)])
    assert offsets(consumer, 2) == [1, 2]
    consumer.commit()
    cluster.produce("orders", b"6", partition=0)
    consumer.assign([place])
    assert offsets(consumer, 1) == [3], "the commit was on its way"
    consumer.close()


@BOTH
def test_a_partition_that_is_assigned_again_goes_on_with_auto_commit(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster, enable_auto_commit=True))
    first, second = module.TopicPartition("orders", 0), module.TopicPartition("orders", 1)
    consumer.assign([first])
    assert offsets(consumer, 2) == [0, 1]
    consumer.assign([first, second])
    assert sorted((message.partition(), message.offset()) for message in read(consumer, 4)) == [
        (0, 2), (1, 0), (1, 1), (1, 2),
    ]  # fmt: skip
    consumer.close()


@BOTH
def test_a_partition_that_is_assigned_again_stays_paused(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer, place = module.Consumer(settings(cluster)), module.TopicPartition("orders", 0)
    consumer.assign([place])
    assert offsets(consumer, 1) == [0]
    consumer.pause([place])
    consumer.assign([place])
    assert consumer.poll(0.3) is None
    consumer.resume([place])
    assert offsets(consumer, 1) == [0]
    consumer.close()


@BOTH
@pytest.mark.parametrize("call", ["assign", "seek", "on_assign"])
@pytest.mark.parametrize(("records", "first"), [(1, 2), (2, 1), (100, 0)])
def test_the_last_records_of_a_partition(cluster: Cluster, module: Any, call: str, records: int, first: int) -> None:  # noqa: ANN401
    """librdkafka's OFFSET_TAIL, which is a number in Python."""
    place = module.TopicPartition("orders", 0, -2000 - records)
    consumer = module.Consumer(settings(cluster))
    if call == "on_assign":
        consumer.subscribe(["orders"], on_assign=lambda consumer, partitions: consumer.assign([place]))
    else:
        consumer.assign([place] if call == "assign" else [module.TopicPartition("orders", 0, 0)])
    if call == "seek":
        assert offsets(consumer, 1) == [0]
        consumer.seek(place)
    assert offsets(consumer, 1) == [first]
    consumer.close()


@BOTH
def test_a_seek_to_no_offset_is_for_the_reset_policy(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    consumer.assign([module.TopicPartition("orders", 0, 1)])
    assert offsets(consumer, 1) == [1]
    consumer.seek(module.TopicPartition("orders", 0))
    assert offsets(consumer, 1) == [0]
    consumer.close()


@BOTH
@pytest.mark.parametrize(("call", "offset"), [("seek", -1000), ("assign", -3), ("assign", -1999)])
def test_an_offset_to_begin_at_that_is_none_is_refused(cluster: Cluster, module: Any, call: str, offset: int) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    consumer.assign([module.TopicPartition("orders", 0, 1)])
    assert offsets(consumer, 1) == [1]
    place = module.TopicPartition("orders", 0, offset)
    with pytest.raises(module.KafkaException) as raised:
        getattr(consumer, call)(place if call == "seek" else [place])
    assert raised.value.args[0].code() == module.KafkaError._INVALID_ARG
    consumer.close()


def test_partitions_may_be_those_of_confluent_kafka_itself(cluster: Cluster) -> None:
    """A program that keeps the AdminClient has some."""
    consumer, place = adapter.Consumer(settings(cluster)), confluent_kafka.TopicPartition("orders", 0, 1)
    consumer.assign([place])  # type: ignore[list-item]
    assert offsets(consumer, 1) == [1]
    consumer.commit(offsets=[place], asynchronous=False)  # type: ignore[list-item]
    assert [at.offset for at in consumer.committed([place])] == [1]  # type: ignore[list-item]
    assert [at.offset for at in consumer.position([place])] == [2]  # type: ignore[list-item]
    assert consumer.get_watermark_offsets(place) == (0, 3)  # type: ignore[arg-type]
    consumer.seek(place)  # type: ignore[arg-type]
    consumer.pause([place])  # type: ignore[list-item]
    consumer.close()


# --- leader epochs and metadata -------------------------------------------------------------------------------------


def parts(found: list[Any]) -> list[object]:
    return [(one.partition, one.offset, one.metadata, one.leader_epoch) for one in found]


@BOTH
def test_a_commit_keeps_leader_epochs_and_metadata(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer, place = module.Consumer(settings(cluster)), module.TopicPartition("orders", 0)
    consumer.assign([place])
    first, _ = read(consumer, 2)
    assert parts(consumer.position([place])) == [(0, 2, None, 0)]
    assert parts(consumer.commit(asynchronous=False)) == [(0, 2, None, 0)]
    assert parts(consumer.committed([place])) == [(0, 2, None, 0)]
    assert parts(consumer.commit(message=first, asynchronous=False)) == [(0, 1, None, 0)]
    assert parts(consumer.committed([place])) == [(0, 1, None, 0)]
    given = module.TopicPartition("orders", 0, 2, "as told", 0)
    assert parts(consumer.commit(offsets=[given], asynchronous=False)) == [(0, 2, "as told", 0)]
    assert parts(consumer.committed([place])) == [(0, 2, "as told", 0)]
    consumer.commit(offsets=[module.TopicPartition("orders", 0, 1, leader_epoch=-1)], asynchronous=False)
    assert parts(consumer.committed([place])) == [(0, 1, None, None)]
    consumer.close()


@BOTH
def test_metadata_that_confluent_kafka_has_committed_ends_without_a_nul(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    """It writes one; kwire's adapter showed it, and a program that was moved did not know its own metadata again."""
    writer, place = confluent_kafka.Consumer(settings(cluster)), confluent_kafka.TopicPartition("orders", 0)
    writer.assign([place])
    writer.commit(offsets=[confluent_kafka.TopicPartition("orders", 0, 1, "as told")], asynchronous=False)
    writer.close()
    reader = module.Consumer(settings(cluster))
    assert parts(reader.committed([module.TopicPartition("orders", 0)], 10)) == [(0, 1, "as told", None)]
    reader.close()


@BOTH
def test_stored_offsets_keep_leader_epochs_and_metadata(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster, enable_auto_offset_store=False))
    consumer.assign([module.TopicPartition("orders", 0)])
    _, second = read(consumer, 2)
    consumer.store_offsets(offsets=[module.TopicPartition("orders", 0, 1, "as told", 0)])
    assert parts(consumer.commit(asynchronous=False)) == [(0, 1, "as told", 0)]
    consumer.store_offsets(message=second)
    assert parts(consumer.commit(asynchronous=False)) == [(0, 2, None, 0)]
    consumer.close()


@BOTH
def test_on_commit_is_told_of_leader_epochs_and_metadata(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    told: list[object] = []
    consumer = module.Consumer(
        {**settings(cluster), "on_commit": lambda error, partitions: told.append((error, parts(partitions)))}
    )
    consumer.assign([module.TopicPartition("orders", 0)])
    consumer.commit(offsets=[module.TopicPartition("orders", 1, 1, "as told", 0)])
    for _ in range(100):
        consumer.poll(0.05)
        if told:
            break
    assert told == [(None, [(1, 1, "as told", 0)])]
    consumer.close()


@BOTH
@pytest.mark.parametrize("call", ["assign", "seek"])
def test_one_begins_at_an_offset_with_its_leader_epoch(cluster: Cluster, module: Any, call: str) -> None:  # noqa: ANN401
    """As `committed()` answers it."""
    consumer, place = module.Consumer(settings(cluster)), module.TopicPartition("orders", 0, 1, leader_epoch=0)
    consumer.assign([place] if call == "assign" else [module.TopicPartition("orders", 0, 0)])
    if call == "seek":
        assert offsets(consumer, 1) == [0]
        consumer.seek(place)
    assert offsets(consumer, 1) == [1]
    consumer.close()


# --- looking up -----------------------------------------------------------------------------------------------------


@BOTH
def test_times_to_look_for(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    """Also one in seconds, which is long ago in milliseconds."""
    consumer = module.Consumer(settings(cluster))

    def looked_up(time_ms: int) -> tuple[int, int | None]:
        (found,) = consumer.offsets_for_times([module.TopicPartition("orders", 0, time_ms)], timeout=10)
        return found.offset, found.leader_epoch

    assert looked_up(module.OFFSET_BEGINNING)[0] == 0
    assert looked_up(module.OFFSET_END)[0] == 3
    assert looked_up(1_700_000_000) == (0, 0)
    assert looked_up(4_000_000_000_000) == (module.OFFSET_END, None)
    with pytest.raises(module.KafkaException):
        looked_up(module.OFFSET_INVALID)
    with pytest.raises(module.KafkaException):
        consumer.offsets_for_times([], timeout=10)
    consumer.close()


@BOTH
def test_what_is_not_there_among_others_has_an_error(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer, error = module.Consumer(settings(cluster)), module.KafkaError
    places = [("absent", 0), ("orders", 9), ("orders", 0)]
    found = consumer.offsets_for_times([module.TopicPartition(*place, 5) for place in places], timeout=10)
    assert [(one.topic, one.partition, one.offset) for one in found] == [
        ("absent", 0, 5), ("orders", 9, 5), ("orders", 0, 0),
    ]  # fmt: skip
    codes = [one.error and one.error.code() for one in found]
    assert codes == [error.UNKNOWN_TOPIC_OR_PART, error._UNKNOWN_PARTITION, None]
    consumer.close()


@BOTH
@pytest.mark.parametrize("place", [("absent", 0), ("orders", 9)])
@pytest.mark.parametrize("call", ["get_watermark_offsets", "offsets_for_times"])
def test_what_is_not_there_is_not_waited_for(cluster: Cluster, module: Any, call: str, place: Any) -> None:  # noqa: ANN401
    consumer, wanted = module.Consumer(settings(cluster)), module.TopicPartition(*place, 5)
    with pytest.raises(module.KafkaException) as raised:
        getattr(consumer, call)([wanted] if call == "offsets_for_times" else wanted, timeout=10)
    assert raised.value.args[0].code() == module.KafkaError._UNKNOWN_PARTITION
    consumer.close()


# --- messages -------------------------------------------------------------------------------------------------------


COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda message: pickle.loads(pickle.dumps(message)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@BOTH
@pytest.mark.parametrize("made", COPIES)
def test_a_copy_of_a_message_has_its_headers_and_is_equal(cluster: Cluster, module: Any, made: str) -> None:  # noqa: ANN401
    """Programs hand messages to other processes."""
    cluster.produce("orders", NewRecord(b"6", b"key", (Header("kind", b"new"),)), partition=0)
    consumer = module.Consumer(settings(cluster))
    consumer.assign([module.TopicPartition("orders", 0, 3)])
    (message,) = read(consumer, 1)
    consumer.close()
    copied = COPIES[made](message)
    assert copied.headers() == [("kind", b"new")]
    assert (copied.key(), copied.value(), copied.timestamp()) == (b"key", b"6", message.timestamp())
    assert copied == message


DIFFERENT: tuple[dict[str, Any], ...] = (
    {"topic": "prices"},
    {"partition": 2},
    {"offset": 8},
    {"key": b"x"},
    {"value": b"x"},
    {"headers": [("a", b"b")]},
    {"timestamp": (1, 5)},
    {"leader_epoch": 2},
)


@BOTH
def test_messages_are_equal_if_their_content_is(module: Any) -> None:  # noqa: ANN401
    same = {"topic": "orders", "partition": 1, "offset": 7, "key": b"k", "value": b"v"}
    message = module.Message(**same)
    assert message == module.Message(**same, latency=1.0)
    for one in DIFFERENT:
        assert message != module.Message(**{**same, **one})
    assert message != module.Message(**same, error=module.KafkaError(module.KafkaError._FAIL))
    assert message != "a message"
    with pytest.raises(TypeError, match="unhashable"):
        hash(message)


@BOTH
@pytest.mark.parametrize("value", [b"longer", b"", None, {"a": 1, "b": 2}], ids=repr)
def test_the_length_of_a_message_is_that_of_its_value(module: Any, value: object) -> None:  # noqa: ANN401
    message = module.Message(value=b"abc", timestamp=None)
    message.set_value(value)
    length = 0 if value is None else len(value)  # type: ignore[arg-type]  # all of them have one
    assert (len(message), bool(message)) == (length, length > 0)
    assert module.Message(value=7).value() == 7


# --- values and errors ----------------------------------------------------------------------------------------------


@BOTH
def test_errors_and_partitions_are_ordered(module: Any) -> None:  # noqa: ANN401
    error, place = module.KafkaError, module.TopicPartition
    assert error(3) < error(4)
    assert error(4) >= 3
    assert not error(-185) > 1
    assert place("a", 0) <= place("a", 0)
    assert place("b", 0) > place("a", 1)


@BOTH
def test_what_errors_say_of_themselves(module: Any) -> None:  # noqa: ANN401
    error = module.KafkaError(3, "gone", True, False, True)
    assert error.txn_requires_abort() is True
    assert str(error) == 'KafkaError{FATAL,code=UNKNOWN_TOPIC_OR_PART,val=3,str="gone"}'
    assert module.Message(delivery_count=3).value() is None


@BOTH
def test_what_list_topics_answers_is_short_and_hashable(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    found = consumer.list_topics(timeout=10)
    topic, broker = found.topics["orders"], next(iter(found.brokers.values()))
    assert (str(topic), repr(topic)) == ("orders", "TopicMetadata(orders, 2 partitions)")
    assert (str(topic.partitions[1]), repr(topic.partitions[1])) == ("1", "PartitionMetadata(1)")
    assert str(broker) == f"{cluster.bootstrap_servers}/{broker.id}"
    assert len({topic, broker, found}) == 3
    absent = consumer.list_topics("absent", timeout=10).topics["absent"]
    assert repr(absent) == f"TopicMetadata(absent, 0 partitions, {absent.error})"
    consumer.close()


@BOTH
def test_a_pattern_has_classes_of_characters(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    consumer.subscribe(["^ord[[:alpha:]]+$"])
    assert len(read(consumer, 6)) == 6
    consumer.close()


@BOTH
@pytest.mark.parametrize("part", ["key", "value"])
def test_what_a_deserializer_raises_is_a_serialization_error(cluster: Cluster, module: Any, part: str) -> None:  # noqa: ANN401
    """confluent-kafka's, which programs have imported that catch it."""

    def failing(data: bytes | None, ctx: object) -> None:
        raise LookupError("no schema")

    consumer = module.DeserializingConsumer[str, object]({**settings(cluster), f"{part}.deserializer": failing})
    consumer.subscribe(["orders"])
    with pytest.raises(SerializationError) as raised:
        read(consumer, 1)
    assert type(raised.value).__name__ == f"{part.capitalize()}DeserializationError"
    assert raised.value.kafka_message.topic() == "orders"  # type: ignore[attr-defined]
    consumer.close()


def test_an_error_of_a_deserializer_can_be_pickled() -> None:
    error = as_serialization_error(ValueDeserializationError)(LookupError("no schema"), adapter.Message("orders"))
    again: Any = pickle.loads(pickle.dumps(error))
    assert (again.kafka_message.topic(), str(again)) == ("orders", str(error))
    assert type(again) is type(error)
    assert isinstance(again, SerializationError)


def test_an_assignment_that_is_refused_leaves_the_one_there_was(cluster: Cluster) -> None:
    consumer = adapter.Consumer(settings(cluster))
    consumer.assign([adapter.TopicPartition("orders", 0)])
    assert len(consumer.consume(1, 10)) == 1
    with pytest.raises(adapter.KafkaException):
        consumer.assign([adapter.TopicPartition("orders")])
    assert [(one.topic, one.partition) for one in consumer.assignment()] == [("orders", 0)]
    message = consumer.poll(10)
    assert message is not None
    assert message.offset() == 1
    consumer.close()


@BOTH
def test_versions_can_be_logged(module: Any) -> None:  # noqa: ANN401
    assert isinstance(module.version(), str)
    assert [type(part) for part in module.libversion()] == [str, int]


# --- subclasses -----------------------------------------------------------------------------------------------------


NAMES = (
    "_consumer",
    "_loop",
    "_delivery",
    "_positions",
    "_stored",
    "_turns",
    "_own",
    "_ends",
    "_call",
    "_polled",
    "_told",
)


@BOTH
def test_a_subclass_has_attributes_of_any_name(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    """OpenTelemetry's has `_consumer`, those that run on an event loop have `_loop`."""

    class Own(module.Consumer):  # type: ignore[misc]  # of either module
        def __init__(self, given: dict[str, object]) -> None:
            super().__init__(given)
            for name in NAMES:
                setattr(self, name, None)

    consumer = Own(settings(cluster))
    consumer.assign([module.TopicPartition("orders", 0)])
    assert [message.value() for message in read(consumer, 3)] == [b"0", b"2", b"4"]
    assert [at.offset for at in consumer.commit(asynchronous=False)] == [3]
    consumer.close()


@BOTH
def test_no_call_goes_through_one_that_a_subclass_overrides(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    called: list[str] = []

    class Traced(module.Consumer):  # type: ignore[misc]  # of either module
        def poll(self, timeout: float = -1) -> Any:  # noqa: ANN401
            called.append("poll")
            return (self.consume(1, timeout) or [None])[0]

        def consume(self, num_messages: int = 1, timeout: float = -1) -> Any:  # noqa: ANN401
            called.append("consume")
            return super().consume(num_messages, timeout)

        def assign(self, partitions: Any) -> None:  # noqa: ANN401
            called.append("assign")
            super().assign(partitions)

        def unassign(self) -> None:
            called.append("unassign")
            super().unassign()

        def close(self) -> None:
            called.append("close")
            super().close()

    with Traced(settings(cluster)) as consumer:
        consumer.assign([module.TopicPartition("orders", 0)])
        assert consumer.poll(10).value() == b"0"
        consumer.unassign()
        consumer.assign([module.TopicPartition("orders", 0)])
        consumer.subscribe(["orders"])
    assert called == ["assign", "poll", "consume", "unassign", "assign"]


@BOTH
def test_a_consumer_that_deserializes_is_closed_by_its_own_close(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    builder = Builder()
    given = {**settings(cluster), "my.prefix": "of", "value.deserializer.builder": builder}
    with module.DeserializingConsumer(given):
        pass
    assert [made.is_closed for made in builder.made] == [True]


@BOTH
def test_the_cluster_is_told_with_topics_or_without_any(module: Any) -> None:  # noqa: ANN401
    """Programs look for brokers there to see whether a cluster is well, however new it is."""
    with Cluster(3) as cluster:
        consumer = module.Consumer(settings(cluster))
        for found in (consumer.list_topics(timeout=10), consumer.list_topics("absent", timeout=10)):
            assert sorted(found.brokers) == [0, 1, 2]
            assert found.cluster_id.startswith("kwire")
            assert found.controller_id in found.brokers
            assert (str(found), repr(found)) == (found.cluster_id, f"ClusterMetadata({found.cluster_id})")
        consumer.close()
