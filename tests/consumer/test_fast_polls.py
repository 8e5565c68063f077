"""The fast path of a poll: it returns records that are decoded, where nothing else is to be done.

Tests compare what a poll returns and leaves behind with what it does on its usual path. The fixture `ways` notes which
path each poll took.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from kwire import AsyncConsumer, Consumer, OffsetAndMetadata, Record, TopicPartition
from kwire.clock import monotonic_ms
from kwire.consumer.polling import Polling
from kwire.consumer.session import ConsumerSession
from kwire.errors import (
    ConcurrentModificationError,
    IllegalStateError,
    InvalidArgumentError,
    RecordDeserializationError,
    WakeupError,
)
from kwire.fetching.columns import Records
from kwire.fetching.open_fetch import OpenFetch
from kwire.testing import Cluster

RECORDS, EACH = 100, 5
TP = TopicPartition("t", 0)
Ways: TypeAlias = list[bool]
Prepare: TypeAlias = Callable[[Consumer[bytes, bytes]], object]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"t": 1}, settings={"group.initial.rebalance.delay.ms": 0}) as running:
        running.produce("t", *(b"%d" % number for number in range(RECORDS)), partition=0)
        yield running


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    """Of each poll, whether it took the fast path."""
    found: Ways = []
    fast_poll = ConsumerSession.fast_poll

    def noted(self: ConsumerSession[object, object], *, to_loop: bool = False) -> Records[object, object] | None:
        records = fast_poll(self, to_loop=to_loop)
        found.append(records is not None)
        return records

    monkeypatch.setattr(ConsumerSession, "fast_poll", noted)
    return found


def settings_of(cluster: Cluster, **settings: object) -> dict[str, object]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "auto_offset_reset": "earliest",
        "max_poll_records": EACH,
    } | settings


def opened(cluster: Cluster, ways: Ways, **settings: object) -> Consumer[bytes, bytes]:
    """A consumer whose polls take the fast path by now."""
    consumer: Consumer[bytes, bytes] = Consumer(config=settings_of(cluster, **settings))
    consumer.assign([TP])
    poll_until_fast(consumer, ways)
    return consumer


def poll_until_fast(consumer: Consumer[bytes, bytes], ways: Ways) -> None:
    while not (ways and ways[-1]):
        consumer.poll(10.0)


def offsets(records: Records[bytes, bytes]) -> list[int]:
    return [record.offset for record in records]


@pytest.fixture
def consumer(cluster: Cluster, ways: Ways) -> Iterator[Consumer[bytes, bytes]]:
    with opened(cluster, ways, group_id="billing", enable_auto_commit=False) as found:
        yield found


# --- what they return ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 5, 7, 50, 99])
def test_all_records_come_once_and_in_order(cluster: Cluster, ways: Ways, most: int) -> None:
    with Consumer[bytes, bytes]("t", config=settings_of(cluster, max_poll_records=most)) as consumer:
        found: list[Record[bytes, bytes]] = []
        while len(found) < RECORDS:
            records = consumer.poll(10.0)
            assert len(records) <= most
            found += records
            if records:
                assert records.next_offsets() == {TP: OffsetAndMetadata(len(found), leader_epoch=0)}
    assert [(record.offset, record.value) for record in found] == [(at, b"%d" % at) for at in range(RECORDS)]
    # All are decoded by the first poll that has any. The last one ends the fetch. Both take the usual path.
    assert sum(ways) == -(-RECORDS // most) - 2


def test_a_loop_over_the_consumer_polls_so(cluster: Cluster, ways: Ways) -> None:
    with Consumer[bytes, bytes]("t", config=settings_of(cluster)) as consumer:
        found = [record.offset for _, record in zip(range(RECORDS), consumer, strict=False)]
    assert found == list(range(RECORDS))
    assert sum(ways) >= RECORDS // EACH - 3


@pytest.mark.parametrize("deserializes", [False, True])
def test_an_event_loop_has_them_unless_something_is_deserialized(
    cluster: Cluster, ways: Ways, deserializes: bool
) -> None:
    """A deserializer may take long, and the loop's other tasks must have a turn."""

    async def read() -> list[object]:
        more = {"value_deserializer": int} if deserializes else {}
        async with AsyncConsumer[bytes, object]("t", config=settings_of(cluster, **more)) as consumer:
            found: list[object] = []
            while len(found) < RECORDS:
                found += (await consumer.poll(10.0)).values()
            return found

    values = asyncio.run(read())
    assert values == [at if deserializes else b"%d" % at for at in range(RECORDS)]
    assert any(ways) is not deserializes


