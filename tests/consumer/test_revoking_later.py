"""What polls, callbacks and the group get to see of asynchronous revocation (KIP-983), step by step.

The events come from the tests: the network thread behind these consumers reaches nobody and has nothing to say. What
is posted to it is written down in place of being sent.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from kwire import Consumer, RebalanceConsumer, RebalanceListener, TopicPartition
from kwire.epochs import Attempt, SubscriptionEpoch
from kwire.errors import (
    CommitFailedError,
    IllegalStateError,
    RebalanceListenerError,
    TopicAuthorizationError,
    WakeupError,
)
from kwire.events import (
    AssignmentView,
    CallbackCompleted,
    CallbackKind,
    Commit,
    CommitCompleted,
    ErrorRaised,
    PartitionsReleased,
    RunCallback,
)
from kwire.model import ConsumerGroupMetadata, Partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kwire.config import Settings
    from kwire.events import ApplicationEvent

A, B, C = (TopicPartition("orders", number) for number in range(3))
ALL = frozenset((A, B, C))
TIMEOUT_S = 10.0


class Told(RebalanceListener):
    """Writes down what it was told, then does something."""

    def __init__(self, act: Callable[[RebalanceConsumer], object] = lambda consumer: None) -> None:
        self.events: list[tuple[str, set[TopicPartition]]] = []
        self._act = act

    def _note(self, what: str, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self.events.append((what, set(partitions)))
        self._act(consumer)

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self.events.append(("assigned", set(partitions)))

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._note("revoked", consumer, partitions)

    def on_partitions_lost(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._note("lost", consumer, partitions)


class Scene:
    """A member that has all three partitions, and what it has posted to its network thread since."""

    def __init__(self, consumer: Consumer[bytes, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
        self.consumer = consumer
        self.told = Told()
        self.posted: list[ApplicationEvent] = []
        self._attempts = 0
        self.be_member(1)
        monkeypatch.setattr(consumer._session.link.mailbox, "post", self.posted.append)
        self.ask(CallbackKind.ASSIGNED, *ALL)
        self.consumer.poll(0)
        self.listen(self.told)
        self.posted.clear()

    def listen(self, told: Told) -> None:
        self.told = told
        self.consumer._session.callbacks.listener = told

    def be_member(self, generation: int) -> None:
        group = ConsumerGroupMetadata(group_id="g", generation_id=generation, member_id="m")
        self.consumer._session.link.mailbox.view = AssignmentView(subscribed=True, is_group=True, group=group)

    def ask(self, kind: CallbackKind, *partitions: TopicPartition) -> None:
        """The group wants a callback."""
        self._attempts += 1
        self.consumer._session.link.mailbox.deliver(
            RunCallback(kind, frozenset(partitions), Attempt(self._attempts), SubscriptionEpoch(0))
        )

    def revoke(self, *partitions: TopicPartition) -> None:
        self.ask(CallbackKind.REVOKED, *partitions)

    @property
    def completed(self) -> list[ApplicationEvent]:
        """The ends of callbacks that the group was told of."""
        return [event for event in self.posted if isinstance(event, CallbackCompleted)]

    @property
    def commits(self) -> list[Commit]:
        return [event for event in self.posted if isinstance(event, Commit)]


@pytest.fixture
def make_scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Scene]]:
    made: list[Consumer[bytes, bytes]] = []

    def make(**settings: object) -> Scene:
        defaults: Settings = {"bootstrap_servers": "127.0.0.1:1", "group_id": "g", "enable_auto_commit": False}
        made.append(Consumer[bytes, bytes](config={**defaults, "enable_async_revocation": True, **settings}))
        return Scene(made[-1], monkeypatch)

    yield make
    monkeypatch.undo()
    for consumer in made:
        consumer._session.callbacks.listener = RebalanceListener()
        consumer._session.callbacks.discard()
        consumer._session.state.assignment = frozenset()
        consumer.close()


@pytest.fixture
def scene(make_scene: Callable[..., Scene]) -> Scene:
    return make_scene()


# --- from the request to its end ---------------------------------------------------------------------------------


def test_a_request_ends_the_poll_and_the_next_one_completes_it(scene: Scene) -> None:
    scene.revoke(A, B)
    records = scene.consumer.poll(TIMEOUT_S)
    assert (len(records), records.to_be_revoked, records.lost) == (0, frozenset((A, B)), frozenset())
    assert scene.consumer.to_be_revoked_partitions() == {A, B}
    assert scene.consumer.assignment() == ALL
    assert (scene.told.events, scene.completed) == ([], [])
    assert scene.consumer.poll(0).to_be_revoked == frozenset()
    assert scene.told.events == [("revoked", {A, B})]
    assert scene.consumer.assignment() == {C}
    assert len(scene.completed) == 1


def test_the_group_is_told_once_when_the_last_of_a_request_is_gone(scene: Scene) -> None:
    """And commits of all that was returned leave out what is gone already."""
    scene.revoke(A, B, C)
    scene.consumer.poll(0)
    assert scene.consumer.delay_revoke([A, B])
    scene.consumer.poll(0)
    assert scene.consumer.delay_revoke([A])
    scene.consumer.poll(0)
    assert scene.consumer.delay_revoke([A])
    scene.consumer.poll(0)
    assert scene.told.events == [("revoked", {C}), ("revoked", {B})]
    assert [event.partitions for event in scene.posted if isinstance(event, PartitionsReleased)] == [{C}, {B}]
    assert scene.completed == []
    scene.consumer.poll(0)
    assert scene.told.events[2:] == [("revoked", {A})]
    assert len(scene.completed) == 1
    assert scene.consumer.assignment() == frozenset()


def test_a_request_for_nothing_is_done_at_once(scene: Scene) -> None:
    """An eager member is called back before each join, even if it owns nothing."""
    scene.revoke()
    scene.consumer.poll(0)
    assert scene.told.events == [("revoked", set())]
    assert len(scene.completed) == 1


def test_what_is_assigned_next_waits_for_the_revoke_in_front_of_it(scene: Scene) -> None:
    scene.revoke(A)
    scene.ask(CallbackKind.ASSIGNED, B)
    scene.consumer.poll(0)
    for _ in range(3):
        assert scene.consumer.delay_revoke([A])
        scene.consumer.poll(0)
    assert scene.told.events == []
    scene.consumer.poll(0)
    assert scene.told.events == [("revoked", {A}), ("assigned", {B})]


def test_commit_callbacks_and_errors_come_through_while_a_revoke_is_delayed(scene: Scene) -> None:
    done: list[str] = []
    scene.revoke(A)
    scene.consumer.poll(0)
    mailbox = scene.consumer._session.link.mailbox
    mailbox.deliver(CommitCompleted(lambda offsets, error: done.append("committed"), {}, None))
    mailbox.deliver(ErrorRaised(TopicAuthorizationError({"orders"})))
    assert scene.consumer.delay_revoke([A])
    with pytest.raises(TopicAuthorizationError):
        scene.consumer.poll(0)
    assert done == ["committed"]
    assert scene.told.events == []


def test_auto_commit_comes_before_the_callback_and_is_waited_for_across_polls(make_scene: Callable[..., Scene]) -> None:
    """As without the feature: when the revoke is completed, not when it is asked for."""
    scene = make_scene(enable_auto_commit=True)
    scene.revoke(A, B)
    scene.consumer.poll(0)
    assert scene.consumer.delay_revoke([B])
    assert scene.commits == []
    scene.consumer.poll(0)
    (first,) = scene.commits
    assert first.is_last
    assert not scene.consumer.delay_revoke([A]), "it is on its way out"
    scene.consumer.poll(0)
    assert scene.told.events == []
    second = scene.commits[1]
    first.reply.succeed(None)
    scene.consumer.poll(0)
    assert scene.told.events == [("revoked", {A})]
    second.reply.fail(CommitFailedError("is logged"))
    scene.consumer.poll(0)
    assert scene.told.events == [("revoked", {A}), ("revoked", {B})]
    assert len(scene.completed) == 1


def test_a_callback_that_raises_ends_its_part_all_the_same(scene: Scene) -> None:
    def fail(consumer: RebalanceConsumer) -> None:
        raise ZeroDivisionError

    scene.listen(Told(fail))
    scene.revoke(A, B)
    scene.consumer.poll(0)
    scene.consumer.delay_revoke([B])
    with pytest.raises(RebalanceListenerError):
        scene.consumer.poll(0)
    assert scene.consumer.assignment() == {B, C}
    assert scene.consumer.to_be_revoked_partitions() == {B}
    with pytest.raises(RebalanceListenerError):
        scene.consumer.poll(0)
    assert len(scene.completed) == 1


# --- what is lost ------------------------------------------------------------------------------------------------


def test_what_is_delayed_is_lost_when_the_membership_ends(scene: Scene) -> None:
    scene.revoke(A, B)
    scene.consumer.poll(0)
    assert scene.consumer.delay_revoke([A])
    scene.be_member(-1)
    assert not scene.consumer.delay_revoke([A]), "it is known before the next poll tells"
    records = scene.consumer.poll(TIMEOUT_S)
    assert records.lost == scene.consumer.lost_partitions() == {A, B}
    assert scene.told.events == [("lost", {A}), ("lost", {B})]
    assert scene.consumer.assignment() == {C}
    assert len(scene.completed) == 1
    assert scene.consumer.poll(0).lost == scene.consumer.lost_partitions() == frozenset()


def test_what_is_delayed_is_lost_when_the_rebalance_has_taken_too_long(make_scene: Callable[..., Scene]) -> None:
    """Polls go on, so no timer of theirs runs out. A poll that waits ends then, a little before the group would act."""
    scene = make_scene(max_poll_interval_ms=50)
    scene.revoke(A)
    records = scene.consumer.poll(0)
    began_s = time.monotonic()
    while not records.lost:
        scene.consumer.delay_revoke([A])
        records = scene.consumer.poll(TIMEOUT_S)
    assert records.lost == {A}
    assert time.monotonic() - began_s < TIMEOUT_S
    assert scene.told.events == [("lost", {A})]
    assert not scene.consumer.delay_revoke([A])
    assert len(scene.completed) == 1


def test_a_loss_without_a_request_ends_the_poll_too(scene: Scene) -> None:
    scene.ask(CallbackKind.LOST, A, B)
    records = scene.consumer.poll(TIMEOUT_S)
    assert records.lost == {A, B}
    assert scene.told.events == [("lost", {A, B})]


# --- in the middle of it -----------------------------------------------------------------------------------------


def test_a_wake_up_costs_no_delay(scene: Scene) -> None:
    """A listener that delays again only after polls that return keeps what is in work."""
    scene.revoke(A)
    scene.consumer.poll(0)
    assert scene.consumer.delay_revoke([A])
    scene.consumer.wakeup()
    with pytest.raises(WakeupError):
        scene.consumer.poll(0)
    assert scene.consumer.poll(0).to_be_revoked == {A}
    assert scene.told.events == []
    scene.consumer.poll(0)
    assert scene.told.events == [("revoked", {A})]


def test_a_poll_that_is_interrupted_at_its_end_completes_no_revoke(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application has not seen what is to be revoked: it could delay nothing."""
    scene.revoke(A)
    with monkeypatch.context() as patch:
        patch.setattr(scene.consumer._session.link.metrics.polls, "ended", strike)
        with pytest.raises(KeyboardInterrupt):
            scene.consumer.poll(0)
    assert scene.consumer.poll(0).to_be_revoked == {A}
    assert scene.told.events == []
    scene.consumer.poll(0)
    assert scene.told.events == [("revoked", {A})]


