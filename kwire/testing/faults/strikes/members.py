"""What befalls the consumers and their group: `kinds/members.py` carried out."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from kwire.errors import KafkaError
from kwire.testing.faults.arena import Arena
from kwire.testing.faults.member_plan import MemberPlan
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.strikes.strike import Begin, Heal, Strike, stays
from kwire.testing.faults.targets import Member

# Of those that come in a storm: none that a schedule can name.
NEWCOMERS_FROM = 1_000
# Who has been fenced hears of it, and ends.
ON_ITS_WAY_OUT_MS = 2_000.0
# For a lag: a session ends, a rebalance comes to its end.
COMES_TO_IT_S = 40.0


class MomentError(KafkaError):
    """A member never came to the moment at which it was to be struck."""


def kill(arena: Arena, step: Step, begin: Begin) -> Heal:
    number, name = _struck(arena, step)
    begin(name)
    if name:
        arena.members.kill(name)
    return partial(_replace, arena, number)


def close(arena: Arena, step: Step, begin: Begin) -> Heal:
    number, name = _struck(arena, step)
    begin(name)
    if name:
        arena.members.close(name)
    return partial(_replace, arena, number)


def end_catching_up(arena: Arena, step: Step, begin: Begin) -> Heal:
    """Raises: MomentError."""
    moment = step.choice("moment")
    assert isinstance(step.target, Member)
    number = step.target.number

    def is_at_it() -> bool:
        """Whoever has that number by then."""
        name = arena.members.running(number)
        return name is not None and arena.members.is_at(name, moment)

    if not arena.members.wait(is_at_it, COMES_TO_IT_S):
        raise MomentError(f"{step.target} never was {moment}")
    name = arena.members.running(number) or ""
    begin(name)
    if name:
        (arena.members.kill if step.choice("ending") == "killed" else arena.members.close)(name)
    return partial(_replace, arena, number)


def freeze(arena: Arena, step: Step, begin: Begin) -> Heal:
    _number, name = _struck(arena, step)
    begin(name)
    if not name:
        return stays
    arena.members.freeze(name)
    return partial(arena.members.thaw, name)


def join(arena: Arena, step: Step, begin: Begin) -> Heal:
    """Numbers of those that have joined follow those of the schedule's lines."""
    schedule = arena.schedule
    joins = [each for each in schedule.steps if each.fault == step.fault]
    number = schedule.member_count + next(place for place, each in enumerate(joins) if each is step)
    begin(f"member {number}")
    _start(arena, number)
    return stays


def expel(arena: Arena, step: Step, begin: Begin) -> Heal:
    _number, name = _struck(arena, step)
    begin(name)
    if name:
        arena.admin.group.expel(name)
    return stays


def duplicate(arena: Arena, step: Step, begin: Begin) -> Heal:
    """Whether the first or the second may stay is a matter of the protocol: either may end."""
    number, first = _struck(arena, step)
    plan = MemberPlan.of(number, arena.schedule)
    twin = -1 - number
    if first:
        arena.members.expect_end(first)
    begin(f"instance id {plan.instance_id}")
    second = arena.members.start(replace(plan, number=twin))
    arena.members.expect_end(second)
    return partial(_leave_one, arena, number, twin)


def _leave_one(arena: Arena, number: int, twin: int) -> None:
    """Of two that still live, the one that has partitions; of none, another process takes the place."""
    first, second = arena.members.running(number), arena.members.running(twin)
    if first and second:
        arena.members.close(second if arena.members.owned(first) else first)
        arena.sleep(ON_ITS_WAY_OUT_MS)
    if not arena.members.running(number) and not arena.members.running(twin):
        _start(arena, number)


def slow(arena: Arena, step: Step, begin: Begin) -> Heal:
    _number, name = _struck(arena, step)
    begin(name)
    if not name:
        return stays
    arena.members.slow(name, step.amount("each_ms"))
    return partial(arena.members.slow, name, 0)


def stick(arena: Arena, step: Step, begin: Begin) -> Heal:
    _number, name = _struck(arena, step)
    begin(name)
    if not name:
        return stays
    arena.members.stick(name)
    return partial(arena.members.unstick, name)


def jump(arena: Arena, step: Step, begin: Begin) -> Heal:
    """Of all that run now, or of one."""
    names = (_struck(arena, step)[1],) if isinstance(step.target, Member) else tuple(arena.members.names())
    begin(", ".join(names))
    _shift(arena, names, step.amount("step_ms"))
    return partial(_shift, arena, names, 0)


def _shift(arena: Arena, names: tuple[str, ...], step_ms: int) -> None:
    for name in names:
        if name and not arena.members.has_ended(name):
            arena.members.shift_clock(name, step_ms)


# --- a storm --------------------------------------------------------------------------------------------------


def storm(arena: Arena, step: Step, begin: Begin) -> Heal:
    """One change after the other, evenly over the time; somebody is always left."""
    assert step.lasts_ms is not None
    chance = random.Random(f"storm {step.at_ms}")
    before = [number for number in _numbers(arena) if arena.members.running(number)]
    living, newcomers = list(before), NEWCOMERS_FROM
    changes = step.amount("changes")
    begin(f"{changes} changes")
    began_ms = arena.recorder.now_ms()
    for turn in range(changes):
        arena.sleep_until(began_ms + turn * step.lasts_ms / changes)
        if len(living) <= max(1, len(before) // 2) or (len(living) < 2 * len(before) and chance.random() < 0.5):
            _start(arena, newcomers)
            living.append(newcomers)
            newcomers += 1
        else:
            _go(arena, living.pop(chance.randrange(len(living))), is_killed=chance.random() < 0.5)
    return partial(_after_storm, arena, before, living)


def _go(arena: Arena, number: int, *, is_killed: bool) -> None:
    if name := arena.members.running(number):
        (arena.members.kill if is_killed else arena.members.close)(name)


def _after_storm(arena: Arena, before: list[int], living: list[int]) -> None:
    for number in living:
        if number not in before:
            _go(arena, number, is_killed=False)
    for number in before:
        _replace(arena, number)


def _numbers(arena: Arena) -> range:
    joins = sum(1 for each in arena.schedule.steps if each.fault == "consumer-join")
    return range(arena.schedule.member_count + joins)


# --- processes ------------------------------------------------------------------------------------------------


def _struck(arena: Arena, step: Step) -> tuple[int, str]:
    """The number that is meant, and the process that has it; "" if it has ended, which the ledger knows already."""
    assert isinstance(step.target, Member)
    number = step.target.number
    return number, arena.members.running(number) or ""


def _replace(arena: Arena, number: int) -> None:
    """Have a process in its place, unless there is one."""
    if not arena.members.running(number):
        _start(arena, number)


def _start(arena: Arena, number: int) -> None:
    arena.members.start(MemberPlan.of(number, arena.schedule))


STRIKES: Mapping[str, Strike] = {
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
