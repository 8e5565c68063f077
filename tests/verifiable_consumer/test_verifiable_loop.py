"""The loop: what is told of each poll, what is committed, how it ends. The consumer is a fake, its records are not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.consumer.listener import CallbackView, RebalanceConsumer, RebalanceListener
from kwire.epochs import AssignmentEpoch
from kwire.errors import (
    CommitFailedError,
    CorruptRecordError,
    FencedInstanceIdError,
    GroupAuthorizationError,
    InternalError,
    KafkaError,
    NoOffsetForPartitionError,
    RebalanceInProgressError,
    WakeupError,
)
from kwire.events import AssignmentView
from kwire.fetching.buffer import FetchBuffer
from kwire.fetching.collector import FetchCollector
from kwire.fetching.columns import Records
from kwire.fetching.completed_fetch import CompletedFetch
from kwire.fetching.cursor_collector import Collected
from kwire.fetching.deserializing import Deserializers
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.verifiable_consumer.consumer import VerifiableConsumer
from kwire.verifiable_consumer.events import EventLog
from kwire.verifiable_consumer.orders import ProcessingOrders

if TYPE_CHECKING:
    from tests.record_batches import batch
    from tests.verifiable_consumer.verifiable_lines import Event, LinesInMemory
else:
    from record_batches import batch
    from verifiable_lines import Event, LinesInMemory

EPOCH = AssignmentEpoch(1)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def polled(*fetched: tuple[TopicPartition, bytes]) -> Records[bytes, bytes]:
    """What the engine makes of these batches."""
    buffer = FetchBuffer()
    for tp, data in fetched:
        buffer.put([CompletedFetch(topic_partition=tp, epoch=EPOCH, fetch_offset=0, records=data, aborted=())])
    collector: FetchCollector[bytes, bytes] = FetchCollector(
        buffer, Deserializers(key=None, value=None), read_committed=False, check_crcs=True
    )
    pending: list[Collected[bytes, bytes]] = []
    collector.collect(AssignmentView(epochs=dict.fromkeys((T0, T1), EPOCH)), pending, 500, 0.0)
    return Records(entry.chunk for entry in pending)


@dataclass
class FakeConsumer:
    """Polls what it is given, then is woken up as by a signal. `commit_errors` are raised one by one, None is none."""

    polls: list[Records[bytes, bytes] | Exception] = field(default_factory=list)
    commit_errors: list[KafkaError | None] = field(default_factory=list)
    commits: list[dict[TopicPartition, int]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    listener: RebalanceListener = field(default_factory=RebalanceListener)

    def subscribe(self, topics: Collection[str], /, *, listener: RebalanceListener) -> None:
        self.calls.append(f"subscribe {' '.join(topics)}")
        self.listener = listener

    def poll(self, timeout: float, /) -> Records[bytes, bytes]:
        assert timeout == float("inf")
        found = self.polls.pop(0) if self.polls else WakeupError()
        if isinstance(found, Exception):
            raise found
        return found

    def commit_sync(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], /) -> None:
        self.commits.append({tp: position.offset for tp, position in offsets.items()})
        error = self.commit_errors.pop(0) if self.commit_errors else None
        if error is not None:
            raise error

    def wakeup(self) -> None:
        self.calls.append("wakeup")

    def close(self) -> None:
        self.calls.append("close")
        self._call(self.listener.on_partitions_revoked)

    def _call(self, callback: Callable[[RebalanceConsumer, frozenset[TopicPartition]], None]) -> None:
        callback(view(), frozenset((T0, T1)))


def view() -> RebalanceConsumer:
    return CallbackView.__new__(CallbackView).as_consumer()  # expired from the beginning: nothing may be called on it


def run(
    consumer: FakeConsumer,
    *,
    topic: str = "t",
    max_messages: int = -1,
    auto_commit: bool = False,
    verbose: bool = False,
    orders: ProcessingOrders | None = None,
) -> list[Event]:
    lines = LinesInMemory()
    VerifiableConsumer(
        consumer,
        EventLog(lines),
        topic,
        max_messages=max_messages,
        auto_commit=auto_commit,
        verbose=verbose,
        orders=orders,
    ).run()
    return lines.events()


def names(events: list[Event]) -> list[object]:
    return [event["name"] for event in events]


def partitions_of(events: list[Event]) -> list[list[tuple[object, ...]]]:
    """Partition, count, first and last offset, of each poll."""
    told = [event["partitions"] for event in events if event["name"] == "records_consumed"]
    return [
        [(part["partition"], part["count"], part["minOffset"], part["maxOffset"]) for part in parts]
        for parts in told
        if isinstance(parts, list)
    ]


# --- records ----------------------------------------------------------------------------------------------------


def test_each_poll_is_told_and_committed() -> None:
    consumer = FakeConsumer([polled((T0, batch(0, 1, 2)), (T1, batch(0, 1))), polled((T0, batch(5, 7)))])
    events = run(consumer)
    assert names(events) == [
        "startup_complete",
        "records_consumed",
        "offsets_committed",
        "records_consumed",
        "offsets_committed",
        "partitions_revoked",
        "shutdown_complete",
    ]
    assert [event["count"] for event in events if "count" in event] == [5, 2]
    assert partitions_of(events) == [[(0, 3, 0, 2), (1, 2, 0, 1)], [(0, 2, 5, 7)]]
    assert consumer.commits == [{T0: 3, T1: 2}, {T0: 8}]
    assert consumer.calls == ["subscribe t", "close"]


def test_the_chunks_of_a_partition_are_one_summary() -> None:
    consumer = FakeConsumer([polled((T0, batch(0, 1)), (T0, batch(2, 3, 4)))])
    assert partitions_of(run(consumer)) == [[(0, 5, 0, 4)]]


def test_with_auto_commit_nothing_is_committed_and_nothing_told() -> None:
    consumer = FakeConsumer([polled((T0, batch(0, 1)))])
    assert "offsets_committed" not in names(run(consumer, auto_commit=True))
    assert consumer.commits == []


def test_verbose_tells_each_record_before_the_poll() -> None:
    consumer = FakeConsumer([polled((T0, batch(4, 6, values={6: b"six"})))])
    told = names(events := run(consumer, verbose=True))
    assert told[1:4] == ["record_data", "record_data", "records_consumed"]
    assert [(event["offset"], event["key"], event["value"]) for event in events[1:3]] == [
        (4, None, "4"),
        (6, None, "six"),
    ]


def test_the_limit_cuts_what_is_told_and_committed_but_not_the_count_of_the_poll() -> None:
    """As Java's: `count` adds up to what came, the partitions add up to what was wanted."""
    consumer = FakeConsumer([polled((T0, batch(0, 1, 2)), (T1, batch(0, 1, 2))), polled((T0, batch(3)))])
    events = run(consumer, max_messages=4, verbose=True)
    assert names(events).count("record_data") == 4
    assert [event["count"] for event in events if "count" in event] == [6]
    assert partitions_of(events) == [[(0, 3, 0, 2), (1, 1, 0, 0)]]
    assert consumer.commits == [{T0: 3, T1: 1}]
    assert len(consumer.polls) == 1


