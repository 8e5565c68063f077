"""A record whose key or value cannot be deserialized is a failed record like any other, whatever calls the handler.

A `Processor` whose poll raised once ended with what was in work undone, and the error's advice, to seek behind the bad
record, jumped over all of it: 391 of 400 records were lost.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from threading import current_thread
from typing import Literal, TypeAlias

import pytest

from kwire import Consumer, OffsetAndMetadata, Record, TopicPartition
from kwire.errors import CorruptRecordError, OffsetOutOfRangeError, ProcessingError, RecordDeserializationError
from kwire.fetching.cursor_collector import Collected
from kwire.processing import DeadLetter, Processor
from kwire.protocol.messages.fetch import FetchRequest
from kwire.testing import Cluster
from kwire.testing.cluster.batches import NewRecord

GOOD, BAD = 400, b"{no json"
TP = TopicPartition("orders", 0)

Value: TypeAlias = dict[str, int]
OfValue: TypeAlias = Record[bytes, Value]
WaitUntil: TypeAlias = Callable[[Callable[[], bool]], None]
NewOfValue: TypeAlias = Callable[..., Consumer[bytes, Value]]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 1}) as running:
        yield running


@pytest.fixture
def consumer_of(cluster: Cluster) -> NewOfValue:
    def make(**settings: object) -> Consumer[bytes, Value]:
        config: dict[str, object] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": "billing",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "value_deserializer": json.loads,
        }
        return Consumer("orders", config=config | settings)

    return make


def fill(cluster: Cluster, *, good_behind: int = 1) -> None:
    """Offsets 0 to 399 are good, 400 is not, and some more good ones are behind it."""
    values = [b'{"n": %d}' % number for number in range(GOOD)]
    behind = [b'{"n": %d}' % number for number in range(GOOD + 1, GOOD + 1 + good_behind)]
    records = [NewRecord(value=value, key=b"%d" % (index % 7)) for index, value in enumerate([*values, BAD, *behind])]
    for start in range(0, len(records), 50):
        cluster.produce("orders", *records[start : start + 50])


def committed(cluster: Cluster) -> int:
    found = cluster.committed("billing").get(TP)
    return -1 if found is None else found.offset


class Handler:
    """Counts what it is called with, and stops its processor when it has seen enough."""

    def __init__(self, enough: int) -> None:
        self.seen: Counter[int] = Counter()
        self.processor: Processor[bytes, Value] | None = None
        self._enough = enough

    def __call__(self, item: OfValue | list[OfValue]) -> None:
        for record in item if isinstance(item, list) else [item]:
            assert isinstance(record.value, dict), "what cannot be deserialized gets to no handler"
            self.seen[record.offset] += 1
        if len(self.seen) >= self._enough and self.processor is not None:
            self.processor.stop()

    async def be_awaited(self, item: OfValue | list[OfValue]) -> None:
        self(item)


def count_in_process(record: OfValue) -> None:
    assert record.value is not None


@pytest.mark.parametrize("ordering", ["partition", "key", "none"])
@pytest.mark.parametrize("how", ["threads", "batches", "async", "async batches", "executor"])
def test_skipping_gives_up_the_one_record_that_cannot_be_read(
    cluster: Cluster, consumer_of: NewOfValue, ordering: Literal["partition", "key", "none"], how: str
) -> None:
    fill(cluster, good_behind=40)
    handler = Handler(enough=GOOD + 40)
    with consumer_of() as consumer:
        processor = handler.processor = Processor(
            consumer,
            handler.be_awaited if "async" in how else handler,
            ordering=ordering,
            batch_size=16 if "batches" in how else None,
            executor=ThreadPoolExecutor(4) if how == "executor" else None,
            on_failure="skip",
        )
        processor.run()
        status = processor.status()
    assert set(handler.seen) == {*range(GOOD), *range(GOOD + 1, GOOD + 41)}
    assert set(handler.seen.values()) == {1}
    assert (status.skipped, status.dead_lettered, committed(cluster)) == (1, 0, GOOD + 41)


def test_a_pool_of_processes_is_not_asked_about_a_record_that_cannot_be_read(
    cluster: Cluster, consumer_of: NewOfValue, wait_until: WaitUntil
) -> None:
    fill(cluster)
    with consumer_of() as consumer, ProcessPoolExecutor(1) as pool:
        processor = Processor(consumer, count_in_process, executor=pool, on_failure="skip")
        with processor:
            wait_until(lambda: processor.status().handled == GOOD + 2)
    assert committed(cluster) == GOOD + 2


@pytest.mark.slow
def test_what_is_behind_a_dead_letter_in_a_batch_goes_back_to_the_executor(
    cluster: Cluster, consumer_of: NewOfValue
) -> None:
    """The thread of the dead letters went on with the handler. It ran in this process, though the user had given a pool
    of processes whose initializer had opened what the handler needs."""
    fill(cluster, good_behind=40)
    handler, threads, dead = Handler(enough=GOOD + 40), set[str](), list[int]()

    def handle(batch: list[OfValue]) -> None:
        threads.add(current_thread().name.rpartition("_")[0])
        handler(batch)

    with consumer_of() as consumer, ThreadPoolExecutor(1, "users") as pool:
        handler.processor = Processor(
            consumer,
            handle,
            executor=pool,
            batch_size=1000,
            on_failure=lambda record, _error: dead.append(record.offset),
        )
        handler.processor.run()
    assert threads == {"users"}
    assert dead == [GOOD]
    assert set(handler.seen.values()) == {1}
    assert committed(cluster) == GOOD + 41


def test_stopping_finishes_and_commits_what_is_in_front_and_the_next_processor_may_skip(
    cluster: Cluster, consumer_of: NewOfValue
) -> None:
    fill(cluster)
    first, second = Handler(enough=1_000), Handler(enough=1)
    with consumer_of() as consumer:
        with pytest.raises(ProcessingError, match="not handled: cannot deserialize the value") as caught:
            Processor(consumer, first).run()
        assert "seek" not in str(caught.value)
        assert (caught.value.topic_partition, caught.value.offset) == (TP, GOOD)
        assert isinstance(caught.value.__cause__, RecordDeserializationError)
        assert (len(first.seen), committed(cluster)) == (GOOD, GOOD)
        second.processor = Processor(consumer, second, on_failure="skip")
        second.processor.run()
    assert (set(second.seen), committed(cluster)) == ({GOOD + 1}, GOOD + 2)


def test_a_dead_letter_function_gets_the_raw_bytes(cluster: Cluster, consumer_of: NewOfValue) -> None:
    fill(cluster)
    handler = Handler(enough=GOOD + 1)
    dead: list[tuple[object, Exception]] = []

    def keep(record: OfValue, error: Exception) -> None:
        dead.append((record.value, error))

    policy: DeadLetter[bytes, Value] = keep
    with consumer_of() as consumer:
        handler.processor = Processor(consumer, handler, on_failure=policy)
        handler.processor.run()
    ((value, error),) = dead
    assert value == BAD
    assert isinstance(error, RecordDeserializationError)
    assert (error.value_data, error.key_data, error.offset) == (BAD, b"%d" % (GOOD % 7), GOOD)
    assert committed(cluster) == GOOD + 2


def test_a_key_that_cannot_be_read_is_a_lane_of_its_raw_bytes(cluster: Cluster, consumer_of: NewOfValue) -> None:
    records = [NewRecord(value=b'{"n": 1}', key=b"x" if number == 5 else b"%d" % number) for number in range(10)]
    cluster.produce("orders", *records)
    handler = Handler(enough=9)
    with consumer_of(key_deserializer=int) as consumer:
        handler.processor = Processor(consumer, handler, ordering="key", on_failure="skip")
        handler.processor.run()
    assert (set(handler.seen), committed(cluster)) == ({*range(10)} - {5}, 10)


@pytest.mark.slow
def test_a_plain_consumer_that_goes_on_behind_a_processor_is_told_again(
    cluster: Cluster, consumer_of: NewOfValue
) -> None:
    """Only a processor is given raw bytes where a value should be."""
    fill(cluster)
    with consumer_of(max_poll_records=1_000) as consumer:
        with pytest.raises(ProcessingError):
            Processor(consumer, Handler(enough=1_000)).run()
        with pytest.raises(RecordDeserializationError, match="to step over it: seek"):
            consumer.poll(10.0)
        consumer.seek(TP, GOOD + 1)
        assert [record.value for record in consumer.poll(10.0)] == [{"n": GOOD + 1}]


# --- what cannot be had at all --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_a_processor_has_not_seen_is_fetched_again_though_markers_are_in_front_of_it(
    cluster: Cluster, consumer_of: NewOfValue
) -> None:
    """Markers and aborted records are collected without a record: there is no first offset among them."""
    cluster.produce("orders", NewRecord(value=b'{"n": 0}'), NewRecord(value=BAD))
    with consumer_of() as consumer:
        consumer._session.polling.keep_failures(True)
        (chunk,) = consumer.poll(10.0).chunks()
        markers = chunk.behind(len(chunk) - 1)
        consumer._session.state.delivery.pending.extend(map(Collected.of, [markers, chunk]))
        consumer._session.link.run(consumer._session._fetch_failures_again())
        assert [record.offset for record in consumer.poll(10.0)] == [0]
        with pytest.raises(RecordDeserializationError):
            consumer.poll(10.0)


def spoil(payload: bytes) -> bytes:
    return payload.replace(b'"damaged"', b'"DAMAGED"')


def fill_with_damage(cluster: Cluster) -> None:
    """A batch of 10, a damaged one of 10, a sound one of 10."""
    for name in ("good", "damaged", "good"):
        cluster.produce("orders", *(b'"%s"' % name.encode() for _ in range(10)))
    cluster.control.on(FetchRequest).corrupt(spoil)


class Strings(Handler):
    def __call__(self, item: object) -> None:
        assert isinstance(item, Record)
        self.seen[item.offset] += 1
        if len(self.seen) >= self._enough and self.processor is not None:
            self.processor.stop()


def test_a_damaged_batch_ends_the_processor_once_what_is_in_front_is_finished(
    cluster: Cluster, consumer_of: NewOfValue
) -> None:
    fill_with_damage(cluster)
    handler = Strings(enough=100)
    with consumer_of() as consumer, pytest.raises(CorruptRecordError) as caught:
        Processor(consumer, handler).run()
    assert (caught.value.offset, caught.value.next_offset) == (10, 20)
    assert (set(handler.seen), committed(cluster)) == (set(range(10)), 10)


@pytest.mark.slow
def test_a_damaged_batch_is_passed_if_the_user_says_so(cluster: Cluster, consumer_of: NewOfValue) -> None:
    fill_with_damage(cluster)
    handler = Strings(enough=20)
    with consumer_of() as consumer:
        handler.processor = Processor(consumer, handler, on_data_loss="skip")
        handler.processor.run()
    assert (set(handler.seen), committed(cluster)) == ({*range(10), *range(20, 30)}, 30)


@pytest.mark.slow
def test_a_damaged_batch_that_is_larger_than_a_first_fetch_is_passed_as_a_whole(
    cluster: Cluster, consumer_of: NewOfValue
) -> None:
    """It came alone each time, so that where the next one begins was not known: two fetches of it for each offset."""
    fetches: list[object] = []
    cluster.produce("orders", b'"damaged"', *(b'"%s"' % bytes(b"x" * 2_000) for _ in range(299)))
    cluster.produce("orders", b'"good"')
    cluster.control.on(FetchRequest).observe(lambda request, _: fetches.append(request))
    cluster.control.on(FetchRequest).corrupt(spoil)
    handler = Strings(enough=1)
    with consumer_of() as consumer:
        handler.processor = Processor(consumer, handler, on_data_loss="skip")
        handler.processor.run()
    assert (set(handler.seen), committed(cluster)) == ({300}, 301)
    assert len(fetches) < 50


@pytest.mark.slow
def test_damage_that_has_happened_on_the_way_is_not_passed(
    cluster: Cluster, consumer_of: NewOfValue, wait_until: WaitUntil
) -> None:
    """The batch was skipped at first sight: ten good records were lost."""
    fill_with_damage(cluster)
    cluster.control.clear()
    cluster.control.on(FetchRequest, times=1).corrupt(spoil)
    handler = Strings(enough=100)
    with consumer_of() as consumer, Processor(consumer, handler, on_data_loss="skip"):
        wait_until(lambda: 29 in handler.seen)
    assert (set(handler.seen), committed(cluster)) == (set(range(30)), 30)


@pytest.mark.slow
def test_damage_at_the_end_of_the_log_is_passed_offset_by_offset(
    cluster: Cluster, consumer_of: NewOfValue, wait_until: WaitUntil, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the next sound batch begins is not known, for there is none yet."""
    cluster.produce("orders", *(b'"damaged"' for _ in range(10)))
    cluster.control.on(FetchRequest).corrupt(spoil)
    handler = Strings(enough=1)
    with consumer_of(fetch_max_wait_ms=20) as consumer:  # each of the ten is looked at twice, behind a fetch under way
        handler.processor = Processor(consumer, handler, on_data_loss="skip")
        with handler.processor:
            wait_until(lambda: "orders-0: going on at offset 10 instead of 9" in caplog.text)
            cluster.produce("orders", b'"good"')
            wait_until(lambda: bool(handler.seen))
    assert (set(handler.seen), committed(cluster)) == ({10}, 11)


@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_a_position_that_the_log_has_lost_is_a_loss_of_data(
    cluster: Cluster, consumer_of: NewOfValue, policy: Literal["stop", "skip"]
) -> None:
    cluster.produce("orders", *(b'{"n": %d}' % number for number in range(50)))
    with consumer_of() as consumer:
        consumer.poll(10.0)
        consumer.commit_sync({TP: OffsetAndMetadata(5)})
    cluster.delete_records("orders", 0, 40)
    handler = Handler(enough=10)
    with consumer_of(auto_offset_reset="none") as consumer:
        handler.processor = Processor(consumer, handler, on_data_loss=policy)
        if policy == "stop":
            with pytest.raises(OffsetOutOfRangeError):
                handler.processor.run()
            assert (set(handler.seen), committed(cluster)) == (set(), 5)
        else:
            handler.processor.run()
            assert (set(handler.seen), committed(cluster)) == (set(range(40, 50)), 50)
