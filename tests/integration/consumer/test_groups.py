"""Groups: who gets which partitions, who commits what, and what callbacks see of it."""

from __future__ import annotations

import re
import threading
import time
from itertools import chain
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from kwire import OffsetAndMetadata, RebalanceConsumer, RebalanceListener, TopicPartition
from kwire.errors import (
    CommitFailedError,
    IllegalStateError,
    InvalidGroupIdError,
    KafkaError,
    RebalanceListenerError,
)
from tests.network_clients import network_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    import kafka as kafka_python

    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import BytesConsumer, OpenConsumer, PollUntil, Read
    from tests.integration.kafkas import SharedKafka

PARTITIONS = 6
# Others learn of a rebalance from their next heartbeat.
QUICK = {"heartbeat_interval_ms": 100}


def all_partitions(topic: str) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in range(PARTITIONS))


def shared_out(topic: str, *members: BytesConsumer) -> bool:
    """Whether each has something, together they have all, and no two the same."""
    assigned = [member.assignment() for member in members]
    return (
        all(assigned)
        and sum(map(len, assigned)) == PARTITIONS
        and frozenset().union(*assigned) == all_partitions(topic)
    )


class Told(RebalanceListener):
    """Writes down what it was told, and does something on the way."""

    def __init__(self, on_assigned: Callable[[RebalanceConsumer], object] = lambda consumer: None) -> None:
        self.events: list[tuple[str, frozenset[TopicPartition]]] = []
        self.view: RebalanceConsumer | None = None
        self._on_assigned = on_assigned

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("assigned", frozenset(partitions)))
        self.view = consumer
        self._on_assigned(consumer)

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("revoked", frozenset(partitions)))


# --- sharing out -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_members_share_and_take_over(
    topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil, strategy: str
) -> None:
    name = topic(PARTITIONS)

    def member() -> BytesConsumer:
        return open_consumer(name, group_id=group_id, heartbeat_interval_ms=100, partition_assignment_strategy=strategy)

    first = member()
    poll_until(lambda: first.assignment() == all_partitions(name), first)
    second = member()
    poll_until(lambda: shared_out(name, first, second), first, second)
    third = member()
    poll_until(lambda: shared_out(name, first, second, third), first, second, third)
    second.close()
    poll_until(lambda: shared_out(name, first, third), first, third)
    first.unsubscribe()
    assert first.assignment() == frozenset()
    poll_until(lambda: third.assignment() == all_partitions(name), third)
    first.subscribe([name])
    poll_until(lambda: shared_out(name, first, third), first, third)


