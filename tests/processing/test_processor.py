"""`Processor` on a cluster in the process: order, commits, failures, rebalances, and what a killed one leaves."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest

from kwire import Consumer, OffsetAndMetadata, RebalanceConsumer, RebalanceListener, Record, TopicPartition
from kwire.clock import monotonic_ms
from kwire.errors import (
    IllegalStateError,
    InvalidArgumentError,
    ProcessingError,
    SchemaRegistryUnavailableError,
    WorkerError,
)
from kwire.fetching.columns import Records
from kwire.processing import Processor, Retry, decode
from kwire.processing.revocation_drain import RevocationDrain
from kwire.testing import Cluster, NewRecord

if TYPE_CHECKING:
    from tests.processing.interrupted_thread import InterruptedThread
else:
    from interrupted_thread import InterruptedThread

pytestmark = pytest.mark.slow

DEADLINE_S = 30.0
TP = TopicPartition("orders", 0)
BytesRecord = Record[bytes, bytes]
BytesConsumer = Consumer[bytes, bytes]
NewConsumer = Callable[..., BytesConsumer]
Orders = Callable[..., None]
WaitUntil = Callable[[Callable[[], bool]], None]


def at_the_end(new_consumer: NewConsumer, wait_until: WaitUntil) -> BytesConsumer:
    """A consumer of a new group that has its position."""
    consumer = new_consumer(auto_offset_reset="latest")
    wait_until(lambda: not consumer.poll(0.01) and TP in consumer.assignment())
    assert consumer.position(TP) == 2
    return consumer


class Seen:
    """A handler that notes what it is given, and can be held up."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.values: list[int] = []
        self.at_once: Counter[object] = Counter()
        self.overlaps = 0
        self.held: set[int] = set()
        self.go = threading.Event()
        self.begun: set[int] = set()

    def __call__(self, record: BytesRecord) -> None:
        number, queue = int(record.value or b"-1"), (record.partition, record.key)
        with self.lock:
            self.begun.add(number)
            self.at_once[queue] += 1
            self.overlaps += self.at_once[queue] > 1
        if number in self.held:
            assert self.go.wait(DEADLINE_S)
        with self.lock:
            self.at_once[queue] -= 1
            self.values.append(number)


# --- order ------------------------------------------------------------------------------------------------------------


