"""`on_event=`: what operators are told by real consumers of a Kafka in the process, in which thread, and who waits."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from kwire import AsyncConsumer, Consumer, TopicPartition
from kwire.clock import Deadline
from kwire.consumer_events import (
    BrokerReachable,
    BrokerUnreachable,
    ConsumerEvent,
    DataLost,
    HeartbeatsUnanswered,
    LagExceeded,
    LagRecovered,
    PollOverdueSoon,
    PositionReset,
    RebalanceBegan,
    RebalanceEnded,
)
from kwire.errors import ConfigError, KafkaError, LogTruncationError, NoThreadError, OffsetOutOfRangeError
from kwire.network import thread
from kwire.processing import Processor
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.testing import Cluster

E = TypeVar("E", bound=ConsumerEvent)

PATIENCE_S = 30.0
O0 = TopicPartition("orders", 0)
QUICK: dict[str, object] = {
    "group_id": "billing",
    "client_id": "desk",
    "auto_offset_reset": "earliest",
    "reconnect_backoff_ms": 1,
    "reconnect_backoff_max_ms": 2,
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 2,
    "fetch_max_wait_ms": 20,
}


class Told:
    """A listener that can be waited for."""

    def __init__(self) -> None:
        self.events: list[ConsumerEvent] = []
        self.threads: set[str] = set()
        self._changed = threading.Condition()

    def __call__(self, event: ConsumerEvent) -> None:
        with self._changed:
            self.events.append(event)
            self.threads.add(threading.current_thread().name)
            self._changed.notify_all()

    def first(self, kind: type[E]) -> E:
        """Wait for it."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.of(kind), PATIENCE_S), f"no {kind.__name__}: {self.events}"
        return self.of(kind)[0]

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    settings = {"group.min.session.timeout.ms": 100}
    with Cluster(brokers=1, topics={"orders": 1}, settings=settings) as running:
        yield running


@pytest.fixture
def told() -> Told:
    return Told()


def open_consumer(cluster: Cluster, told: Callable[[ConsumerEvent], object], **settings: object) -> Consumer:
    return Consumer({**QUICK, "bootstrap_servers": cluster.bootstrap_servers, "on_event": told, **settings}, "orders")


def poll_until(consumer: Consumer, is_so: Callable[[], object]) -> None:
    deadline = Deadline.after(PATIENCE_S * 1000.0)
    while not is_so():
        assert not deadline.expired, str(consumer.describe())
        try:
            consumer.poll(0.01)
        except KafkaError as error:
            assert error.retriable  # noqa: PT017  others are what the test is to fail with


# --- what is told ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_rebalance_begins_with_a_reason_and_ends_with_a_duration(cluster: Cluster, told: Told, protocol: str) -> None:
    with open_consumer(cluster, told, group_protocol=protocol) as consumer:
        poll_until(consumer, lambda: told.of(RebalanceEnded))
        began, ended = told.first(RebalanceBegan), told.first(RebalanceEnded)
    assert began.reason == ended.reason != ""
    assert ended.succeeded
    assert ended.generation is not None
    assert ended.duration_ms >= 0
    assert (ended.client_id, ended.group_id) == ("desk", "billing")
    assert ended.at_ms >= began.at_ms > 0
    assert told.threads == {"kwire-events desk"}


def test_a_position_is_reset_because_nothing_is_committed(cluster: Cluster, told: Told) -> None:
    cluster.produce("orders", b"1", b"2")
    with open_consumer(cluster, told) as consumer:
        poll_until(consumer, lambda: told.of(PositionReset))
    reset = told.first(PositionReset)
    assert (reset.partition, reset.from_offset, reset.to_offset) == (O0, None, 0)
    assert reset.reason == "nothing is committed"
    assert not told.of(DataLost)


def test_records_that_were_deleted_are_told_of_once_though_each_poll_raises(cluster: Cluster, told: Told) -> None:
    cluster.produce("orders", *(b"record" for _ in range(10)))
    cluster.delete_records("orders", 0, 7)
    with open_consumer(cluster, told, group_id=None, auto_offset_reset="none") as consumer:
        consumer.assign([O0])
        consumer.seek(O0, 3)
        for _ in range(5):
            with pytest.raises(OffsetOutOfRangeError):
                consumer.poll(PATIENCE_S)
        lost = told.first(DataLost)
        consumer.seek_to_beginning()
        assert [record.offset for record in consumer.poll(PATIENCE_S)] == [7, 8, 9]
    assert (lost.partition, lost.from_offset, lost.to_offset) == (O0, 3, 7)
    assert len(told.of(DataLost)) == 1