@pytest.mark.slow
@pytest.mark.parametrize("leader", ["kwire", "librdkafka"])
def test_a_cooperative_member_gives_up_only_what_moves_whoever_leads(
    kafka: SharedKafka, topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, leader: str
) -> None:
    """KIP-429: what stays is never called back about, so that nothing has to be flushed and read again."""
    name = topic(PARTITIONS)
    told = Told()
    mine: BytesConsumer = open_consumer(
        group_id=group_id, heartbeat_interval_ms=100, partition_assignment_strategy="cooperative-sticky"
    )
    theirs = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group_id,
            "partition.assignment.strategy": "cooperative-sticky",
            "heartbeat.interval.ms": 100,
        }
    )

    def theirs_now() -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(tp.topic, tp.partition) for tp in theirs.assignment())

    def poll_until(condition: Callable[[], bool], *polls: Callable[[], object]) -> None:
        until_s = time.monotonic() + 30
        while not condition():
            for poll in polls:
                poll()
            assert time.monotonic() < until_s, (mine.assignment(), theirs_now(), told.events)

    def poll_theirs() -> None:
        theirs.poll(0.02)

    def poll_mine() -> None:
        mine.poll(0.02)

    try:
        if leader == "kwire":
            mine.subscribe([name], listener=told)
            poll_until(lambda: mine.assignment() == all_partitions(name), poll_mine)
            theirs.subscribe([name])
        else:
            theirs.subscribe([name])
            poll_until(lambda: theirs_now() == all_partitions(name), poll_theirs)
            mine.subscribe([name], listener=told)
        poll_until(lambda: len(mine.assignment()) == len(theirs_now()) == PARTITIONS // 2, poll_mine, poll_theirs)
        kept = mine.assignment()
        assert kept | theirs_now() == all_partitions(name)
        theirs.close()
        poll_until(lambda: mine.assignment() == all_partitions(name), poll_mine)
        revoked = [partitions for kind, partitions in told.events if kind == "revoked"]
        assert revoked == ([all_partitions(name) - kept] if leader == "kwire" else [])
    finally:
        theirs.close()


class PythonMember(threading.Thread):
    """kafka-python joins within one poll or not at all, so it polls on a thread of its own, with time to join."""

    def __init__(self, consumer: kafka_python.KafkaConsumer, values: list[bytes | None]) -> None:
        super().__init__()
        self._consumer = consumer
        self._values = values
        self._stopped = threading.Event()
        self.share: frozenset[TopicPartition] = frozenset()

    def run(self) -> None:
        while not self._stopped.is_set():
            for records in self._consumer.poll(timeout_ms=500).values():
                self._values.extend(record.value for record in records)
            self.share = frozenset(TopicPartition(tp.topic, tp.partition) for tp in self._consumer.assignment())

    def stop(self) -> None:
        self._stopped.set()
        self.join()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is deprecated. Use files:DeprecationWarning")  # kafka-python, on import
def test_a_group_of_three_clients(
    kafka: SharedKafka, topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer
) -> None:
    """kwire, librdkafka and kafka-python understand each other's subscriptions and assignments, with each as leader."""
    import kafka as kafka_python
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    name = topic(PARTITIONS)
    confluent = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group_id,
            "partition.assignment.strategy": "range",
            "heartbeat.interval.ms": 100,
            "auto.offset.reset": "earliest",
        }
    )
    confluent.subscribe([name])
    python = kafka_python.KafkaConsumer(
        name,
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=group_id,
        partition_assignment_strategy=[RangePartitionAssignor],
        heartbeat_interval_ms=100,
        auto_offset_reset="earliest",
    )
    mine = open_consumer(name, group_id=group_id, heartbeat_interval_ms=100)
    values: list[bytes | None] = []

    def poll_others() -> None:
        message = confluent.poll(0.02)
        if message is not None:
            values.append(message.value())
        values.extend(record.value for record in mine.poll(0.02))

    def librdkafkas() -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(tp.topic, tp.partition) for tp in confluent.assignment())

    def has_settled() -> bool:
        shares = [mine.assignment(), librdkafkas(), python_member.share]
        return all(len(share) == 2 for share in shares) and frozenset().union(*shares) == all_partitions(name)

    python_member = PythonMember(python, values)
    python_member.start()
    try:
        until_s = time.monotonic() + 30
        while not has_settled():
            poll_others()
            assigned = [
                sorted(tp.partition for tp in share)
                for share in (mine.assignment(), librdkafkas(), python_member.share)
            ]
            assert time.monotonic() < until_s, f"kwire, librdkafka and kafka-python have {assigned}"
        for number in range(PARTITIONS):
            produce(name, [b"%d" % number], partition=number)
        until_s = time.monotonic() + 30
        while len(values) < PARTITIONS:
            poll_others()
            assert time.monotonic() < until_s, values
        assert sorted(value or b"" for value in values) == [b"%d" % number for number in range(PARTITIONS)]
    finally:
        python_member.stop()
        python.close()
        confluent.close()


