"""Each error code of ConsumerGroupHeartbeat (KIP-848), and no answer: what comes of it, and of the coordinator.

The table is Kafka's; what follows in detail is told in `test_consumer_group_endings.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pytest

from kwire.errors import DisconnectError, KafkaError, KafkaTimeoutError
from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode as Code
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.states.consumer_group import MemberState as S

if TYPE_CHECKING:
    from tests.managers.consumer_scenario import HEARTBEAT, ConsumerScenario, assignment
else:
    from consumer_scenario import HEARTBEAT, ConsumerScenario, assignment

O0 = TopicPartition("orders", 0)
FROM_THE_FUTURE = 9999
Trouble: TypeAlias = "int | type[KafkaError]"


class Outcome(NamedTuple):
    """What there is to see right after the answer."""

    state: S
    looks_up: bool = False
    raised: bool = False


GOES_ON, ELSEWHERE = Outcome(S.STABLE), Outcome(S.STABLE, looks_up=True)
FENCED, REFUSED = Outcome(S.FENCED), Outcome(S.FATAL, raised=True)

TABLE: Mapping[Trouble, Outcome] = {
    DisconnectError: ELSEWHERE,
    KafkaTimeoutError: ELSEWHERE,
    Code.COORDINATOR_LOAD_IN_PROGRESS: GOES_ON,
    Code.COORDINATOR_NOT_AVAILABLE: ELSEWHERE,
    Code.NOT_COORDINATOR: ELSEWHERE,
    Code.UNKNOWN_MEMBER_ID: FENCED,
    Code.FENCED_MEMBER_EPOCH: FENCED,
    Code.GROUP_ID_NOT_FOUND: FENCED,
    Code.TOPIC_AUTHORIZATION_FAILED: Outcome(S.STABLE, raised=True),
    Code.GROUP_AUTHORIZATION_FAILED: REFUSED,
    Code.GROUP_MAX_SIZE_REACHED: REFUSED,
    Code.INVALID_GROUP_ID: REFUSED,
    Code.INVALID_REGULAR_EXPRESSION: REFUSED,
    Code.INVALID_REQUEST: REFUSED,
    Code.FENCED_INSTANCE_ID: REFUSED,
    Code.UNRELEASED_INSTANCE_ID: REFUSED,
    Code.UNSUPPORTED_ASSIGNOR: REFUSED,
    Code.UNSUPPORTED_VERSION: REFUSED,
    FROM_THE_FUTURE: REFUSED,
}


def name_of(trouble: Trouble) -> str:
    if isinstance(trouble, Code):
        return trouble.name
    return str(trouble) if isinstance(trouble, int) else trouble.__name__


each_trouble = pytest.mark.parametrize("trouble", TABLE, ids=name_of)


@pytest.fixture
def member(make_consumer_scenario: Callable[[], ConsumerScenario]) -> ConsumerScenario:
    """A member that owns `orders-0` and has sent a heartbeat."""
    scenario = make_consumer_scenario()
    scenario.own(O0)
    scenario.beat()
    return scenario


@pytest.fixture
def make_consumer_scenario() -> Callable[[], ConsumerScenario]:
    return ConsumerScenario


def refuse(scenario: ConsumerScenario, trouble: Trouble) -> None:
    if isinstance(trouble, int):
        scenario.answer(HEARTBEAT, ConsumerGroupHeartbeatResponse(error_code=trouble))
    else:
        scenario.fail(HEARTBEAT, trouble("no answer"))


@each_trouble
def test_what_comes_of_it(member: ConsumerScenario, trouble: Trouble) -> None:
    refuse(member, trouble)
    looks_up = member.managers.coordinator.destination is None
    assert Outcome(member.member_state(), looks_up, bool(member.errors)) == TABLE[trouble]


def live(scenario: ConsumerScenario, seconds: int, trouble: Trouble | None) -> int:
    """The application polls; brokers answer after 100 ms; heartbeats meet this trouble. How many there were."""
    count = 0
    for _ in range(seconds * 10):
        scenario.poll()
        while scenario.callbacks:
            scenario.run_callback()
        scenario.advance(100)
        if scenario.pending(FindCoordinatorRequest) or scenario.pending(MetadataRequest):
            scenario.serve()
        while scenario.pending(OffsetFetchRequest):
            scenario.answer_committed({O0: 10})
        if not scenario.pending(HEARTBEAT):
            continue
        count += 1
        if trouble is not None:
            refuse(scenario, trouble)
        else:
            joins = scenario.heartbeat.member_epoch == 0
            scenario.accept(7, assignment(O0) if joins else None)
    return count


@each_trouble
def test_trouble_that_stays_makes_no_spin_and_trouble_that_ends_leaves_nothing_stuck(
    member: ConsumerScenario, trouble: Trouble
) -> None:
    # A permission may be granted: with each poll another attempt is made.
    is_refused = TABLE[trouble] is REFUSED and trouble is not Code.GROUP_AUTHORIZATION_FAILED
    assert live(member, 10, trouble) <= 20, "with pauses of up to a second"
    member.events.clear()
    # At a join, the code says that the group is of another kind, which is final.
    if is_refused or trouble is Code.GROUP_ID_NOT_FOUND:
        assert live(member, 10, None) == 0
        assert member.member_state() is S.FATAL
        member.subscribe("orders")
    live(member, 10, None)
    assert member.member_state() is S.STABLE
    assert member.flowing() == {O0}
    assert not member.managers.impatient
