"""Faults of the group: members join, and members are expelled."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

from kwire.testing.faults.bounds import within
from kwire.testing.faults.fault import Begin, Heal, fault, stays
from kwire.testing.faults.kind import Amount, FaultClaim, Lasting, Need, Since
from kwire.testing.faults.kinds.members import STARTING_MS, put_back, start, struck
from kwire.testing.faults.member_plan import MemberPlan
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import OneMember, WholeGroup
from kwire.testing.faults.testbed import Testbed

# Of those that come in a storm: none that a schedule can name.
NEWCOMERS_FROM = 1_000
# Who has been fenced hears of it, and ends.
ON_ITS_WAY_OUT_MS = 2_000.0


@fault(
    name="consumer-join",
    description="One more member comes and stays: like those of the first line; the next one like the second.",
    targets=(WholeGroup,),
    heals="nothing: it stays",
    claims=(FaultClaim.MEMBERSHIP,),
    rows=(48,),
    bound=within(STARTING_MS, "rebalance_slack_ms"),
    since=Since.STRIKE,
)
def join(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """Numbers of those that have joined follow those of the schedule's lines."""
    schedule = testbed.schedule
    joins = [each for each in schedule.steps if each.fault == step.fault]
    number = schedule.member_count + next(place for place, each in enumerate(joins) if each is step)
    begin(f"member {number}")
    start(testbed, number)
    return stays


@fault(
    name="member-expelled",
    description="Somebody who is allowed to takes a member out of the group; it hears so with its next request.",
    targets=(OneMember,),
    heals="the member joins again by itself",
    claims=(FaultClaim.MEMBER,),
    settles_ms=STARTING_MS,
    rows=(32,),
    bound=within(2_000, "heartbeat_interval_ms", "rebalance_slack_ms"),
    since=Since.STRIKE,
)
def expel(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    _number, name = struck(testbed, step)
    begin(name)
    if name:
        testbed.admin.group.expel(name)
    return stays


@fault(
    name="duplicate-instance",
    description="Another process comes with a member's instance id; only one of the two may stay.",
    targets=(OneMember,),
    lasting=Lasting(default_ms=20_000, least_ms=1_000),
    heals="whichever of the two is still there after all is left alone; one process holds the id",
    claims=(FaultClaim.MEMBER,),
    needs=(Need.STATIC_MEMBERS,),
    settles_ms=STARTING_MS,
    rows=(29,),
    bound=within(2_000, "session_timeout_ms", "rebalance_slack_ms"),
    since=Since.STRIKE,
)
def duplicate(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """Whether the first or the second may stay is a matter of the protocol: either may end."""
    number, first = struck(testbed, step)
    plan = MemberPlan.of(number, testbed.schedule)
    twin = -1 - number
    if first:
        testbed.members.expect_end(first)
    begin(f"instance id {plan.instance_id}")
    second = testbed.members.start(replace(plan, number=twin))
    testbed.members.expect_end(second)
    return partial(_leave_one, testbed, number, twin)


def _leave_one(testbed: Testbed, number: int, twin: int) -> None:
    """Of two that still live, the one that has partitions; of none, another process takes the place."""
    first, second = testbed.members.running(number), testbed.members.running(twin)
    if first and second:
        testbed.members.close(second if testbed.members.owned(first) else first)
        testbed.sleep(ON_ITS_WAY_OUT_MS)
    if not testbed.members.running(number) and not testbed.members.running(twin):
        start(testbed, number)


@fault(
    name="storm",
    description="Members come, leave and are killed, again and again.",
    targets=(WholeGroup,),
    parameters=(
        Amount(
            name="changes",
            quantity=Quantity.COUNT,
            default=20,
            least=1,
            most=1_000,
            doc="how many come, leave or are killed, evenly over the time",
        ),
    ),
    lasting=Lasting(default_ms=40_000, least_ms=1_000),
    heals="there are as many members as before, and they stay",
    claims=(FaultClaim.MEMBERSHIP, FaultClaim.MEMBER),
    settles_ms=STARTING_MS,
    rows=(31, 38),
    bound=within(STARTING_MS, "session_timeout_ms", "max_poll_interval_ms"),
    simulated_as="storm",
)
def storm(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """One change after the other, evenly over the time; somebody is always left."""
    assert step.lasts_ms is not None
    chance = random.Random(f"storm {step.at_ms}")
    before = [number for number in _numbers(testbed) if testbed.members.running(number)]
    living, newcomers = list(before), NEWCOMERS_FROM
    changes = step.amount("changes")
    begin(f"{changes} changes")
    began_ms = testbed.recorder.now_ms()
    for turn in range(changes):
        testbed.sleep_until(began_ms + turn * step.lasts_ms / changes)
        if len(living) <= max(1, len(before) // 2) or (len(living) < 2 * len(before) and chance.random() < 0.5):
            start(testbed, newcomers)
            living.append(newcomers)
            newcomers += 1
        else:
            _go(testbed, living.pop(chance.randrange(len(living))), is_killed=chance.random() < 0.5)
    return partial(_after_storm, testbed, before, living)


def _go(testbed: Testbed, number: int, *, is_killed: bool) -> None:
    if name := testbed.members.running(number):
        (testbed.members.kill if is_killed else testbed.members.close)(name)


def _after_storm(testbed: Testbed, before: list[int], living: list[int]) -> None:
    for number in living:
        if number not in before:
            _go(testbed, number, is_killed=False)
    for number in before:
        put_back(testbed, number)


def _numbers(testbed: Testbed) -> range:
    joins = sum(1 for each in testbed.schedule.steps if each.fault == "consumer-join")
    return range(testbed.schedule.member_count + joins)
