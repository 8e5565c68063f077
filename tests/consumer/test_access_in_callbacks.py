"""What a consumer's callbacks may pass on, and what it does about those that do not wait.

The events come from the tests: the broker behind these consumers takes connections and never says a word.
"""

from __future__ import annotations

import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from kwire import Consumer, RebalanceConsumer, RebalanceListener, ThreadAccessKey, TopicPartition
from kwire.epochs import Attempt, SubscriptionEpoch
from kwire.errors import ConcurrentModificationError, IllegalStateError, WakeupError
from kwire.events import AssignmentView, CallbackKind, CommitCompleted, RunCallback
from kwire.model import ConsumerGroupMetadata, OffsetAndMetadata, Partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kwire.errors import KafkaError

TP = TopicPartition("orders", 0)
TIMEOUT_S = 10.0


class Calls(RebalanceListener):
    """Does the same in each callback."""

    def __init__(self, act: Callable[[RebalanceConsumer], None]) -> None:
        self._act = act

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._act(consumer)

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._act(consumer)


@pytest.fixture
def silent_broker() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def consumer(silent_broker: str) -> Iterator[Consumer[bytes, bytes]]:
    with Consumer[bytes, bytes](bootstrap_servers=silent_broker, group_id="g", enable_auto_commit=False) as made:
        group = ConsumerGroupMetadata(group_id="g", generation_id=1, member_id="m")
        made._session.link.mailbox.view = AssignmentView(subscribed=True, is_group=True, group=group)
        yield made


@pytest.fixture
def worker() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1, thread_name_prefix="worker") as threads:
        yield threads


def rebalance(consumer: Consumer[bytes, bytes], kind: CallbackKind, act: Callable[[RebalanceConsumer], None]) -> None:
    """Have the next poll run this in a callback."""
    consumer._session.callbacks.listener = Calls(act)
    consumer._session.link.mailbox.deliver(RunCallback(kind, frozenset((TP,)), Attempt(1), SubscriptionEpoch(0)))