def test_a_record_that_cannot_be_deserialized_is_told_of_behind_those_in_front_of_it(
    cluster: Cluster, ways: Ways
) -> None:

    def picky(data: bytes) -> int:
        if data == b"42":
            raise ValueError("not this one")
        return int(data)

    found: list[int] = []
    with Consumer[bytes, int]("t", config=settings_of(cluster, value_deserializer=picky)) as consumer:
        while len(found) < 42:
            found += [record.offset for record in consumer.poll(10.0)]
        assert found == list(range(42))
        for _ in range(2):
            with pytest.raises(RecordDeserializationError) as caught:
                consumer.poll(10.0)
            assert caught.value.offset == 42
        consumer.seek(TP, 43)
        while len(found) < RECORDS - 1:
            found += [record.offset for record in consumer.poll(10.0)]
    assert found == [at for at in range(RECORDS) if at != 42]
    assert sum(ways) >= 10


# --- what is counted, committed, and known ------------------------------------------------------------------


def test_metrics_are_those_of_other_polls(cluster: Cluster, ways: Ways) -> None:
    def counted(most: int) -> dict[str, float]:
        with Consumer[bytes, bytes](config=settings_of(cluster, max_poll_records=most)) as consumer:
            consumer.assign([TP])
            got = 0
            while got < RECORDS:
                got += len(consumer.poll(10.0))
                if got == RECORDS // 2:
                    assert metric(consumer, "records-lag") == RECORDS // 2
            names = (
                "records-consumed-total",
                "bytes-consumed-total",
                "records-lag",
                "records-lead",
                "records-lead-min",
            )
            return {name: metric(consumer, name) for name in names}

    at_once, few = counted(RECORDS), counted(EACH)
    assert few.pop("records-lead-min") == EACH < at_once.pop("records-lead-min") == RECORDS
    assert few == at_once
    assert sum(ways) > RECORDS // EACH // 2, "a few others look after what has come up, as an answer does"


def metric(consumer: Consumer[bytes, bytes], name: str) -> float:
    (value, *_) = [value for key, value in consumer.metrics().items() if key.name == name]
    return value


def test_a_commit_covers_what_was_returned_and_no_more(consumer: Consumer[bytes, bytes], ways: Ways) -> None:
    for _ in range(3):
        end = offsets(consumer.poll(10.0))[-1] + 1
        consumer.commit_sync()
        assert (consumer.position(TP), consumer.committed([TP])[TP]) == (end, OffsetAndMetadata(end, leader_epoch=0))
    assert ways[-3:] == [True] * 3


def test_an_auto_commit_covers_what_the_application_came_back_from(cluster: Cluster, ways: Ways) -> None:
    """The network thread commits; nobody waits for it, so it is asked as often as it takes."""
    with opened(cluster, ways, group_id="auto", auto_commit_interval_ms=10) as consumer:
        last = offsets(consumer.poll(10.0))
        assert ways[-1]
        while consumer.committed([TP])[TP] != OffsetAndMetadata(last[0], leader_epoch=0):
            pass
        consumer.poll(10.0)
        while consumer.committed([TP])[TP] != OffsetAndMetadata(last[-1] + 1, leader_epoch=0):
            pass


# --- what sends a poll the usual way ------------------------------------------------------------------------


def test_a_wakeup_ends_the_next_poll_and_costs_no_record(consumer: Consumer[bytes, bytes], ways: Ways) -> None:
    before = offsets(consumer.poll(10.0))
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(10.0)
    assert offsets(consumer.poll(10.0))[0] == before[-1] + 1


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        pytest.param(lambda consumer: consumer.pause([TP]), None, id="pause"),
        pytest.param(lambda consumer: consumer.unsubscribe() or consumer.subscribe(["none"]), None, id="unsubscribe"),
        pytest.param(lambda consumer: consumer.seek(TP, 70), 70, id="seek"),
        pytest.param(lambda consumer: consumer.seek(TP, 3), 3, id="seek back"),
        pytest.param(lambda consumer: consumer.seek_to_beginning([TP]), 0, id="seek to the beginning"),
        pytest.param(lambda consumer: consumer.seek_to_end([TP]), None, id="seek to the end"),
        pytest.param(lambda consumer: consumer.assign([TopicPartition("other", 0)]), None, id="assign"),
    ],
)
def test_what_the_application_asks_for_holds_for_the_next_poll(
    consumer: Consumer[bytes, bytes], ways: Ways, prepare: Prepare, expected: int | None
) -> None:
    consumer.poll(10.0)
    assert ways[-1]
    prepare(consumer)
    records = consumer.poll(0.05 if expected is None else 10.0)
    assert offsets(records)[:1] == ([] if expected is None else [expected])