def test_records_that_were_deleted_before_they_were_read_are_told_of(cluster: Cluster, told: Told) -> None:
    cluster.produce("orders", *(b"record" for _ in range(10)))
    cluster.delete_records("orders", 0, 7)
    with open_consumer(cluster, told, group_id=None) as consumer:
        consumer.assign([O0])
        consumer.seek(O0, 3)
        poll_until(consumer, lambda: told.of(DataLost))
    reset, lost = told.first(PositionReset), told.first(DataLost)
    assert (reset.from_offset, reset.to_offset) == (3, 7)
    assert (lost.partition, lost.from_offset, lost.to_offset) == (O0, 3, 7)
    assert lost.reason == "they were deleted before they were read"


@pytest.mark.parametrize("unread", [0, 3])
@pytest.mark.parametrize("policy", ["earliest", "none"])
def test_of_a_topic_that_was_created_again_only_unread_records_are_lost(
    cluster: Cluster, told: Told, policy: str, unread: int
) -> None:
    """All that was lost had been read, and operators were paged."""
    cluster.produce("orders", *(b"old" for _ in range(10)))
    settings = {"auto_offset_reset": policy, "max_poll_records": 10 - unread, "metadata_max_age_ms": 50}
    found: list[object] = []
    with open_consumer(cluster, told, group_id=None, allow_auto_create_topics=False, **settings) as consumer:
        consumer.assign([O0])
        consumer.seek(O0, 0)
        assert len(consumer.poll(PATIENCE_S)) == 10 - unread
        consumer.pause([O0])
        cluster.delete_topic("orders")
        cluster.create_topic("orders", partitions=1)
        deadline = Deadline.after(PATIENCE_S * 1000.0)
        while not found and not told.of(PositionReset):
            assert not deadline.expired
            try:
                consumer.poll(0.01)
            except LogTruncationError as error:
                found.append(error.offsets)
        if unread:
            lost = told.first(DataLost)
            assert (lost.from_offset, lost.to_offset) == (7, 10)
            assert lost.reason == "the topic was deleted and created again"
    assert len(told.of(DataLost)) == bool(unread)
    resets = [(each.from_offset, each.to_offset, each.reason) for each in told.of(PositionReset)]
    if policy == "none":
        assert (found, resets) == ([{O0: 10 - unread}], [])
    else:
        assert resets == [(10 - unread, 0, "its topic was deleted and created again")]


def test_a_seek_to_the_beginning_is_nobody_elses_business(cluster: Cluster, told: Told) -> None:
    cluster.produce("orders", b"1", b"2")
    with open_consumer(cluster, told, group_id=None) as consumer:
        consumer.assign([O0])
        consumer.seek_to_beginning()
        assert consumer.position(O0) == 0
    assert not told.of(PositionReset)


@pytest.mark.slow
def test_a_lag_is_told_of_until_it_is_read(cluster: Cluster, told: Told) -> None:
    """While the application is at a record: nobody waits for its next poll."""
    cluster.produce("orders", *(b"record" for _ in range(500)))
    with open_consumer(cluster, told, event_lag_records=100, max_poll_records=1) as consumer:
        poll_until(consumer, lambda: len(consumer.poll(0.1)))
        exceeded = told.first(LagExceeded)
        poll_until(consumer, lambda: not consumer.current_lag(O0))
        consumer.poll(0)
        recovered = told.first(LagRecovered)
    assert exceeded.lag > exceeded.bound == 100
    assert recovered.lag <= 50


@pytest.mark.slow
def test_an_outage_of_a_broker_begins_and_ends(cluster: Cluster, told: Told) -> None:
    with open_consumer(cluster, told) as consumer:
        poll_until(consumer, lambda: told.of(RebalanceEnded))
        cluster.kill_broker(0)
        poll_until(consumer, lambda: told.of(BrokerUnreachable))
        cluster.start_broker(0)
        poll_until(consumer, lambda: told.of(BrokerReachable))
    assert len(told.of(BrokerUnreachable)) == 1
    down, up = told.first(BrokerUnreachable), told.first(BrokerReachable)
    assert down.broker == up.broker == "{}:{}".format(*cluster.client_addresses[0])
    assert down.broker in down.error
    assert up.outage_ms > 0


@pytest.mark.slow
def test_heartbeats_that_are_lost_are_told_of_while_the_application_polls(cluster: Cluster, told: Told) -> None:
    cluster.control.on(HeartbeatRequest).drop()
    quick = {"heartbeat_interval_ms": 100, "close_timeout_ms": 100}  # it leaves behind a heartbeat that nobody answers
    with open_consumer(cluster, told, session_timeout_ms=1_000, **quick) as consumer:
        poll_until(consumer, lambda: told.of(HeartbeatsUnanswered))
    event = told.first(HeartbeatsUnanswered)
    assert event.unanswered_ms >= 500.0
    assert event.session_timeout_ms == 1_000.0


@pytest.mark.slow
def test_a_poll_that_is_due_is_told_of_though_nobody_polls(cluster: Cluster, told: Told) -> None:
    with open_consumer(cluster, told, max_poll_interval_ms=1_000) as consumer:
        poll_until(consumer, consumer.assignment)
        event = told.first(PollOverdueSoon)
    assert 800.0 <= event.since_poll_ms < 1_000.0