def test_everything_is_handled_and_committed_once(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(500, partitions=4)
    seen = Seen()
    with Processor(new_consumer(), seen):
        wait_until(lambda: len(seen.values) == 500)
    assert sorted(seen.values) == list(range(500))
    assert {tp.partition: at.offset for tp, at in cluster.committed("billing").items()} == dict.fromkeys(range(4), 125)


@pytest.mark.parametrize("ordering", ["partition", "key", "none"])
def test_what_keeps_its_order(new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil, ordering: str) -> None:
    orders(300, partitions=3, keys=7)
    seen: defaultdict[object, list[int]] = defaultdict(list)
    lock, at_once, overlaps = threading.Lock(), Counter[object](), 0

    def handle(record: BytesRecord) -> None:
        nonlocal overlaps
        queue = record.partition if ordering == "partition" else (record.partition, record.key)
        with lock:
            at_once[queue] += 1
            overlaps += at_once[queue] > 1
            seen[queue].append(record.offset)
        time.sleep(0.001 * (record.offset % 3))
        with lock:
            at_once[queue] -= 1

    with Processor(new_consumer(), handle, ordering=ordering, workers=8):  # type: ignore[arg-type]
        wait_until(lambda: sum(map(len, list(seen.values()))) == 300)
    if ordering != "none":
        assert overlaps == 0
        assert all(offsets == sorted(offsets) for offsets in seen.values())


def test_a_slow_key_holds_up_nobody_else(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(40, keys=4)
    seen = Seen()
    seen.held = {0}
    with Processor(new_consumer(), seen, ordering="key", workers=2, commit_interval=0.05):
        wait_until(lambda: len(seen.values) == 30)
        assert all(number % 4 for number in seen.values)
        wait_until(lambda: TP in cluster.committed("billing"))
        assert cluster.committed("billing")[TP].offset == 0
        seen.go.set()
    assert len(seen.values) == 40
    assert cluster.committed("billing")[TP].offset == 40


def test_a_slow_partition_is_paused_and_the_others_go_on(
    new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(400, partitions=2)
    seen = Seen()
    seen.held = {0}
    consumer = new_consumer(**{"max.poll.records": 20})
    with Processor(consumer, seen, workers=2, max_buffered_records=60) as processor:
        wait_until(lambda: len(seen.values) == 200)
        assert all(number % 2 for number in seen.values)
        wait_until(lambda: processor.status().paused == {TP})
        assert processor.status().waiting < 60
        seen.go.set()
        wait_until(lambda: len(seen.values) == 400)
    assert sorted(seen.values) == list(range(400))


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_failing_record_is_tried_again_and_its_lane_waits(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(5)
    attempts: list[int] = []

    def handle(record: BytesRecord) -> None:
        attempts.append(record.offset)
        if record.offset == 2 and attempts.count(2) < 3:
            raise OSError("not now")

    with Processor(new_consumer(), handle, retry=Retry(backoff=0.01)) as processor:
        wait_until(lambda: 4 in attempts)
    assert attempts == [0, 1, 2, 2, 2, 3, 4]
    assert processor.status().failed_attempts == 2
    assert cluster.committed("billing")[TP].offset == 5


@pytest.mark.parametrize("terminal", [(), (ValueError,), ValueError])
def test_a_record_that_fails_for_good_ends_it_and_comes_again(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, terminal: type[Exception] | tuple[type[Exception], ...]
) -> None:
    orders(5)
    attempts = Counter[int]()

    def handle(record: BytesRecord) -> None:
        attempts[record.offset] += 1
        if record.offset == 2:
            raise ValueError("never")

    retry = Retry(terminal=terminal) if terminal else Retry(max_attempts=3, backoff=0.001)
    consumer = new_consumer()
    with pytest.raises(ProcessingError, match=r"orders-0 offset 2: .* ValueError\('never'\)") as caught:
        Processor(consumer, handle, retry=retry).run()
    assert isinstance(caught.value.__cause__, ValueError)
    assert attempts == {0: 1, 1: 1, 2: 1 if terminal else 3}
    assert cluster.committed("billing")[TP].offset == 2
    assert [record.offset for record in consumer.poll(5.0)] == [2, 3, 4]


def test_a_new_group_that_began_at_the_end_gets_the_record_again_that_it_failed_over(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    """Without a commit its next life would begin at the end again, behind that record."""
    orders(2)
    again: list[int] = []
    attempts = Counter[int]()

    def fail(record: BytesRecord) -> None:
        attempts[record.offset] += 1
        raise ValueError("not yet")

    first = at_the_end(new_consumer, wait_until)
    cluster.produce("orders", b"2")
    with pytest.raises(ProcessingError, match="orders-0 offset 2"):
        Processor(first, fail, retry=Retry(max_attempts=1)).run()
    first.close()
    with Processor(new_consumer(auto_offset_reset="latest"), lambda record: again.append(record.offset)):
        wait_until(lambda: again == [2])
    assert attempts == {2: 1}


def test_where_a_new_group_begins_is_committed_while_its_first_record_is_in_work(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    """That record may end the process."""
    orders(2)
    seen = Seen()
    seen.held = {2}
    consumer = at_the_end(new_consumer, wait_until)
    with Processor(consumer, seen, commit_interval=3_600.0):
        cluster.produce("orders", b"2")
        wait_until(lambda: seen.begun == {2} and TP in cluster.committed("billing"))
        assert cluster.committed("billing")[TP].offset == 2
        seen.go.set()
    assert cluster.committed("billing")[TP].offset == 3


def test_a_record_that_comes_while_nobody_reads_is_read_though_none_came_before(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    """Partitions go from member to member, or wait for the next one, before their first record has come."""
    orders(2)
    again: list[int] = []
    first = new_consumer(auto_offset_reset="latest")
    with Processor(first, Seen(), commit_interval=3_600.0):
        wait_until(lambda: TP in cluster.committed("billing"))
    first.close()
    cluster.produce("orders", b"2")
    with Processor(new_consumer(auto_offset_reset="latest"), lambda record: again.append(record.offset)):
        wait_until(lambda: again == [2])


def test_a_skipped_record_is_passed_by(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(5)
    done: list[int] = []

    def handle(record: BytesRecord) -> None:
        if record.offset == 2:
            raise ValueError
        done.append(record.offset)

    with Processor(new_consumer(), handle, retry=Retry(max_attempts=1), on_failure="skip") as processor:
        wait_until(lambda: 4 in done)
    assert done == [0, 1, 3, 4]
    assert processor.status().skipped == 1
    assert cluster.committed("billing")[TP].offset == 5


def test_a_dead_letter_takes_the_record_and_its_error(
    new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(5)
    done: list[int] = []
    dead: list[tuple[int, str]] = []

    def handle(record: BytesRecord) -> None:
        if record.offset == 2:
            raise ValueError("bad order")
        done.append(record.offset)

    def bury(record: BytesRecord, error: Exception) -> None:
        dead.append((record.offset, str(error)))

    with Processor(new_consumer(), handle, retry=Retry(max_attempts=1), on_failure=bury) as processor:
        wait_until(lambda: 4 in done)
    assert done == [0, 1, 3, 4]
    assert dead == [(2, "bad order")]
    assert processor.status().dead_lettered == 1


def test_a_dead_letter_that_fails_ends_it(cluster: Cluster, new_consumer: NewConsumer, orders: Orders) -> None:
    orders(2)

    def fail(_record: BytesRecord, _error: Exception | None = None) -> None:
        raise OSError("the dead letter topic is full")

    processor = Processor(new_consumer(), fail, retry=Retry(max_attempts=1), on_failure=fail)
    with pytest.raises(ProcessingError, match="the dead letter topic is full"):
        processor.run()
    assert processor.status().dead_lettered == 0
    assert cluster.committed("billing")[TP].offset == 0


def test_a_handler_that_ends_its_thread_ends_the_processor(new_consumer: NewConsumer, orders: Orders) -> None:
    orders(1)

    def handle(_record: BytesRecord) -> None:
        raise SystemExit(3)

    with pytest.raises(ProcessingError, match="SystemExit"):
        Processor(new_consumer(), handle, on_failure="skip").run()


def test_a_dead_letter_function_that_ends_its_thread_is_named_and_the_handler_is_not(
    new_consumer: NewConsumer, orders: Orders
) -> None:
    """The error said that the handler had failed, once more than it was called, and of a list it named the first."""
    orders(2)

    def handle(_records: list[BytesRecord]) -> None:
        raise ValueError("no such customer")

    def keep(record: BytesRecord, _error: Exception) -> None:
        if record.offset == 1:
            raise SystemExit("the disk is full")

    processor = Processor(new_consumer(), handle, batch_size=2, retry=Retry(max_attempts=1), on_failure=keep)
    told = r"orders-0 offset 1: .* the dead-letter function raised SystemExit\('the disk is full'\)"
    with pytest.raises(WorkerError, match=told):
        processor.run()
    assert processor.status().failed_attempts == 1


# --- the end ----------------------------------------------------------------------------------------------------------


def test_stopping_without_draining_leaves_what_waits(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(50)
    seen = Seen()
    seen.held = {3}
    consumer = new_consumer()
    processor = Processor(consumer, seen)
    with processor:
        wait_until(lambda: 3 in seen.begun)
        processor.stop(drain=False)
        wait_until(lambda: TP in processor.status().paused)  # it has heard of it, and taken back what waits
        seen.go.set()
    assert seen.values == [0, 1, 2, 3]
    assert cluster.committed("billing")[TP].offset == 4
    assert consumer.paused() == frozenset()
    assert next(iter(consumer.poll(5.0))).offset == 4


def test_a_handler_that_does_not_end_is_left_alone_in_time(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(5)
    seen = Seen()
    seen.held = {1}
    processor = Processor(new_consumer(), seen)
    processor.__enter__()
    wait_until(lambda: 1 in seen.begun)
    began_s = time.monotonic()
    processor.close(timeout=0.2)
    assert time.monotonic() - began_s < 5
    assert cluster.committed("billing")[TP].offset == 1
    seen.go.set()


def test_a_second_ctrl_c_does_not_wait_for_a_handler_and_the_consumer_is_closed(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    """The thread went on with the consumer: closing that raised in place of the KeyboardInterrupt, and it kept its
    partitions."""
    orders(3)
    seen, consumer = Seen(), new_consumer()
    seen.held = {1}
    processor = Processor(consumer, seen)

    def press_ctrl_c() -> None:
        with consumer, processor:
            wait_until(lambda: 1 in seen.begun)
            assert processor._thread is not None
            processor._thread = InterruptedThread(processor._thread)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()
    assert consumer._session.state.closed
    assert cluster.committed("billing")[TP].offset == 1
    seen.go.set()


def test_a_handler_may_stop_it(cluster: Cluster, new_consumer: NewConsumer, orders: Orders) -> None:
    orders(50)
    handled: list[int] = []

    def handle(record: BytesRecord) -> None:
        handled.append(record.offset)
        if record.offset == 10:
            processor.stop(drain=False)

    processor = Processor(new_consumer(), handle)
    processor.run()
    assert handled[:11] == list(range(11))
    assert cluster.committed("billing")[TP].offset == len(handled)
    with pytest.raises(IllegalStateError, match="runs once"):
        processor.run()


@pytest.mark.parametrize("argument", ["workers", "commit_interval", "max_buffered_records", "watchdog"])
def test_bad_arguments_are_refused(new_consumer: NewConsumer, argument: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{argument} is 0"):
        Processor(new_consumer(), print, **{argument: 0})  # type: ignore[arg-type]


def test_what_says_nothing_about_retries_is_refused_at_once(new_consumer: NewConsumer) -> None:
    """The first record that failed ended the processor, with an error about tuples, or attributes."""
    for terminal in ("ValueError", ValueError(), (ValueError, "KeyError"), 3):
        with pytest.raises(InvalidArgumentError, match=r"terminal is .* must be a type"):
            Retry(terminal=terminal)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="retry is 3: it has to be a Retry"):
        Processor(new_consumer(), print, retry=3)  # type: ignore[arg-type]


def test_a_consumer_that_commits_by_itself_is_refused(new_consumer: NewConsumer) -> None:
    with pytest.raises(IllegalStateError, match="enable_auto_commit=False"):
        Processor(new_consumer(enable_auto_commit=True), print)


def test_a_consumer_without_a_group_is_refused(cluster: Cluster) -> None:
    """It ended with a KeyError when it committed."""
    consumer: BytesConsumer = Consumer("orders", bootstrap_servers=cluster.bootstrap_servers)
    with consumer, pytest.raises(IllegalStateError, match="make it with a group_id"):
        Processor(consumer, print)


@pytest.mark.parametrize("option", ["ordering", "on_failure", "on_data_loss"])
def test_an_option_that_is_misspelled_is_refused_with_those_there_are(new_consumer: NewConsumer, option: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"{option} is 'keys': it has to be one of '"):
        Processor(new_consumer(), print, **{option: "keys"})  # type: ignore[arg-type]


def test_it_says_when_nothing_gets_done(
    new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil, caplog: pytest.LogCaptureFixture
) -> None:
    orders(3)
    seen = Seen()
    seen.held = {1}
    with caplog.at_level(logging.WARNING), Processor(new_consumer(), seen, watchdog=0.1, commit_interval=0.05):
        wait_until(lambda: "in work for longest is orders-0 offset 1" in caplog.text)
        seen.go.set()
    assert "no record was done for" in caplog.text


def test_time_without_progress_goes_on_though_it_was_told(
    new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil, caplog: pytest.LogCaptureFixture
) -> None:
    """Each warning began it anew: it never came to an alert's five minutes."""
    orders(3)
    seen = Seen()
    seen.held = {1}
    with caplog.at_level(logging.WARNING), Processor(new_consumer(), seen, watchdog=0.1) as processor:
        wait_until(lambda: caplog.text.count("no record was done for") >= 4)
        assert processor.status().seconds_since_progress > 0.3
        seen.go.set()


# --- executors --------------------------------------------------------------------------------------------------------


def test_any_executor_will_do(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(60, keys=5)
    seen = Seen()
    with ThreadPoolExecutor(4) as pool, Processor(new_consumer(), seen, ordering="key", workers=4, executor=pool):
        wait_until(lambda: len(seen.values) == 60)
    assert seen.overlaps == 0
    assert cluster.committed("billing")[TP].offset == 60


def square(record: BytesRecord) -> None:
    if int(record.value or b"") == 7:
        raise ValueError("seven")


def test_processes_too(cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil) -> None:
    orders(10)
    context = get_context("spawn")
    with (
        ProcessPoolExecutor(1, mp_context=context) as pool,
        Processor(new_consumer(), square, executor=pool, retry=Retry(max_attempts=1), on_failure="skip") as processor,
    ):
        wait_until(lambda: processor.status().handled == 10)
    assert processor.status().skipped == 1
    assert cluster.committed("billing")[TP].offset == 10


def test_records_of_a_poll_that_could_not_be_handed_over_come_again(
    cluster: Cluster, new_consumer: NewConsumer
) -> None:
    """A bad key of one partition ended the processor, and what the same poll had returned of another one, whose commit
    was still being asked for, was gone: the next processor began behind it."""
    cluster.create_topic("orders", partitions=3)
    for partition, key in enumerate((b"1", b"[1]", b"2")):
        cluster.produce("orders", NewRecord(b"%d" % partition, key=key), partition=partition)
    consumer, seen = new_consumer(key_deserializer=json.loads), Seen()
    processor = Processor(consumer, lambda record: seen(record._replace(key=None)), ordering="key")
    processor._loop._loader._is_busy = lambda tp: tp.partition == 2
    with pytest.raises(InvalidArgumentError, match="needs keys that can be looked up"):
        processor.run()
    left: list[bytes] = []
    until_s = time.monotonic() + DEADLINE_S
    while len(left) < 2 and time.monotonic() < until_s:
        left += [record.value or b"" for record in consumer.poll(0.1)]
    assert (seen.values, sorted(left)) == ([0], [b"1", b"2"])


def test_a_registry_that_does_not_answer_is_asked_again_after_a_second_and_blocks_nothing_till_then(
    new_consumer: NewConsumer, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop stood still for up to a second, whatever `stop` asked for; or, if a worker ended, for no time at all."""
    orders(1)
    loop = Processor(new_consumer(), print)._loop
    polls: list[float] = []

    def poll(timeout_s: float) -> Records[bytes, bytes]:
        polls.append(timeout_s)
        return Records()

    monkeypatch.setattr(loop, "_polled", poll)
    began_ms = monotonic_ms()
    down = SchemaRegistryUnavailableError(TP, 0, origin="value", key_data=None, value_data=b"")
    loop._wait_for_registry(down, began_ms)
    loop._poll(began_ms)
    assert monotonic_ms() < began_ms + 900.0
    assert not polls
    loop.stop(drain=True, timeout_ms=0.0)
    loop._poll(began_ms + 1_000.0)
    assert polls


# --- rebalances and second lives --------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_partition_is_given_up_when_its_record_in_work_is_done_and_committed(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil, protocol: str
) -> None:
    orders(200, partitions=2)
    settings: dict[str, object] = {"group_protocol": protocol}
    if protocol == "classic":
        settings["heartbeat_interval_ms"] = 100
        settings["session_timeout_ms"] = 6_000
    else:
        cluster.configure_group("billing", {"consumer.heartbeat.interval.ms": "100"})
    first, second, assigned = Seen(), Seen(), threading.Event()
    first.held = {50, 51}
    newcomer = new_consumer(**settings)
    newcomer.rebalance_listener = Announcing(assigned)
    with Processor(new_consumer(**settings), first):
        wait_until(lambda: {50, 51} <= first.begun)
        with Processor(newcomer, second):
            assert not assigned.wait(0.3)
            first.go.set()
            assert assigned.wait(DEADLINE_S)
            for number in range(200, 300):
                cluster.produce("orders", b"%d" % number, partition=number % 2)
            wait_until(lambda: len(first.values) + len(second.values) >= 300)
    counted = Counter(first.values + second.values)
    assert sorted(counted) == list(range(300))
    assert set(counted.values()) == {1}, "a clean rebalance repeats nothing"
    assert len(second.values) >= 50


def test_stop_sets_a_time_also_to_a_rebalance_that_waits_already(
    cluster: Cluster,
    new_consumer: NewConsumer,
    orders: Orders,
    wait_until: WaitUntil,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It waited for 80 % of max_poll_interval_ms, four minutes, whatever timeout `stop` had."""
    orders(2, partitions=2)
    seen, waits, until_ms = Seen(), threading.Event(), RevocationDrain.until_ms
    seen.held = {0, 1}

    def note(drain: RevocationDrain, partitions: frozenset[TopicPartition], now_ms: float) -> float:
        waits.set()
        return until_ms(drain, partitions, now_ms)

    monkeypatch.setattr(RevocationDrain, "until_ms", note)
    cluster.configure_group("billing", {"consumer.heartbeat.interval.ms": "100"})
    processor = Processor(new_consumer(group_protocol="consumer"), seen)
    processor.__enter__()
    wait_until(lambda: seen.begun == {0, 1})
    with Processor(new_consumer(group_protocol="consumer"), Seen()):
        assert waits.wait(DEADLINE_S)
        began_s = time.monotonic()
        processor.close(timeout=0.2)
        assert time.monotonic() - began_s < 5
    seen.go.set()


class Announcing(RebalanceListener):
    """Says when it got something."""

    def __init__(self, assigned: threading.Event) -> None:
        self.assigned = assigned

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        if partitions:
            self.assigned.set()


def test_what_a_killed_one_has_finished_out_of_order_does_not_run_again(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(100, keys=10)
    first, second = Seen(), Seen()
    first.held = {0, 45}
    killed = new_consumer(session_timeout_ms=6_000)
    processor = Processor(killed, first, ordering="key", workers=10, commit_interval=0.05)
    processor.__enter__()
    held_back = {number for number in range(100) if number % 10 == 0 or (number % 10 == 5 and number >= 45)}
    wait_until(lambda: len(first.values) == 100 - len(held_back))

    def is_told() -> bool:
        at = cluster.committed("billing").get(TP)
        found = None if at is None else decode(at.offset, at.metadata or "")
        return found is not None and sum(map(len, found.finished)) == 100 - len(held_back)

    wait_until(is_told)
    with Processor(new_consumer(group_id="audit"), Seen()):
        pass  # another group has nothing to do with it
    successor: BytesConsumer = Consumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id="billing", enable_auto_commit=False
    )
    successor.assign([TP])  # takes over without waiting for the session to end
    with successor:
        with Processor(successor, second, ordering="key"):
            wait_until(lambda: len(second.values) == len(held_back))
        assert set(second.values) == held_back
    first.go.set()
    processor.close(timeout=1.0)


def test_without_the_map_everything_behind_the_commit_runs_again(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(20, keys=2)
    seen = Seen()
    seen.held = {0}
    with Processor(new_consumer(), seen, ordering="key", commit_interval=0.05, offset_map=False) as processor:
        wait_until(lambda: len(seen.values) == 10 and processor.status().commits >= 0)
        seen.held.clear()
        seen.go.set()
    at = cluster.committed("billing")[TP]
    assert (at.offset, at.metadata or "") == (20, "")


def test_somebody_elses_metadata_is_kept(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(20, keys=2)
    consumer = new_consumer()
    wait_until(lambda: consumer.poll(0.1) is not None and bool(consumer.assignment()))
    consumer.commit_sync({TP: OffsetAndMetadata(4, "by hand")})
    consumer.close()
    seen = Seen()
    with Processor(new_consumer(), seen, ordering="key"):
        wait_until(lambda: len(seen.values) == 16)
    at = cluster.committed("billing")[TP]
    assert (at.offset, at.metadata) == (20, "by hand")


def test_a_map_of_a_topic_that_was_recreated_is_not_believed(
    cluster: Cluster, new_consumer: NewConsumer, orders: Orders, wait_until: WaitUntil
) -> None:
    orders(10, keys=2)
    first = Seen()
    first.held = {0}
    consumer = new_consumer(allow_auto_create_topics=False)
    processor = Processor(consumer, first, ordering="key", commit_interval=0.05)
    processor.__enter__()
    wait_until(lambda: len(first.values) == 5)
    wait_until(lambda: TP in cluster.committed("billing") and bool(cluster.committed("billing")[TP].metadata))
    at = cluster.committed("billing")[TP]
    processor.close(drain=False, timeout=0.0)
    cluster.delete_topic("orders")
    orders(10, keys=2)
    second = Seen()
    writer: BytesConsumer = Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="later",
        enable_auto_commit=False,
        auto_offset_reset="earliest",  # it may have looked for a commit before there is one
    )
    with writer:
        writer.assign([TP])
        writer.commit_sync({TP: OffsetAndMetadata(at.offset, at.metadata or "")})
        with Processor(writer, second, ordering="key"):
            wait_until(lambda: len(second.values) == 10)
    first.go.set()