def test_a_limit_that_is_met_exactly_leaves_later_partitions_out() -> None:
    consumer = FakeConsumer([polled((T0, batch(0, 1)), (T1, batch(0)))])
    assert partitions_of(run(consumer, max_messages=2)) == [[(0, 2, 0, 1)]]
    assert consumer.commits == [{T0: 2}]


def test_a_limit_of_nothing_ends_at_once() -> None:
    consumer = FakeConsumer([polled((T0, batch(0)))])
    assert names(run(consumer, max_messages=0)) == ["startup_complete", "partitions_revoked", "shutdown_complete"]


# --- commits that fail ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [CommitFailedError("no member"), RebalanceInProgressError("poll first")])
def test_a_commit_that_fails_is_told_and_consuming_goes_on(error: KafkaError) -> None:
    consumer = FakeConsumer([polled((T0, batch(0))), polled((T0, batch(1)))], commit_errors=[error])
    failed, done = [event for event in run(consumer) if event["name"] == "offsets_committed"]
    assert (failed["success"], failed["error"]) == (False, str(error))
    assert done["success"] is True
    assert "error" not in done


def test_a_commit_that_a_signal_interrupts_is_made_again_before_the_end() -> None:
    consumer = FakeConsumer([polled((T0, batch(0))), polled((T0, batch(1)))], commit_errors=[WakeupError()])
    assert names(run(consumer))[1:] == [
        "records_consumed",
        "offsets_committed",
        "partitions_revoked",
        "shutdown_complete",
    ]
    assert consumer.commits == [{T0: 1}, {T0: 1}]


def test_a_fenced_static_member_ends_without_telling_of_the_commit(caplog: pytest.LogCaptureFixture) -> None:
    consumer = FakeConsumer([polled((T0, batch(0)))], commit_errors=[FencedInstanceIdError("fenced")])
    assert "offsets_committed" not in names(run(consumer))
    assert "fenced" in caplog.text