# --- who waits for it -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_listener_that_never_returns_holds_up_nobody(cluster: Cluster) -> None:
    """Heartbeats are answered, records come, and the consumer closes."""
    entered, stuck = threading.Event(), threading.Event()

    def wait(_event: ConsumerEvent) -> None:
        entered.set()
        stuck.wait(PATIENCE_S)

    cluster.produce("orders", b"1")
    heartbeats: list[object] = []
    cluster.control.on(HeartbeatRequest).observe(lambda request, _call: heartbeats.append(request))
    with open_consumer(cluster, wait, session_timeout_ms=2_000, heartbeat_interval_ms=50) as consumer:
        poll_until(consumer, consumer.assignment)
        assert entered.wait(PATIENCE_S)
        seen = len(heartbeats)
        poll_until(consumer, lambda: len(heartbeats) > seen + 3)
        deadline = Deadline.after(PATIENCE_S * 1000.0)
    assert not deadline.expired
    stuck.set()


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_listener_that_raises_is_logged_and_told_of_the_next(
    cluster: Cluster, told: Told, caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    """sys.exit() once ended the thread, silently, and nothing more was told."""

    def fail_and_note(event: ConsumerEvent) -> None:
        told(event)
        raise error("not this one")

    caplog.set_level(logging.ERROR, "kwire.events")
    with open_consumer(cluster, fail_and_note) as consumer:
        poll_until(consumer, lambda: told.of(RebalanceEnded))
    assert len(told.events) >= 2
    assert "on_event raised over RebalanceBegan" in caplog.text


def test_a_listener_that_returns_a_coroutine_is_logged(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody awaited it, and nobody said so."""
    caplog.set_level(logging.ERROR, "kwire.events")
    with open_consumer(cluster, lambda event: asyncio.sleep(0, event)) as consumer:
        poll_until(consumer, lambda: "on_event has done nothing: it returned an object to await" in caplog.text)


def test_its_thread_ends_with_the_consumer(cluster: Cluster, told: Told) -> None:
    with open_consumer(cluster, told, client_id="brief") as consumer:
        poll_until(consumer, lambda: told.of(RebalanceEnded))
        (events,) = (each for each in threading.enumerate() if each.name == "kwire-events brief")
    events.join(PATIENCE_S)
    assert not events.is_alive()


def threads_of(client_id: str) -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.endswith(f" {client_id}")]


def test_a_consumer_whose_network_thread_cannot_be_started_leaves_no_thread(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt left the thread of on_event, which waited for events for ever."""
    monkeypatch.setattr(thread, "patched_by", lambda: "a test has patched threading")
    with pytest.raises(NoThreadError):
        Consumer({"bootstrap_servers": "127.0.0.1:9", "client_id": "stillborn", "on_event": told})
    assert threads_of("stillborn") == []


def test_a_consumer_whose_events_have_no_thread_is_none(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def all_but_events(started: threading.Thread) -> None:
        if started.name.startswith("kwire-events"):
            raise RuntimeError("can't start new thread")
        start(started)

    monkeypatch.setattr(threading.Thread, "start", all_but_events)
    with pytest.raises(
        NoThreadError, match="calls on_event cannot be started: can't start new thread; raise the limit"
    ):
        Consumer({"bootstrap_servers": "127.0.0.1:9", "client_id": "eventless", "on_event": told})
    for each in threads_of("eventless"):
        each.join(PATIENCE_S)
    assert threads_of("eventless") == []


# --- wherever it is used --------------------------------------------------------------------------------------------


def test_of_an_async_consumer(cluster: Cluster, told: Told) -> None:
    async def main() -> None:
        loop, here = asyncio.get_running_loop(), asyncio.Event()

        def tell_the_loop(event: ConsumerEvent) -> None:
            told(event)
            if isinstance(event, RebalanceEnded):
                loop.call_soon_threadsafe(here.set)

        consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer(
            {**QUICK, "bootstrap_servers": cluster.bootstrap_servers, "on_event": tell_the_loop}, "orders"
        )
        async with consumer:
            while not here.is_set():
                await consumer.poll(0.01)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
    assert told.first(RebalanceEnded).succeeded
    assert told.threads == {"kwire-events desk"}


def test_of_a_processor(cluster: Cluster, told: Told) -> None:
    handled = threading.Event()
    cluster.produce("orders", b"1")
    consumer = open_consumer(cluster, told, enable_auto_commit=False)
    with consumer, Processor(consumer, lambda _record: handled.set()):
        assert handled.wait(PATIENCE_S)
        assert told.first(RebalanceEnded).succeeded
        assert told.first(PositionReset).to_offset == 0


@pytest.mark.parametrize(
    ("listener", "why"),
    [(3, "cannot be called"), (lambda: None, "called with one event"), (asyncio.sleep, "coroutine function")],
)
def test_what_cannot_be_called_with_an_event_is_refused(listener: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Consumer({"bootstrap_servers": "localhost:9092", "on_event": listener})