def strike(_now_ms: float) -> None:
    raise KeyboardInterrupt


def test_a_loop_completes_a_revoke_between_two_records(scene: Scene) -> None:
    """The iterator polls until there is a record: here for ever, until it is woken."""
    scene.listen(Told(lambda consumer: scene.consumer.wakeup()))
    scene.revoke(A)
    with pytest.raises(WakeupError):
        next(iter(scene.consumer))
    assert scene.told.events == [("revoked", {A})]


def test_a_callback_sees_the_lists_and_delays_nothing(scene: Scene) -> None:
    seen: list[Partitions] = []

    def look(view: RebalanceConsumer) -> None:
        seen.extend((view.to_be_revoked_partitions(), view.lost_partitions()))
        with pytest.raises(AttributeError, match="'delay_revoke' cannot be called"):
            view.delay_revoke  # type: ignore[attr-defined]  # noqa: B018
        with pytest.raises(IllegalStateError, match="callback"):
            scene.consumer.delay_revoke([B])

    scene.listen(Told(look))
    scene.revoke(A, B)
    scene.consumer.poll(0)
    scene.consumer.delay_revoke([B])
    scene.consumer.poll(0)
    assert seen == [{B}, frozenset()]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_without_the_feature_a_revoke_is_complete_in_the_poll_that_learns_of_it(
    make_scene: Callable[..., Scene], asynchronous: bool
) -> None:
    scene = make_scene(enable_async_revocation=asynchronous)
    scene.revoke(A, B)
    records = scene.consumer.poll(0)
    assert bool(records.to_be_revoked) is asynchronous
    assert bool(scene.told.events) is not asynchronous
    assert (scene.consumer.to_be_revoked_partitions() == frozenset()) is not asynchronous


def test_without_the_feature_there_is_nothing_to_delay(make_scene: Callable[..., Scene]) -> None:
    with pytest.raises(IllegalStateError, match="only with enable_async_revocation=True"):
        make_scene(enable_async_revocation=False).consumer.delay_revoke([A])
