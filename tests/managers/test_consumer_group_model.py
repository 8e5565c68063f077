"""Any order of rebalances, fences, lost heartbeats, slow callbacks and changes of mind, against a small coordinator.

Whatever happens, the application is handed each partition once before it is taken back once, gets records only of what
it has, and ends up with what the coordinator wants it to have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.states.consumer_group import MemberState

if TYPE_CHECKING:
    from tests.managers.application_model import ApplicationModel
    from tests.managers.consumer_scenario import HEARTBEAT, ConsumerScenario, assignment
else:
    from application_model import ApplicationModel
    from consumer_scenario import HEARTBEAT, ConsumerScenario, assignment

pytestmark = pytest.mark.slow

PARTITIONS = tuple(TopicPartition("orders", number) for number in range(4))
ROUNDS_TO_SETTLE = 8

targets = st.frozensets(st.sampled_from(PARTITIONS))


class GroupMachine(ApplicationModel):
    """One member, its application, and the coordinator's idea of both."""

    scenario: ConsumerScenario
    may_give_up_nothing = False

    @initialize()
    def begin(self) -> None:
        self.scenario = ConsumerScenario(max_poll_interval_ms=60_000)
        self.scenario.topics["orders"] = (1, 2, 1, 2)
        self.assigned: set[TopicPartition] = set()
        self.subscribed = False
        # The coordinator: the epoch of its member, 0 for none, what it should have, and what it was told to have.
        self.epoch = 0
        self.epochs = 0
        self.target: frozenset[TopicPartition] = frozenset(PARTITIONS[:2])
        self.told: frozenset[TopicPartition] | None = None
        self.subscribe()
        self.settle()

    # --- the coordinator ------------------------------------------------------------------------------------

    @rule(wanted=targets)
    def rebalance(self, wanted: frozenset[TopicPartition]) -> None:
        self.target = wanted

    @rule()
    def fence(self) -> None:
        self.epoch = 0

    @precondition(lambda self: self.scenario.pending(HEARTBEAT))
    @rule()
    def answer(self) -> None:
        request = self.scenario.heartbeat
        if request.member_epoch < 0:
            self.epoch = 0
            self.scenario.accept(request.member_epoch)
        elif request.member_epoch == 0 or request.member_epoch == self.epoch:
            is_news = request.member_epoch == 0 or self.told != self.target
            self.epochs += is_news
            self.epoch, self.told = self.epochs, self.target
            self.scenario.accept(self.epoch, assignment(*self.target) if is_news else None)
        else:
            self.scenario.refuse_heartbeat(ErrorCode.FENCED_MEMBER_EPOCH)

    @rule(wanted=targets, fenced=st.booleans())
    def change_and_tell(self, wanted: frozenset[TopicPartition], fenced: bool) -> None:
        """The same, and the member hears of it with its next heartbeat."""
        self.target = wanted
        if fenced:
            self.epoch = 0
        self.scenario.polled_at_ms = self.scenario.now_ms
        self.scenario.advance(6_000)
        self.serve()
        for _ in self.scenario.pending(HEARTBEAT):
            self.answer()

    @precondition(lambda self: self.scenario.pending(HEARTBEAT))
    @rule(processed=st.booleans())
    def lose_heartbeat(self, processed: bool) -> None:
        """The request never arrives, or its answer does not; then what it was told is told again (as to full ones)."""
        epoch = self.scenario.heartbeat.member_epoch
        if epoch < 0 and processed:
            self.epoch = 0
        self.told = None
        self.scenario.fail(HEARTBEAT)

    @precondition(lambda self: self.scenario.pending(HEARTBEAT))
    @rule()
    def move_coordinator(self) -> None:
        self.scenario.refuse_heartbeat(ErrorCode.NOT_COORDINATOR)

    @rule()
    def serve(self) -> None:
        """Everything that is not about membership."""
        self.scenario.serve_all_but_the_group()
        assert not self.scenario.pending(OffsetCommitRequest)

    @rule(duration_ms=st.sampled_from([50.0, 1_000.0, 6_000.0, 70_000.0]))
    def wait(self, duration_ms: float) -> None:
        self.scenario.advance(duration_ms)

    # --- what always holds ----------------------------------------------------------------------------------

    @invariant()
    def only_what_is_had_flows(self) -> None:
        assert self.scenario.flowing() <= self.assigned
        assert self.scenario.member.identity().is_member or not self.scenario.flowing()

    @invariant()
    def nobody_spins(self) -> None:
        assert not self.scenario.managers.impatient

    @invariant()
    def nothing_is_raised(self) -> None:
        assert not self.scenario.errors

    def settle(self) -> None:
        """Nothing more goes wrong: soon all is as the coordinator wants it."""
        for _ in range(ROUNDS_TO_SETTLE):
            self.poll()
            self.serve()
            while self.scenario.callbacks:
                self.run_callback()
            while self.scenario.pending(HEARTBEAT):
                self.answer()
            self.scenario.polled_at_ms = self.scenario.now_ms
            self.scenario.advance(1_500)
        assert self.scenario.member_state() is MemberState.STABLE
        assert self.assigned == self.target
        self.serve()
        assert self.scenario.flowing() == self.target

    def teardown(self) -> None:
        if hasattr(self, "scenario"):
            if not self.subscribed:
                self.subscribe()
            self.settle()


TestGroups = GroupMachine.TestCase
