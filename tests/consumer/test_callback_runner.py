"""What the application thread does with callbacks and their exceptions. The events come from the tests: the network
thread behind these consumers reaches nobody and has nothing to say."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING

import pytest

from kwire import Consumer, RebalanceConsumer, RebalanceListener, TopicPartition
from kwire.consumer import callbacks
from kwire.epochs import Attempt, SubscriptionEpoch
from kwire.errors import CommitFailedError, IllegalStateError, KafkaError, RebalanceListenerError, WakeupError
from kwire.events import AssignmentView, CallbackKind, CommitCompleted, RunCallback
from kwire.model import ConsumerGroupMetadata, OffsetAndMetadata, Partitions
from kwire.network.thread import NetworkThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


TP = TopicPartition("orders", 0)
BOTH = frozenset((TP, TopicPartition("orders", 1)))


class Told(RebalanceListener):
    """Writes down what it was told, then raises if it was given something to raise."""

    def __init__(self, raises: BaseException | None = None) -> None:
        self.events: list[tuple[str, Partitions]] = []
        self._raises = raises

    def _note(self, what: str, partitions: Partitions) -> None:
        self.events.append((what, partitions))
        if self._raises is not None:
            raise self._raises

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._note("assigned", partitions)

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._note("revoked", partitions)

    def on_partitions_lost(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._note("lost", partitions)


@pytest.fixture
def consumer() -> Iterator[Consumer[bytes, bytes]]:
    with Consumer[bytes, bytes](bootstrap_servers="127.0.0.1:1", group_id="g", enable_auto_commit=False) as made:
        be_member(made, generation=1)
        yield made


def be_member(consumer: Consumer[bytes, bytes], generation: int) -> None:
    group = ConsumerGroupMetadata(group_id="g", generation_id=generation, member_id="m")
    consumer._session.link.mailbox.view = AssignmentView(subscribed=True, is_group=True, group=group)


def ask_for(consumer: Consumer[bytes, bytes], kind: CallbackKind, partitions: Partitions) -> None:
    consumer._session.link.mailbox.deliver(RunCallback(kind, partitions, Attempt(1), SubscriptionEpoch(0)))


def listen(consumer: Consumer[bytes, bytes], listener: RebalanceListener) -> None:
    consumer._session.callbacks.listener = listener


def commit_done(
    consumer: Consumer[bytes, bytes],
    callback: Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], None],
) -> None:
    consumer._session.link.mailbox.deliver(CommitCompleted(callback, {TP: OffsetAndMetadata(1)}, None))


def test_what_was_to_be_revoked_is_lost_if_the_membership_ended_before_the_poll(
    consumer: Consumer[bytes, bytes],
) -> None:
    """Java looks at the generation when it runs the callback, too: a commit in `on_partitions_revoked` would fail."""
    told = Told()
    listen(consumer, told)
    ask_for(consumer, CallbackKind.ASSIGNED, BOTH)
    ask_for(consumer, CallbackKind.REVOKED, frozenset((TP,)))
    consumer.poll(0)
    be_member(consumer, generation=-1)
    ask_for(consumer, CallbackKind.REVOKED, BOTH - {TP})
    consumer.poll(0)
    assert told.events == [("assigned", BOTH), ("revoked", {TP}), ("lost", BOTH - {TP})]
    assert consumer.assignment() == set()


@pytest.mark.parametrize("kind", CallbackKind, ids=lambda kind: kind.name.lower())
def test_an_exception_of_a_callback_is_the_cause_of_what_poll_raises(
    consumer: Consumer[bytes, bytes], kind: CallbackKind
) -> None:
    """As in Java, which wraps it into a KafkaException. The rebalance goes on with the next poll: only an assigned
    callback is called again."""
    error, told = ZeroDivisionError("mine"), Told()
    listen(consumer, Told(error))
    ask_for(consumer, kind, BOTH)
    with pytest.raises(RebalanceListenerError, match=f"on_partitions_{kind.name.lower()} raised.*mine") as caught:
        consumer.poll(5)
    assert caught.value.__cause__ is error
    is_assigned = kind is CallbackKind.ASSIGNED
    assert consumer.assignment() == (BOTH if is_assigned else set())
    listen(consumer, told)
    assert not consumer.poll(0)
    assert told.events == ([("assigned", BOTH)] if is_assigned else [])


@pytest.mark.parametrize("error", [CommitFailedError("no"), WakeupError("up"), KeyboardInterrupt()])
def test_errors_of_kafka_and_of_the_interpreter_come_out_as_they_are(
    consumer: Consumer[bytes, bytes], error: BaseException
) -> None:
    listen(consumer, Told(error))
    ask_for(consumer, CallbackKind.ASSIGNED, BOTH)
    with pytest.raises(type(error)) as caught:
        consumer.poll(5)
    assert caught.value is error
    listen(consumer, RebalanceListener())  # closing gives up what it has


@pytest.mark.parametrize(
    ("kind", "raises"),
    [
        (kind, raises)
        for kind in CallbackKind
        for raises in (None, KafkaError("mine"))
        if raises is None or kind is not CallbackKind.ASSIGNED  # that one is called again anyway
    ],
    ids=lambda value: value.name.lower() if isinstance(value, CallbackKind) else "raising" if value else "well",
)
def test_what_strikes_after_a_callback_has_ended_does_not_have_it_called_again(
    consumer: Consumer[bytes, bytes], monkeypatch: pytest.MonkeyPatch, kind: CallbackKind, raises: KafkaError | None
) -> None:
    """How long it took was measured before it was noted that the listener knows; a Ctrl-C could come between."""

    class Measured(Told):
        def _note(self, what: str, partitions: Partitions) -> None:
            monkeypatch.setattr(callbacks, "monotonic_ms", struck)
            super()._note(what, partitions)

    def struck() -> float:
        monkeypatch.undo()
        raise KeyboardInterrupt

    told = Measured(raises)
    listen(consumer, told)
    ask_for(consumer, kind, BOTH)
    with pytest.raises(KeyboardInterrupt):
        consumer.poll(0)
    consumer.poll(0)
    assert len(told.events) == 1
    listen(consumer, RebalanceListener())  # closing gives up what it has


@pytest.mark.parametrize("kind", [CallbackKind.REVOKED, CallbackKind.LOST], ids=["revoked", "lost"])
def test_one_callback_that_raises_does_not_keep_the_next_from_being_run(
    consumer: Consumer[bytes, bytes], kind: CallbackKind
) -> None:
    told = Told()
    listen(consumer, Told(ZeroDivisionError()))
    ask_for(consumer, kind, BOTH)
    ask_for(consumer, CallbackKind.ASSIGNED, BOTH)
    with pytest.raises(RebalanceListenerError):
        consumer.poll(0)
    listen(consumer, told)
    consumer.poll(0)
    assert told.events == [("assigned", BOTH)]


def test_an_assigned_callback_that_has_raised_comes_before_the_next(consumer: Consumer[bytes, bytes]) -> None:
    told = Told()
    listen(consumer, Told(ZeroDivisionError()))
    ask_for(consumer, CallbackKind.ASSIGNED, BOTH)
    ask_for(consumer, CallbackKind.REVOKED, BOTH)
    for _ in range(3):
        with pytest.raises(RebalanceListenerError, match="the next poll calls it again"):
            consumer.poll(0)
    listen(consumer, told)
    consumer.poll(0)
    assert told.events == [("assigned", BOTH), ("revoked", BOTH)]


def test_it_is_not_called_again_once_the_membership_is_over(consumer: Consumer[bytes, bytes]) -> None:
    """It could raise for ever, and nobody would hear that the partitions are lost."""
    told = Told()
    listen(consumer, Told(ZeroDivisionError()))
    ask_for(consumer, CallbackKind.ASSIGNED, BOTH)
    with pytest.raises(RebalanceListenerError):
        consumer.poll(0)
    be_member(consumer, generation=-1)
    ask_for(consumer, CallbackKind.LOST, BOTH)
    listen(consumer, told)
    consumer.poll(0)
    assert told.events == [("lost", BOTH)]


def test_nor_does_it_hold_up_the_callbacks_of_commits(consumer: Consumer[bytes, bytes]) -> None:
    listen(consumer, Told(ZeroDivisionError()))
    ask_for(consumer, CallbackKind.ASSIGNED, BOTH)
    with pytest.raises(RebalanceListenerError):
        consumer.poll(0)
    ran: list[int] = []
    commit_done(consumer, lambda offsets, error: ran.append(1))
    with pytest.raises(RebalanceListenerError):
        consumer.poll(0)
    assert ran == [1]
    listen(consumer, RebalanceListener())  # closing gives up what it has


def test_a_commits_callback_that_raises_does_not_cost_the_others_theirs(consumer: Consumer[bytes, bytes]) -> None:
    """Once the callbacks of all commits that were done were taken, and those behind the one that raised forgotten."""
    ran: list[int] = []

    def fail(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
        raise ZeroDivisionError

    commit_done(consumer, fail)
    commit_done(consumer, lambda offsets, error: ran.append(1))
    commit_done(consumer, lambda offsets, error: ran.append(2))
    with pytest.raises(ZeroDivisionError):
        consumer.commit_sync({})
    consumer.commit_sync({})
    assert ran == [1, 2]


def test_closing_in_a_commits_callback_ends_the_poll(consumer: Consumer[bytes, bytes]) -> None:
    commit_done(consumer, lambda offsets, error: consumer.close())
    with pytest.raises(IllegalStateError, match="closed"):
        consumer.poll(5)


def test_a_consumer_nobody_holds_is_gone_at_once_and_says_so() -> None:
    """Without a cycle the garbage collector is not needed; once its thread, and its membership, went on for ever."""
    gc.disable()
    try:
        lost: Consumer[bytes, bytes] = Consumer(bootstrap_servers="127.0.0.1:1", group_id="g")
        side = lost._session.link.thread
        assert isinstance(side, NetworkThread)
        thread = side._thread
        with pytest.warns(ResourceWarning, match=r"unclosed consumer consumer-g-\d+"):
            del lost
    finally:
        gc.enable()
    thread.join(5)
    assert thread not in threading.enumerate()


def test_closing_or_failing_to_begin_leaves_nothing_to_warn_of(monkeypatch: pytest.MonkeyPatch) -> None:
    Consumer[bytes, bytes](bootstrap_servers="127.0.0.1:1").close()

    def fail(*_: object) -> None:
        raise KafkaError("a Ctrl-C, say")

    monkeypatch.setattr(Consumer, "subscribe", fail)
    with pytest.raises(KafkaError):
        Consumer[bytes, bytes]("a-topic", bootstrap_servers="127.0.0.1:1", group_id="g")
    gc.collect()