# --- how it ends ------------------------------------------------------------------------------------------------


def test_a_wakeup_ends_it_without_a_word_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert names(run(FakeConsumer()))[-1] == "shutdown_complete"
    assert caplog.text == ""


@pytest.mark.parametrize("error", [NoOffsetForPartitionError({T0}), ZeroDivisionError("a bug")])
def test_any_other_error_is_logged_and_the_consumer_closed(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    consumer = FakeConsumer([error])
    assert names(run(consumer)) == ["startup_complete", "partitions_revoked", "shutdown_complete"]
    assert consumer.calls == ["subscribe t", "close"]
    assert str(error) in caplog.text


def test_an_output_that_nobody_reads_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    """Java's program would go on for ever, and commit what nobody heard of."""

    class Closed:
        def write(self, data: bytes, /) -> None:
            if b"records_consumed" in data:
                raise BrokenPipeError

    consumer = FakeConsumer([polled((T0, batch(0))), polled((T0, batch(1)))])
    VerifiableConsumer(consumer, EventLog(Closed()), "t").run()
    assert consumer.commits == []
    assert consumer.calls == ["subscribe t", "close"]
    assert "BrokenPipeError" in caplog.text


def test_rebalances_are_told_and_lost_partitions_as_revoked_ones() -> None:
    lines, consumer = LinesInMemory(), FakeConsumer()
    VerifiableConsumer(consumer, EventLog(lines), "t").run()
    before = len(lines.written)
    consumer.listener.on_partitions_assigned(view(), frozenset((T1, T0)))
    consumer.listener.on_partitions_assigned(view(), frozenset())
    consumer.listener.on_partitions_lost(view(), frozenset((T1,)))
    both = [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}]
    assert lines.events()[before:] == [
        {"name": "partitions_assigned", "partitions": both},
        {"name": "partitions_assigned", "partitions": []},
        {"name": "partitions_revoked", "partitions": both[1:]},
    ]


# --- as a member of a test, with orders -------------------------------------------------------------------------


class OrdersOfATest(ProcessingOrders):
    """Writes down what it was asked for, and takes no time."""

    def __init__(self) -> None:
        super().__init__(Path("orders.json"))
        self.asked: list[str] = []

    def work(self, records: int) -> None:
        self.asked.append(f"work {records}")

    def pause(self) -> None:
        self.asked.append("pause")


def test_with_orders_an_error_is_told_and_polling_goes_on() -> None:
    consumer, orders = FakeConsumer([CorruptRecordError("bad"), polled((T0, batch(5, 6)))]), OrdersOfATest()
    events = run(consumer, orders=orders)
    assert names(events) == [
        "startup_complete",
        "poll_failed",
        "records_consumed",
        "offsets_committed",
        "closing",
        "partitions_revoked",
        "shutdown_complete",
    ]
    assert events[1]["error"] == "CorruptRecordError"
    assert orders.asked == ["pause", "work 2"]


def test_with_orders_a_refused_membership_is_no_end() -> None:
    """The next poll asks for it again."""
    consumer, orders = FakeConsumer([GroupAuthorizationError("g"), polled((T0, batch(5)))]), OrdersOfATest()
    assert "records_consumed" in names(run(consumer, orders=orders))
    assert consumer.calls == ["subscribe t", "close"]
    assert orders.asked == ["pause", "work 1"]


@pytest.mark.parametrize("error", [FencedInstanceIdError("fenced"), InternalError("a bug"), ZeroDivisionError("a bug")])
def test_with_orders_what_cannot_be_mended_ends_it_nevertheless(error: Exception) -> None:
    consumer = FakeConsumer([error, polled((T0, batch(0)))])
    assert "records_consumed" not in names(run(consumer, orders=OrdersOfATest()))
    assert consumer.calls[-1] == "close"


def test_with_orders_lost_partitions_are_told_as_such() -> None:
    lines, consumer = LinesInMemory(), FakeConsumer()
    VerifiableConsumer(consumer, EventLog(lines), "t", orders=OrdersOfATest()).run()
    consumer.listener.on_partitions_lost(view(), frozenset((T1,)))
    assert lines.events()[-1] == {"name": "partitions_lost", "partitions": [{"topic": "t", "partition": 1}]}


def test_several_topics_have_commas_in_between() -> None:
    consumer = FakeConsumer()
    run(consumer, topic="t,u")
    assert consumer.calls[0] == "subscribe t u"
