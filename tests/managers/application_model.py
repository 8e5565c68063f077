"""What an application does to its consumer, in any order: the half that the models of both group protocols share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from kwire.events import CallbackCompleted, CallbackKind, Reply, RunCallback, Unsubscribe

if TYPE_CHECKING:
    from kwire.model import TopicPartition
    from tests.managers.scenario import Scenario


class ApplicationModel(RuleBasedStateMachine):
    """Subscribes, polls, runs callbacks, and writes down what it was handed: once each, before it is taken back."""

    scenario: Scenario
    assigned: set[TopicPartition]
    subscribed: bool
    may_give_up_nothing = True
    """Whether a callback may take leave of no partition at all, as an eager member's does."""

    @precondition(lambda self: not self.subscribed)
    @rule()
    def subscribe(self) -> None:
        self.scenario.subscribe("orders")
        self.subscribed = True

    @precondition(lambda self: self.subscribed)
    @rule()
    def unsubscribe(self) -> None:
        # As `Consumer.unsubscribe`: callbacks that wait are thrown away, and what was had is given up.
        self.scenario.events.clear()
        self.assigned.clear()
        self.scenario.post(Unsubscribe(Reply()))
        self.subscribed = False

    @precondition(lambda self: self.subscribed)
    @rule()
    def poll(self) -> None:
        self.scenario.poll()

    @precondition(lambda self: self.scenario.callbacks)
    @rule()
    def run_callback(self) -> None:
        self.scenario.polled_at_ms = self.scenario.now_ms
        callback = self.scenario.take_event(RunCallback)
        if callback.kind is CallbackKind.ASSIGNED:
            assert not callback.partitions & self.assigned
            self.assigned |= callback.partitions
        else:
            assert callback.partitions or self.may_give_up_nothing
            assert callback.partitions <= self.assigned
            self.assigned -= callback.partitions
        self.scenario.post(CallbackCompleted(callback.attempt))
