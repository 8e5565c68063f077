"""Each error code of each API of the classic group, and no answer at all: what comes of it, and of the coordinator.

The tables are Kafka's: the codes that the protocol's documentation names for an API, one that nobody has ever heard of,
and two ways of getting no answer. Java's handling is in AbstractCoordinator, ConsumerCoordinator, CommitRequestManager
and CoordinatorRequestManager; where kwire departs from it, DESIGN.md says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pytest

from kwire.errors import DisconnectError, KafkaError, KafkaTimeoutError
from kwire.events import CallbackKind, Commit, EnforceRebalance, ErrorRaised, GetCommitted, Reply, RunCallback
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.protocol.error_codes import ErrorCode as Code
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.states.classic_group import ClassicState

if TYPE_CHECKING:
    from tests.managers.scenario import GROUP, MEMBER, Scenario, assignment
else:
    from scenario import GROUP, MEMBER, assignment

O0 = TopicPartition("orders", 0)
FROM_THE_FUTURE = 9999
MakeScenario = Callable[..., "Scenario"]
Trouble: TypeAlias = "int | type[KafkaError]"
"""An error code, or the reason why there is no answer."""
AnyReply: TypeAlias = "Reply[None] | Reply[dict[TopicPartition, OffsetAndMetadata | None]]"


class Fate(Enum):
    """What comes of the request."""

    AGAIN = auto()
    """The same is asked again, after a back-off."""
    JOINS_AS_BEFORE = auto()
    """JoinGroup goes out with the member id it had."""
    JOINS_AS_NEW = auto()
    JOINS_AFTER_LOSS = auto()
    """The application hears `on_partitions_lost` first."""
    RAISED = auto()
    """`poll()` raises."""
    TOLD = auto()
    """The call that is waiting raises."""
    OVER = auto()
    """The call that is waiting returns: whatever the broker says to a goodbye, it is one."""
    STAYS = auto()
    """Nothing to do but to go on."""


class Outcome(NamedTuple):
    fate: Fate
    looks_up: bool = False
    """Whether the coordinator is looked for."""


AGAIN, AGAIN_ELSEWHERE = Outcome(Fate.AGAIN), Outcome(Fate.AGAIN, looks_up=True)
RAISED, TOLD, OVER, STAYS = Outcome(Fate.RAISED), Outcome(Fate.TOLD), Outcome(Fate.OVER), Outcome(Fate.STAYS)
JOINS_AS_BEFORE, JOINS_AS_NEW = Outcome(Fate.JOINS_AS_BEFORE), Outcome(Fate.JOINS_AS_NEW)
JOINS_ELSEWHERE = Outcome(Fate.JOINS_AS_BEFORE, looks_up=True)
LOST = Outcome(Fate.JOINS_AFTER_LOSS)

NO_ANSWER: Mapping[Trouble, Outcome] = {DisconnectError: AGAIN_ELSEWHERE, KafkaTimeoutError: AGAIN_ELSEWHERE}

HEARTBEAT: Mapping[Trouble, Outcome] = {
    **NO_ANSWER,
    Code.COORDINATOR_LOAD_IN_PROGRESS: AGAIN,
    Code.COORDINATOR_NOT_AVAILABLE: AGAIN_ELSEWHERE,
    Code.NOT_COORDINATOR: AGAIN_ELSEWHERE,
    Code.ILLEGAL_GENERATION: LOST,
    Code.UNKNOWN_MEMBER_ID: LOST,
    Code.GROUP_ID_NOT_FOUND: LOST,
    Code.FENCED_INSTANCE_ID: RAISED,
    Code.REBALANCE_IN_PROGRESS: JOINS_AS_BEFORE,
    Code.GROUP_AUTHORIZATION_FAILED: RAISED,
    Code.INVALID_GROUP_ID: RAISED,
    FROM_THE_FUTURE: RAISED,
}
JOIN: Mapping[Trouble, Outcome] = {
    **NO_ANSWER,
    Code.COORDINATOR_LOAD_IN_PROGRESS: AGAIN,
    Code.COORDINATOR_NOT_AVAILABLE: AGAIN_ELSEWHERE,
    Code.NOT_COORDINATOR: AGAIN_ELSEWHERE,
    Code.ILLEGAL_GENERATION: JOINS_AS_BEFORE,
    Code.UNKNOWN_MEMBER_ID: JOINS_AS_NEW,
    Code.GROUP_ID_NOT_FOUND: JOINS_AS_NEW,
    Code.REBALANCE_IN_PROGRESS: JOINS_AS_BEFORE,
    Code.MEMBER_ID_REQUIRED: JOINS_AS_BEFORE,
    Code.FENCED_INSTANCE_ID: RAISED,
    Code.INCONSISTENT_GROUP_PROTOCOL: RAISED,
    Code.INVALID_SESSION_TIMEOUT: RAISED,
    Code.INVALID_GROUP_ID: RAISED,
    Code.GROUP_AUTHORIZATION_FAILED: RAISED,
    Code.GROUP_MAX_SIZE_REACHED: RAISED,
    Code.UNSUPPORTED_VERSION: RAISED,
    FROM_THE_FUTURE: RAISED,
}
SYNC: Mapping[Trouble, Outcome] = {
    DisconnectError: JOINS_ELSEWHERE,
    KafkaTimeoutError: JOINS_ELSEWHERE,
    Code.COORDINATOR_LOAD_IN_PROGRESS: JOINS_AS_BEFORE,
    Code.COORDINATOR_NOT_AVAILABLE: JOINS_ELSEWHERE,
    Code.NOT_COORDINATOR: JOINS_ELSEWHERE,
    Code.ILLEGAL_GENERATION: JOINS_AS_BEFORE,
    Code.UNKNOWN_MEMBER_ID: JOINS_AS_NEW,
    Code.GROUP_ID_NOT_FOUND: JOINS_AS_NEW,
    Code.REBALANCE_IN_PROGRESS: JOINS_AS_BEFORE,
    Code.FENCED_INSTANCE_ID: RAISED,
    Code.INCONSISTENT_GROUP_PROTOCOL: RAISED,
    Code.GROUP_AUTHORIZATION_FAILED: RAISED,
    FROM_THE_FUTURE: RAISED,
}
LEAVE: Mapping[Trouble, Outcome] = {
    **NO_ANSWER,
    Code.COORDINATOR_LOAD_IN_PROGRESS: AGAIN,
    Code.COORDINATOR_NOT_AVAILABLE: AGAIN_ELSEWHERE,
    Code.NOT_COORDINATOR: AGAIN_ELSEWHERE,
    **dict.fromkeys(
        (Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID, Code.GROUP_AUTHORIZATION_FAILED, FROM_THE_FUTURE), OVER
    ),
}
COMMIT: Mapping[Trouble, Outcome] = {
    **NO_ANSWER,
    Code.COORDINATOR_LOAD_IN_PROGRESS: AGAIN,
    Code.UNKNOWN_TOPIC_OR_PARTITION: AGAIN,
    Code.COORDINATOR_NOT_AVAILABLE: AGAIN_ELSEWHERE,
    Code.NOT_COORDINATOR: AGAIN_ELSEWHERE,
    Code.REQUEST_TIMED_OUT: AGAIN_ELSEWHERE,
    Code.OFFSET_METADATA_TOO_LARGE: TOLD,
    Code.INVALID_COMMIT_OFFSET_SIZE: TOLD,
    Code.ILLEGAL_GENERATION: TOLD,
    Code.UNKNOWN_MEMBER_ID: TOLD,
    Code.FENCED_INSTANCE_ID: TOLD,
    Code.REBALANCE_IN_PROGRESS: TOLD,
    Code.INVALID_GROUP_ID: TOLD,
    Code.GROUP_ID_NOT_FOUND: TOLD,
    Code.TOPIC_AUTHORIZATION_FAILED: TOLD,
    Code.GROUP_AUTHORIZATION_FAILED: TOLD,
    FROM_THE_FUTURE: TOLD,
}
OFFSETS: Mapping[Trouble, Outcome] = {
    **NO_ANSWER,
    Code.COORDINATOR_LOAD_IN_PROGRESS: AGAIN,
    Code.COORDINATOR_NOT_AVAILABLE: AGAIN_ELSEWHERE,
    Code.NOT_COORDINATOR: AGAIN_ELSEWHERE,
    Code.GROUP_AUTHORIZATION_FAILED: TOLD,
    Code.GROUP_ID_NOT_FOUND: OVER,
    Code.UNKNOWN_MEMBER_ID: TOLD,
    Code.STALE_MEMBER_EPOCH: TOLD,
    FROM_THE_FUTURE: TOLD,
}
LOOK_UP: Mapping[Trouble, Outcome] = {
    **NO_ANSWER,
    Code.COORDINATOR_LOAD_IN_PROGRESS: AGAIN_ELSEWHERE,
    Code.COORDINATOR_NOT_AVAILABLE: AGAIN_ELSEWHERE,
    Code.GROUP_AUTHORIZATION_FAILED: Outcome(Fate.RAISED, looks_up=True),
    Code.INVALID_GROUP_ID: Outcome(Fate.RAISED, looks_up=True),
    Code.INVALID_REQUEST: Outcome(Fate.RAISED, looks_up=True),
    FROM_THE_FUTURE: Outcome(Fate.RAISED, looks_up=True),
}


def join(scenario: Scenario) -> Reply[None]:
    scenario.become_stable(O0)
    scenario.post(EnforceRebalance("because"))
    scenario.run_callback()
    return Reply()


def sync(scenario: Scenario) -> Reply[None]:
    reply = join(scenario)
    scenario.join(generation=2)
    return reply


def heartbeat(scenario: Scenario) -> Reply[None]:
    scenario.become_stable(O0)
    scenario.advance_to_heartbeat()
    return Reply()


def leave(scenario: Scenario) -> Reply[None]:
    scenario.become_stable(O0)
    return scenario.unsubscribe()


def commit(scenario: Scenario) -> Reply[None]:
    scenario.become_stable(O0)
    reply: Reply[None] = Reply()
    scenario.post(Commit({O0: OffsetAndMetadata(11)}, reply))
    return reply


def committed(scenario: Scenario) -> AnyReply:
    scenario.become_stable(O0)
    reply: Reply[dict[TopicPartition, OffsetAndMetadata | None]] = Reply()
    scenario.post(GetCommitted(frozenset({O0}), reply))
    return reply


def look_up(scenario: Scenario) -> Reply[None]:
    scenario.become_stable(O0)
    scenario.managers.coordinator.lost(DisconnectError("gone"))
    scenario.turn()
    return Reply()


class Api(NamedTuple):
    kind: type[object]
    ask: Callable[[Scenario], AnyReply]
    table: Mapping[Trouble, Outcome]


APIS = {
    "Heartbeat": Api(HeartbeatRequest, heartbeat, HEARTBEAT),
    "JoinGroup": Api(JoinGroupRequest, join, JOIN),
    "SyncGroup": Api(SyncGroupRequest, sync, SYNC),
    "LeaveGroup": Api(LeaveGroupRequest, leave, LEAVE),
    "OffsetCommit": Api(OffsetCommitRequest, commit, COMMIT),
    "OffsetFetch": Api(OffsetFetchRequest, committed, OFFSETS),
    "FindCoordinator": Api(FindCoordinatorRequest, look_up, LOOK_UP),
}


def name_of(trouble: Trouble) -> str:
    if isinstance(trouble, Code):
        return trouble.name
    return str(trouble) if isinstance(trouble, int) else trouble.__name__


each_trouble = pytest.mark.parametrize(
    ("api", "trouble"),
    [
        pytest.param(api, trouble, id=f"{name}-{name_of(trouble)}")
        for name, api in APIS.items()
        for trouble in api.table
    ],
)


def refuse(scenario: Scenario, kind: type[object], trouble: Trouble) -> None:
    """The oldest request of this kind meets this trouble."""
    if not isinstance(trouble, int):
        scenario.fail(kind, trouble("no answer"))
    elif kind is OffsetCommitRequest:
        scenario.answer_commit(Code.of(trouble))
    elif kind is OffsetFetchRequest:
        group = OffsetFetchResponseGroup(group_id=GROUP, error_code=trouble)
        scenario.answer(kind, OffsetFetchResponse(groups=[group]))
    elif kind is FindCoordinatorRequest:
        scenario.answer(kind, scenario.coordinator(error=Code.of(trouble)))
    elif kind is JoinGroupRequest:
        scenario.answer(kind, JoinGroupResponse(error_code=trouble, member_id=MEMBER))
    else:
        answers: dict[type[object], Callable[..., object]] = {
            SyncGroupRequest: SyncGroupResponse,
            HeartbeatRequest: HeartbeatResponse,
            LeaveGroupRequest: LeaveGroupResponse,
        }
        scenario.answer(kind, answers[kind](error_code=trouble))


def fate_of(scenario: Scenario, kind: type[object], reply: AnyReply) -> Fate:
    """Let two seconds pass, in which the coordinator is found and callbacks run."""
    lost = False
    for _ in range(20):
        scenario.serve()
        while scenario.callbacks:
            lost = scenario.run_callback().kind is CallbackKind.LOST or lost
        if reply.done:
            return Fate.TOLD if _fails(reply) else Fate.OVER
        if scenario.errors:
            return Fate.RAISED
        if kind is not JoinGroupRequest and scenario.pending(kind):
            return Fate.AGAIN
        if joins := scenario.requests(JoinGroupRequest):
            if lost:
                return Fate.JOINS_AFTER_LOSS
            return Fate.JOINS_AS_BEFORE if joins[0].member_id == MEMBER else Fate.JOINS_AS_NEW
        scenario.advance(100)
    return Fate.STAYS


def _fails(reply: AnyReply) -> bool:
    try:
        reply.result()
    except KafkaError:
        return True
    return False


@each_trouble
def test_what_comes_of_it(scenario: Scenario, api: Api, trouble: Trouble) -> None:
    reply = api.ask(scenario)
    refuse(scenario, api.kind, trouble)
    looks_up = scenario.managers.coordinator.destination is None
    if api.kind is FindCoordinatorRequest and not scenario.errors:
        scenario.advance(100)
        fate = Fate.AGAIN if scenario.pending(api.kind) else Fate.STAYS
    else:
        fate = fate_of(scenario, api.kind, reply)
    expected = api.table[trouble]
    if api.kind is JoinGroupRequest and expected.fate is Fate.AGAIN:
        expected = expected._replace(fate=Fate.JOINS_AS_BEFORE)
    assert Outcome(fate, looks_up) == expected


class Brokers:
    """Everything is answered as it should be, after 100 ms, but one kind of request always meets the same trouble."""

    def __init__(self, scenario: Scenario, kind: type[object], trouble: Trouble | None = None) -> None:
        self.scenario = scenario
        self.kind = kind
        self.trouble = trouble
        self.count = 0
        self.generation = 2

    def run(self, seconds: int) -> None:
        """The application polls twice a second; callbacks run in polls."""
        for _ in range(seconds * 2):
            self.scenario.poll()
            while self.scenario.callbacks:
                self.scenario.run_callback()
            for _ in range(5):
                self.scenario.advance(100)
                self._answer_each_once()

    def _answer_each_once(self) -> None:
        for kind in [asked for asked in self._says for _ in self.scenario.pending(asked)]:
            if kind is self.kind and self.trouble is not None:
                self.count += 1
                refuse(self.scenario, kind, self.trouble)
            else:
                self._says[kind](self.scenario)

    def _join(self, scenario: Scenario) -> None:
        self.generation += 1
        scenario.join(self.generation)

    @property
    def _says(self) -> Mapping[type[object], Callable[[Scenario], None]]:
        return {
            FindCoordinatorRequest: lambda scenario: scenario.answer(FindCoordinatorRequest, scenario.coordinator()),
            MetadataRequest: lambda scenario: scenario.answer(MetadataRequest, scenario.metadata()),
            HeartbeatRequest: lambda scenario: scenario.answer(HeartbeatRequest, HeartbeatResponse()),
            JoinGroupRequest: self._join,
            SyncGroupRequest: lambda scenario: scenario.answer(
                SyncGroupRequest, SyncGroupResponse(assignment=assignment(O0))
            ),
            LeaveGroupRequest: lambda scenario: scenario.answer(LeaveGroupRequest, LeaveGroupResponse()),
            OffsetCommitRequest: lambda scenario: scenario.answer_commit(),
            OffsetFetchRequest: lambda scenario: scenario.answer_committed({O0: 10}),
        }


def most(api: Api, trouble: Trouble) -> int:
    """How often something may be asked in ten seconds."""
    return 25  # with pauses of up to a second, and a poll every half


NEVER_OVER = {Code.FENCED_INSTANCE_ID}
"""Joining again would fence the member that took over the instance id."""


@each_trouble
def test_trouble_that_stays_makes_no_spin_and_trouble_that_ends_leaves_nothing_stuck(
    make_scenario: MakeScenario, api: Api, trouble: Trouble
) -> None:
    scenario = make_scenario()
    reply = api.ask(scenario)
    brokers = Brokers(scenario, api.kind, trouble)
    brokers.run(10)
    assert 1 <= brokers.count <= most(api, trouble)
    brokers.trouble = None
    brokers.run(10)
    if api.kind is LeaveGroupRequest:
        scenario.expect(ClassicState.UNJOINED)
    elif trouble not in NEVER_OVER:
        scenario.expect(ClassicState.STABLE)
        assert api.kind not in (OffsetCommitRequest, OffsetFetchRequest) or reply.done
    scenario.events = [event for event in scenario.events if not isinstance(event, ErrorRaised | RunCallback)]