def commit_done(consumer: Consumer[bytes, bytes], act: Callable[[], None]) -> None:
    """Have the next poll or commit run this as the callback of a commit."""

    def callback(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
        act()

    consumer._session.link.mailbox.deliver(CommitCompleted(callback, {TP: OffsetAndMetadata(1)}, None))


def use(consumer: RebalanceConsumer, key: ThreadAccessKey | None) -> Partitions:
    consumer.set_thread_access_key(key)
    return consumer.assignment()


@pytest.mark.parametrize("kind", [CallbackKind.ASSIGNED, CallbackKind.REVOKED, CallbackKind.LOST], ids=str)
def test_a_rebalance_callback_passes_its_key_on_with_what_it_is_given(
    consumer: Consumer[bytes, bytes], worker: ThreadPoolExecutor, kind: CallbackKind
) -> None:
    seen: list[Partitions] = []

    def act(given: RebalanceConsumer) -> None:
        with pytest.raises(ConcurrentModificationError, match="thread 'worker_0' has not been given its key"):
            worker.submit(given.assignment).result(TIMEOUT_S)
        seen.append(worker.submit(use, given, given.get_thread_access_key()).result(TIMEOUT_S))

    rebalance(consumer, CallbackKind.ASSIGNED, lambda given: None)
    consumer.poll(0)
    rebalance(consumer, kind, act)
    consumer.poll(0)
    consumer._session.callbacks.listener = RebalanceListener()
    assert seen == [{TP}]


@pytest.mark.parametrize("inside", ["poll", "close"])
def test_a_commit_callback_has_a_key_too(
    consumer: Consumer[bytes, bytes], worker: ThreadPoolExecutor, inside: str
) -> None:
    seen: list[Partitions] = []

    def act() -> None:
        seen.append(worker.submit(use, consumer, consumer.get_thread_access_key()).result(TIMEOUT_S))

    commit_done(consumer, act)
    if inside == "poll":
        consumer.poll(0)
    else:
        consumer.close()
    assert seen == [set()]


def test_each_callback_of_a_poll_has_another_key_and_outside_there_is_none(consumer: Consumer[bytes, bytes]) -> None:
    keys: list[ThreadAccessKey | None] = []
    for _ in range(2):
        commit_done(consumer, lambda: keys.append(consumer.get_thread_access_key()))
    consumer.poll(0)
    first, second = keys
    assert first is not None
    assert second is not None
    assert first is not second
    assert consumer.get_thread_access_key() is None


def test_the_key_does_not_open_what_no_rebalance_callback_may_do(
    consumer: Consumer[bytes, bytes], worker: ThreadPoolExecutor
) -> None:
    refused: list[str] = []

    def disturb(key: ThreadAccessKey | None) -> None:
        consumer.set_thread_access_key(key)
        calls: list[Callable[[], object]] = [
            consumer.poll,
            consumer.close,
            consumer.unsubscribe,
            lambda: consumer.subscribe("orders"),
            lambda: consumer.assign([TP]),
        ]
        for call in calls:
            with pytest.raises(IllegalStateError, match="cannot be called inside a rebalance callback") as caught:
                call()
            refused.append(str(caught.value).split("(")[0])

    rebalance(
        consumer,
        CallbackKind.LOST,
        lambda given: worker.submit(disturb, given.get_thread_access_key()).result(TIMEOUT_S),
    )
    consumer.poll(0)
    assert refused == ["poll", "close", "unsubscribe", "subscribe", "assign"]


def test_wakeup_needs_no_key_and_reaches_the_borrower(
    consumer: Consumer[bytes, bytes], worker: ThreadPoolExecutor
) -> None:
    """It is for the blocking call that goes on now, whichever thread that is in."""

    def ask(given: RebalanceConsumer, key: ThreadAccessKey | None) -> None:
        given.set_thread_access_key(key)
        with pytest.raises(WakeupError):
            given.list_topics(timeout=TIMEOUT_S)

    def act(given: RebalanceConsumer) -> None:
        asked = worker.submit(ask, given, given.get_thread_access_key())
        stranger = threading.Thread(target=consumer.wakeup)
        stranger.start()
        stranger.join(TIMEOUT_S)
        asked.result(TIMEOUT_S)

    rebalance(consumer, CallbackKind.LOST, act)
    consumer.poll(0)


# --- those who do not wait ---------------------------------------------------------------------------------------


class Straggler:
    """A call in a worker that a callback does not wait for: it asks a broker that does not answer."""

    def __init__(self, worker: ThreadPoolExecutor) -> None:
        self._worker = worker
        self._asking = threading.Event()
        self.outcome: Future[None] | None = None

    def start(self, consumer: Consumer[bytes, bytes]) -> None:
        """To be called inside a callback."""
        posted = consumer._session.link.mailbox.post
        key = consumer.get_thread_access_key()

        def ask() -> None:
            consumer.set_thread_access_key(key)
            consumer.list_topics(timeout=TIMEOUT_S)

        def note(event: object) -> None:
            posted(event)  # type: ignore[arg-type]  # what it was given
            self._asking.set()

        consumer._session.link.mailbox.post = note  # type: ignore[method-assign]  # to see the call begin
        self.outcome = self._worker.submit(ask)
        assert self._asking.wait(TIMEOUT_S)
        consumer._session.link.mailbox.post = posted  # type: ignore[method-assign]  # as it was


def test_a_poll_whose_callback_does_not_wait_fails_before_it_does_anything_more(
    consumer: Consumer[bytes, bytes], worker: ThreadPoolExecutor
) -> None:
    """No records are taken out by a call that fails: they would count as processed with the next one."""
    straggler = Straggler(worker)
    rebalance(consumer, CallbackKind.ASSIGNED, lambda given: straggler.start(consumer))
    commit_done(consumer, lambda: pytest.fail("the other thread is still using the consumer"))
    problem = "has returned while thread 'worker_0' was still using the consumer with its key"
    with pytest.raises(ConcurrentModificationError, match=problem):
        consumer.poll(TIMEOUT_S)
    with pytest.raises(ConcurrentModificationError, match="being used by thread 'worker_0'"):
        consumer.poll(0)
    consumer.wakeup()
    assert straggler.outcome is not None
    with pytest.raises(WakeupError):
        straggler.outcome.result(TIMEOUT_S)
    assert consumer.assignment() == {TP}, "the rebalance has gone on"
    ran: list[str] = []
    consumer._session.link.mailbox.discard_background(lambda event: True)
    commit_done(consumer, lambda: ran.append("callback"))
    consumer._session.callbacks.listener = RebalanceListener()
    consumer.poll(0)
    assert ran == ["callback"]


def test_a_close_whose_callback_does_not_wait_closes_all_the_same(
    consumer: Consumer[bytes, bytes], worker: ThreadPoolExecutor
) -> None:
    straggler = Straggler(worker)
    consumer._session.state.assignment = frozenset((TP,))
    consumer._session.callbacks.listener = Calls(lambda given: straggler.start(consumer))
    with pytest.raises(ConcurrentModificationError, match="has returned while thread 'worker_0'"):
        consumer.close(timeout=TIMEOUT_S)
    assert straggler.outcome is not None
    with pytest.raises(IllegalStateError, match="this consumer is closed"):
        straggler.outcome.result(TIMEOUT_S / 2)  # not when its own time is up
    with pytest.raises(IllegalStateError, match="this consumer is closed"):
        consumer.poll(0)