@pytest.mark.slow
def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(
    topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    name = topic(PARTITIONS)
    told = Told()
    stays = open_consumer(group_id=group_id, group_instance_id="stays", heartbeat_interval_ms=100)
    stays.subscribe([name], listener=told)
    leaves = open_consumer(name, group_id=group_id, group_instance_id="leaves", heartbeat_interval_ms=100)
    poll_until(lambda: shared_out(name, stays, leaves), stays, leaves)
    before, told_before = leaves.assignment(), list(told.events)
    leaves.close()
    returned = open_consumer(name, group_id=group_id, group_instance_id="leaves", heartbeat_interval_ms=100)
    poll_until(lambda: bool(returned.assignment()), stays, returned)
    assert returned.assignment() == before
    assert told.events == told_before


@pytest.mark.slow
def test_a_pattern_finds_topics_that_are_created_later(
    topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil, read: Read
) -> None:
    first = topic()
    consumer = open_consumer(group_id=group_id, metadata_max_age_ms=200, heartbeat_interval_ms=100)
    number = int(first.rpartition("-")[2])
    later = f"{first.rpartition('-')[0]}-{number + 1}"
    consumer.subscribe(re.compile(f"^({re.escape(first)}|{re.escape(later)})$"))
    poll_until(lambda: consumer.assignment() == {TopicPartition(first, 0)}, consumer)
    assert consumer.subscription() == {first}
    assert topic() == later
    produce(later, [b"found"])
    got = poll_until(lambda: len(consumer.assignment()) == 2, consumer)
    got += read(consumer, 1) if not got else []
    assert [record.value for record in got] == [b"found"]
    assert consumer.subscription() == {first, later}


# --- commits -----------------------------------------------------------------------------------------------------


def test_commits_are_what_the_group_resumes_from(
    topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer, read: Read
) -> None:
    name = topic()
    tp = TopicPartition(name, 0)
    produce(name, [b"%d" % i for i in range(10)])
    consumer = open_consumer(name, group_id=group_id, enable_auto_commit=False, max_poll_records=4)
    assert consumer.committed([tp]) == {tp: None}
    read(consumer, 4)
    consumer.commit_sync()
    assert consumer.committed([tp]) == {tp: OffsetAndMetadata(4, "", 0)}
    consumer.commit_sync({tp: OffsetAndMetadata(6, "with a note")})
    assert consumer.committed([tp]) == {tp: OffsetAndMetadata(6, "with a note")}
    consumer.close()
    resumed = open_consumer(name, group_id=group_id)
    assert [record.offset for record in read(resumed, 4)] == [6, 7, 8, 9]


def test_an_asynchronous_commit_calls_back_inside_a_later_poll(
    topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil, read: Read
) -> None:
    name = topic()
    tp = TopicPartition(name, 0)
    produce(name, [b"a", b"b"])
    consumer = open_consumer(name, group_id=group_id, enable_auto_commit=False)
    read(consumer, 2)
    told: list[tuple[object, KafkaError | None, threading.Thread]] = []
    consumer.commit_async(
        callback=lambda offsets, error: told.append((dict(offsets), error, threading.current_thread()))
    )
    assert not told
    poll_until(lambda: bool(told), consumer)
    assert told == [({tp: OffsetAndMetadata(2, "", 0)}, None, threading.current_thread())]
    assert consumer.committed([tp]) == {tp: OffsetAndMetadata(2, "", 0)}


def test_auto_commit_commits_what_the_previous_poll_returned(
    topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil, read: Read
) -> None:
    name = topic()
    tp = TopicPartition(name, 0)
    produce(name, [b"%d" % i for i in range(9)])
    consumer = open_consumer(name, group_id=group_id, max_poll_records=3, auto_commit_interval_ms=1)
    observer = open_consumer(group_id=group_id)

    def committed() -> int:
        found = observer.committed([tp])[tp]
        return found.offset if found is not None else -1

    assert read(consumer, 3)[-1].offset == 2
    # The commit timer runs all the time: had it covered the records in hand, it would show.
    until_s = time.monotonic() + 0.2
    while time.monotonic() < until_s:
        assert committed() in (-1, 0)
    assert read(consumer, 3)[-1].offset == 5
    until_s = time.monotonic() + 10
    while committed() != 3:
        assert time.monotonic() < until_s
    consumer.close()
    assert committed() == 6


@pytest.mark.slow
def test_auto_commit_before_partitions_are_given_back(
    topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil, read: Read
) -> None:
    """The other member goes on exactly where this one stopped, though no commit timer ran."""
    name = topic(PARTITIONS)
    for number in range(PARTITIONS):
        produce(name, [b"%d" % i for i in range(20)], partition=number)
    first = open_consumer(name, group_id=group_id, auto_commit_interval_ms=3_600_000, heartbeat_interval_ms=100)
    got = read(first, 20 * PARTITIONS)
    second = open_consumer(name, group_id=group_id, heartbeat_interval_ms=100)
    got += poll_until(lambda: shared_out(name, first, second), first, second)
    assert all(second.position(tp) == 20 for tp in second.assignment())
    assert len(got) == 20 * PARTITIONS


def test_a_loop_commits_up_to_the_record_it_is_at(
    topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer
) -> None:
    name = topic()
    tp = TopicPartition(name, 0)
    produce(name, [b"%d" % i for i in range(10)])
    consumer = open_consumer(name, group_id=group_id, enable_auto_commit=False)
    for record in consumer:
        if record.offset in (0, 6):
            consumer.commit_sync()
            assert consumer.committed([tp]) == {tp: OffsetAndMetadata(record.offset + 1, "", 0)}
        if record.offset == 6:
            break
    consumer.commit_sync()
    assert consumer.committed([tp]) == {tp: OffsetAndMetadata(7, "", 0)}


@pytest.mark.parametrize("loop", [True, False])
def test_a_block_that_fails_does_not_commit_what_it_failed_over(
    topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer, read: Read, loop: bool
) -> None:
    name = topic()
    tp = TopicPartition(name, 0)
    produce(name, [b"%d" % i for i in range(10)])

    def fail_at_5() -> None:
        with open_consumer(name, group_id=group_id, max_poll_records=4) as consumer:
            records = consumer if loop else chain(read(consumer, 4), read(consumer, 4))
            for record in records:
                assert 1 / (5 - record.offset)

    with pytest.raises(ZeroDivisionError):
        fail_at_5()
    committed = open_consumer(group_id=group_id).committed([tp])[tp]
    assert committed is not None
    assert committed.offset == (5 if loop else 4)


def test_without_a_group_there_is_nothing_to_commit(topic: MakeTopic, open_consumer: OpenConsumer) -> None:
    tp = TopicPartition(topic(), 0)
    consumer = open_consumer()
    consumer.assign([tp])
    for call in (
        consumer.commit_sync,
        consumer.commit_async,
        consumer.group_metadata,
        consumer.enforce_rebalance,
        lambda: consumer.committed([tp]),
        lambda: consumer.subscribe([tp.topic]),
    ):
        with pytest.raises(InvalidGroupIdError, match="needs a group: set group_id"):
            call()


@pytest.mark.slow
def test_a_member_that_does_not_poll_loses_its_partitions_and_hears_of_it(
    topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    """KIP-62: it leaves by itself; a commit then fails with the reason, and the next poll tells and joins anew."""
    name = topic(PARTITIONS)
    told = Told()
    sleepy = open_consumer(group_id=group_id, max_poll_interval_ms=700, heartbeat_interval_ms=100)
    sleepy.subscribe([name], listener=told)
    poll_until(lambda: bool(sleepy.assignment()), sleepy)
    other = open_consumer(name, group_id=group_id, heartbeat_interval_ms=100)
    poll_until(lambda: other.assignment() == all_partitions(name), other)
    with pytest.raises(CommitFailedError, match="max_poll_interval_ms"):
        sleepy.commit_sync({TopicPartition(name, 0): OffsetAndMetadata(0)})
    poll_until(lambda: shared_out(name, sleepy, other), sleepy, other)
    assert [what for what, _ in told.events[:2]] == ["assigned", "revoked"]  # lost, which does what revoked does


# --- callbacks ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_callbacks_come_in_order_and_may_use_the_consumer(
    topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil, read: Read
) -> None:
    name = topic(PARTITIONS)
    produce(name, [b"%d" % i for i in range(5)], partition=0)
    tp = TopicPartition(name, 0)

    def rewind(view: RebalanceConsumer) -> None:
        if tp in view.assignment() and view.committed([tp])[tp] is None:
            assert view.position(tp) == 0
            view.seek(tp, 3)
            view.commit_sync({tp: OffsetAndMetadata(3)})
            view.pause([tp])
            view.resume([tp])

    told = Told(rewind)
    consumer = open_consumer(group_id=group_id, heartbeat_interval_ms=100)
    consumer.subscribe([name], listener=told)
    assert [record.offset for record in read(consumer, 2)] == [3, 4]
    assert told.events == [("assigned", all_partitions(name))]
    other = open_consumer(name, group_id=group_id, heartbeat_interval_ms=100)
    poll_until(lambda: shared_out(name, consumer, other), consumer, other)
    mine = consumer.assignment()
    assert told.events == [("assigned", all_partitions(name)), ("revoked", all_partitions(name)), ("assigned", mine)]
    consumer.unsubscribe()
    assert told.events[-1] == ("revoked", mine)
    assert told.view is not None
    with pytest.raises(IllegalStateError, match="callback that is over"):
        told.view.position(tp)


@pytest.mark.parametrize("forbidden", ["poll", "close", "subscribe", "unsubscribe", "assign"])
def test_a_callback_must_not_pull_the_rug_from_under_the_rebalance(
    topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil, forbidden: str
) -> None:
    """Neither through the view nor through the consumer itself, which the closure can reach."""
    name = topic(PARTITIONS)
    consumer = open_consumer(group_id=group_id)
    calls: dict[str, Callable[[], object]] = {
        "poll": consumer.poll,
        "close": consumer.close,
        "subscribe": lambda: consumer.subscribe([name]),
        "unsubscribe": consumer.unsubscribe,
        "assign": lambda: consumer.assign([TopicPartition(name, 0)]),
    }
    refused: list[IllegalStateError] = []

    def try_it(view: RebalanceConsumer) -> None:
        assert not hasattr(view, forbidden)
        with pytest.raises(IllegalStateError) as caught:
            calls[forbidden]()
        refused.append(caught.value)

    consumer.subscribe([name], listener=Told(try_it))
    poll_until(lambda: consumer.assignment() == all_partitions(name), consumer)
    assert [str(error) for error in refused] == [f"{forbidden}() cannot be called inside a rebalance callback"]


def test_an_error_in_a_callback_comes_out_of_poll_and_the_rebalance_goes_on(
    topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer, read: Read
) -> None:
    name = topic()
    produce(name, [b"here"])

    def fail(view: RebalanceConsumer) -> None:
        raise ZeroDivisionError

    consumer = open_consumer(group_id=group_id)
    consumer.subscribe([name], listener=Told(fail))
    for _ in range(2):
        with pytest.raises(RebalanceListenerError, match="ZeroDivisionError"):
            read(consumer, 1)
    assert consumer.assignment() == {TopicPartition(name, 0)}
    consumer.rebalance_listener = RebalanceListener()
    assert [record.value for record in read(consumer, 1)] == [b"here"]


def test_group_metadata_names_the_member(
    topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    consumer = open_consumer(topic(), group_id=group_id)
    assert (consumer.group_metadata().group_id, consumer.group_metadata().generation_id) == (group_id, -1)
    poll_until(lambda: bool(consumer.assignment()), consumer)
    metadata = consumer.group_metadata()
    assert (metadata.group_id, metadata.generation_id) == (group_id, 1)
    assert metadata.member_id
    consumer.enforce_rebalance("for a test")
    poll_until(lambda: consumer.group_metadata().generation_id > 1, consumer)


@pytest.fixture(autouse=True)
def _no_leftovers() -> Iterator[None]:
    """Nothing here may leave a network thread behind (they are closed by `open_consumer`, which ends before)."""
    before = network_threads()
    yield
    assert network_threads() <= before
