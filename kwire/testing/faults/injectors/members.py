"""What befalls the consumers and their group: `kinds/members.py` carried out."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from kwire.errors import KafkaError
from kwire.testing.faults.injectors.injector import Begin, Heal, Injector, stays
from kwire.testing.faults.member_plan import MemberPlan
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import Member
from kwire.testing.faults.testbed import Testbed

# Of those that come in a storm: none that a schedule can name.
NEWCOMERS_FROM = 1_000
# Who has been fenced hears of it, and ends.
ON_ITS_WAY_OUT_MS = 2_000.0
# For a lag: a session ends, a rebalance comes to its end.
COMES_TO_IT_S = 40.0


class MomentError(KafkaError):
    """A member never came to the moment at which it was to be struck."""


def kill(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    number, name = _struck(testbed, step)
    begin(name)
    if name:
        testbed.members.kill(name)
    return partial(_replace, testbed, number)


def close(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    number, name = _struck(testbed, step)
    begin(name)
    if name:
        testbed.members.close(name)
    return partial(_replace, testbed, number)


def end_catching_up(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """Raises: MomentError."""
    moment = step.choice("moment")
    assert isinstance(step.target, Member)
    number = step.target.number

    def is_at_it() -> bool:
        """The member that has that number by then."""
        name = testbed.members.running(number)
        return name is not None and testbed.members.is_at(name, moment)

    if not testbed.members.wait(is_at_it, COMES_TO_IT_S):
        raise MomentError(f"{step.target} never was {moment}")
    name = testbed.members.running(number) or ""
    begin(name)
    if name:
        (testbed.members.kill if step.choice("ending") == "killed" else testbed.members.close)(name)
    return partial(_replace, testbed, number)


def freeze(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    _number, name = _struck(testbed, step)
    begin(name)
    if not name:
        return stays
    testbed.members.freeze(name)
    return partial(testbed.members.thaw, name)


def join(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """Numbers of those that have joined follow those of the schedule's lines."""
    schedule = testbed.schedule
    joins = [each for each in schedule.steps if each.fault == step.fault]
    number = schedule.member_count + next(place for place, each in enumerate(joins) if each is step)
    begin(f"member {number}")
    _start(testbed, number)
    return stays


def expel(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    _number, name = _struck(testbed, step)
    begin(name)
    if name:
        testbed.admin.group.expel(name)
    return stays


def duplicate(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """Whether the first or the second may stay is a matter of the protocol: either may end."""
    number, first = _struck(testbed, step)
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
        _start(testbed, number)


def slow(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    _number, name = _struck(testbed, step)
    begin(name)
    if not name:
        return stays
    testbed.members.slow(name, step.amount("each_ms"))
    return partial(testbed.members.slow, name, 0)


def stick(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    _number, name = _struck(testbed, step)
    begin(name)
    if not name:
        return stays
    testbed.members.stick(name)
    return partial(testbed.members.unstick, name)


def jump(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """Of all that run now, or of one."""
    names = (_struck(testbed, step)[1],) if isinstance(step.target, Member) else tuple(testbed.members.names())
    begin(", ".join(names))
    _shift(testbed, names, step.amount("step_ms"))
    return partial(_shift, testbed, names, 0)


def _shift(testbed: Testbed, names: tuple[str, ...], step_ms: int) -> None:
    for name in names:
        if name and not testbed.members.has_ended(name):
            testbed.members.shift_clock(name, step_ms)


# --- a storm --------------------------------------------------------------------------------------------------


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
            _start(testbed, newcomers)
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
        _replace(testbed, number)


def _numbers(testbed: Testbed) -> range:
    joins = sum(1 for each in testbed.schedule.steps if each.fault == "consumer-join")
    return range(testbed.schedule.member_count + joins)


# --- processes ------------------------------------------------------------------------------------------------


def _struck(testbed: Testbed, step: Step) -> tuple[int, str]:
    """The number that is meant, and the process that has it; "" if it has ended, which the ledger knows already."""
    assert isinstance(step.target, Member)
    number = step.target.number
    return number, testbed.members.running(number) or ""


def _replace(testbed: Testbed, number: int) -> None:
    """Have a process in its place, unless there is one."""
    if not testbed.members.running(number):
        _start(testbed, number)


def _start(testbed: Testbed, number: int) -> None:
    testbed.members.start(MemberPlan.of(number, testbed.schedule))


INJECTORS: Mapping[str, Injector] = {
    "consumer-kill": kill,
    "catch-up-end": end_catching_up,
    "consumer-freeze": freeze,
    "consumer-close": close,
    "consumer-join": join,
    "storm": storm,
    "member-expelled": expel,
    "duplicate-instance": duplicate,
    "slow-consumer": slow,
    "poll-interval-exceeded": stick,
    "clock-jump": jump,
}