def test_a_partition_that_is_resumed_goes_on_where_it_was(consumer: Consumer[bytes, bytes]) -> None:
    end = offsets(consumer.poll(10.0))[-1] + 1
    consumer.pause([TP])
    for _ in range(3):
        assert not consumer.poll(0.0)
    consumer.resume([TP])
    assert offsets(consumer.poll(10.0)) == list(range(end, end + EACH))


def test_what_a_loop_has_left_comes_first(consumer: Consumer[bytes, bytes], ways: Ways) -> None:
    for record in consumer:
        if ways[-1] and record.offset % EACH == 1:
            break
    assert offsets(consumer.poll(10.0)) == list(range(record.offset + 1, record.offset + EACH - 1))


def test_what_a_poll_had_collected_that_raised_comes_first(
    consumer: Consumer[bytes, bytes], ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler raises when the poll is about to return."""
    end = offsets(consumer.poll(10.0))[-1] + 1
    take = Polling.take

    def struck(self: Polling[bytes, bytes], opened: OpenFetch, *, to_loop: bool = False) -> Records[bytes, bytes]:
        take(self, opened, to_loop=to_loop)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Polling, "take", struck)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(10.0)
    for start in (end, end + EACH):
        assert offsets(consumer.poll(10.0)) == list(range(start, start + EACH))
    assert ways[-2:] == [False, True]


def test_revocation_is_looked_after(consumer: Consumer[bytes, bytes], ways: Ways) -> None:
    consumer._session.state.revocation.lose(frozenset((TP,)))
    assert [bool(consumer.poll(10.0)) and ways[-1] for _ in range(3)] == [False, True, True]


def test_new_partitions_are_looked_for_when_it_is_time(cluster: Cluster, ways: Ways) -> None:
    with Consumer[bytes, bytes]("t", config=settings_of(cluster)) as consumer:
        poll_until_fast(consumer, ways)
        whole_topics = consumer._session.whole_topics
        whole_topics._look_at_ms = 0.0
        assert consumer.poll(10.0)
        assert not ways.pop()
        consumer.pause([TP])  # it is not read to its end meanwhile
        while whole_topics.are_due(monotonic_ms()):
            consumer.poll(0.0)
        consumer.resume([TP])
        assert [bool(consumer.poll(10.0)) and ways[-1] for _ in range(2)] == [False, True]


def test_callbacks_of_commits_run_in_the_next_poll(consumer: Consumer[bytes, bytes]) -> None:
    done = threading.Event()
    consumer.commit_async(callback=lambda *_: done.set())
    consumer.committed([TP])  # an answer that comes behind that of the commit
    records = consumer.poll(10.0)
    assert done.is_set()
    assert records


def test_a_closed_consumer_a_wrong_timeout_and_another_thread_are_refused(
    consumer: Consumer[bytes, bytes], ways: Ways
) -> None:
    for timeout in (-1, float("nan"), "1"):
        with pytest.raises(InvalidArgumentError):
            consumer.poll(timeout)  # type: ignore[arg-type]
    errors: list[Exception] = []

    def poll() -> None:
        try:
            consumer.poll(10.0)
        except ConcurrentModificationError as error:
            errors.append(error)

    with consumer._guard:
        other = threading.Thread(target=poll)
        other.start()
        other.join()
    assert len(errors) == 1
    end = offsets(consumer.poll(10.0))[-1] + 1
    assert ways[-1]
    assert consumer.position(TP) == end
    consumer.close()
    with pytest.raises(IllegalStateError):
        consumer.poll(10.0)


def test_of_several_partitions_each_goes_on(ways: Ways) -> None:
    """The fetch of a partition that was paused is the older one. It comes first when the partition is resumed."""
    with Cluster(topics={"t": 2}) as cluster:
        for partition in range(2):
            cluster.produce("t", *(b"%d" % number for number in range(RECORDS)), partition=partition)
        with Consumer[bytes, bytes](config=settings_of(cluster)) as consumer:
            consumer.assign([TP, TopicPartition("t", 1)])
            first = consumer.poll(10.0)
            (paused,) = first.partitions()
            other = TopicPartition("t", 1 - paused.partition)
            consumer.pause([paused])
            for _ in range(4):
                assert consumer.poll(10.0).partitions() == {other}
            consumer.resume([paused])
            found = consumer.poll(10.0)
            assert [(record.topic_partition, record.offset) for record in found] == [
                (paused, at) for at in range(EACH, 2 * EACH)
            ]
            rest: list[tuple[int, int]] = []
            while len(rest) < 2 * RECORDS - 6 * EACH:
                rest += [(record.partition, record.offset) for record in consumer.poll(10.0)]
    assert any(ways)
    assert sorted(rest) == sorted(
        [(paused.partition, at) for at in range(2 * EACH, RECORDS)]
        + [(other.partition, at) for at in range(4 * EACH, RECORDS)]
    )
