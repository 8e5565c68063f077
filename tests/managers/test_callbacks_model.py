"""Any order of rebalances, fences, lost requests, slow callbacks and changes of mind in a classic group.

Whatever happens, the application is handed each partition once before it is taken back once, gets records only of what
it has, and ends up with what the leader gave it. Once with eager rebalances and once with cooperative ones (KIP-429).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.states.classic_group import ClassicState

if TYPE_CHECKING:
    from tests.managers.application_model import ApplicationModel
    from tests.managers.scenario import OTHER_MEMBER, Scenario, assignment
else:
    from application_model import ApplicationModel
    from scenario import OTHER_MEMBER, Scenario, assignment

pytestmark = pytest.mark.slow

PARTITIONS = tuple(TopicPartition("orders", number) for number in range(4))
ROUNDS_TO_SETTLE = 12
GROUP_REQUESTS = (HeartbeatRequest, JoinGroupRequest, SyncGroupRequest, LeaveGroupRequest)

targets = st.frozensets(st.sampled_from(PARTITIONS))
group_requests = st.sampled_from(GROUP_REQUESTS)


class ClassicGroupMachine(ApplicationModel):
    """One member that is never the leader, its application, and the coordinator's idea of both."""

    strategy = "range"

    @initialize()
    def begin(self) -> None:
        self.scenario = Scenario(partition_assignment_strategy=self.strategy, max_poll_interval_ms=60_000)
        self.scenario.topics["orders"] = (1, 2, 1, 2)
        self.assigned: set[TopicPartition] = set()
        self.subscribed = False
        # The coordinator: its member's id, "" for none; the generation; whether the others are joining already.
        self.member_id = ""
        self.members_made = 0
        self.generation = 0
        self.is_rebalancing = False
        self.target: frozenset[TopicPartition] = frozenset(PARTITIONS[:2])
        self.subscribe()
        self.settle()

    # --- the coordinator ------------------------------------------------------------------------------------

    @rule(wanted=targets)
    def rebalance(self, wanted: frozenset[TopicPartition]) -> None:
        self.target, self.is_rebalancing = wanted, True

    @rule()
    def fence(self) -> None:
        self.member_id = ""

    @rule(kind=group_requests)
    def answer(self, kind: type[object]) -> None:
        """The oldest of a kind, if there is one."""
        if not self.scenario.pending(kind):
            return
        match request := self.scenario.request(kind):
            case HeartbeatRequest():
                code = self.check(request.member_id, request.generation_id)
                self.scenario.answer(kind, HeartbeatResponse(error_code=code))
            case JoinGroupRequest():
                self.scenario.answer(kind, self.join(request.member_id))
            case SyncGroupRequest():
                code = self.check(request.member_id, request.generation_id)
                given = assignment(*self.target) if code is ErrorCode.NONE else b""
                self.scenario.answer(kind, SyncGroupResponse(error_code=code, assignment=given))
            case _:
                self.member_id = ""
                self.scenario.answer(kind, LeaveGroupResponse())

    def check(self, member_id: str, generation: int) -> ErrorCode:
        if not self.member_id or member_id != self.member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.REBALANCE_IN_PROGRESS if self.is_rebalancing else ErrorCode.NONE

    def join(self, member_id: str) -> JoinGroupResponse:
        if not member_id:
            self.members_made += 1
            self.member_id = f"member-{self.members_made}"
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=self.member_id)
        if member_id != self.member_id:
            return JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        self.generation += 1
        self.is_rebalancing = False
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_name=self.strategy,
            leader=OTHER_MEMBER,
            member_id=member_id,
        )

    @rule(wanted=targets, fenced=st.sampled_from(["never", "before it joins", "while it joins"]))
    def change_and_tell(self, wanted: frozenset[TopicPartition], fenced: str) -> None:
        """The same, and the member hears of it with its next heartbeat."""
        self.rebalance(wanted)
        if fenced == "before it joins":
            self.fence()
        self.scenario.polled_at_ms = self.scenario.now_ms
        self.scenario.advance(3_500)
        self.serve()
        self.answer(HeartbeatRequest)
        if fenced == "while it joins":
            self.fence()
            self.answer(JoinGroupRequest)

    @rule(kind=group_requests, processed=st.booleans())
    def lose(self, kind: type[object], processed: bool) -> None:
        """The request never arrives, or its answer does not."""
        if not self.scenario.pending(kind):
            return
        request = self.scenario.request(kind)
        if processed and isinstance(request, JoinGroupRequest):
            self.join(request.member_id)
        elif processed and isinstance(request, LeaveGroupRequest):
            self.member_id = ""
        self.scenario.fail(kind)

    @rule()
    def serve(self) -> None:
        """Everything that is not about membership."""
        self.scenario.serve_all_but_the_group()

    @rule(duration_ms=st.sampled_from([50.0, 1_000.0, 6_000.0, 70_000.0]))
    def wait(self, duration_ms: float) -> None:
        self.scenario.advance(duration_ms)

    # --- what always holds ----------------------------------------------------------------------------------

    def flowing(self) -> set[TopicPartition]:
        view = self.scenario.subscription.view
        return set(view.epochs) - view.withheld

    @invariant()
    def only_what_is_had_flows(self) -> None:
        assert self.flowing() <= self.assigned
        assert self.scenario.managers.membership.identity().is_member or not self.flowing()

    @invariant()
    def nobody_spins(self) -> None:
        assert not self.scenario.managers.impatient

    @invariant()
    def nothing_is_raised(self) -> None:
        assert not self.scenario.errors

    @precondition(lambda self: self.subscribed)
    @rule()
    def settle(self) -> None:
        """Nothing more goes wrong: soon all is as the leader wants it."""
        for _ in range(ROUNDS_TO_SETTLE):
            self.poll()
            self.work()
            self.scenario.polled_at_ms = self.scenario.now_ms
            self.scenario.advance(1_500)
        self.work()
        assert self.scenario.state is ClassicState.STABLE
        assert self.assigned == self.target == self.flowing()

    def work(self) -> None:
        """Everybody does what there is to do, until there is nothing."""
        for _ in range(ROUNDS_TO_SETTLE):
            self.serve()
            while self.scenario.callbacks:
                self.run_callback()
            for kind in GROUP_REQUESTS:
                self.answer(kind)
            if not any(map(self.scenario.pending, GROUP_REQUESTS)) and not self.scenario.callbacks:
                break
        self.serve()

    def teardown(self) -> None:
        if hasattr(self, "scenario"):
            if not self.subscribed:
                self.subscribe()
            self.settle()


class CooperativeGroupMachine(ClassicGroupMachine):
    """The same member, which keeps what it has through a rebalance."""

    strategy = "cooperative-sticky"


TestEagerGroups = ClassicGroupMachine.TestCase
TestCooperativeGroups = CooperativeGroupMachine.TestCase
