"""Random schedules: a seed determines a mixture of faults that may overlap.

Each kind in turn is the theme of a seed, so that as many consecutive seeds as there are kinds cover every kind; the
other faults are random. Called by the command line, and for long series of runs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from kwire.model import TopicPartition
from kwire.testing.faults.catalogue import KINDS, strike
from kwire.testing.faults.kind import Amount, FaultKind, Need, Parameter, Value
from kwire.testing.faults.quantities import MS_PER_SECOND
from kwire.testing.faults.rules import problems
from kwire.testing.faults.schedule import GroupProtocol, MembersLine, Schedule, ScheduleError, Step, TopicPlan
from kwire.testing.faults.targets import (
    AllBrokers,
    GroupCoordinator,
    LeaderOf,
    OneBroker,
    OneMember,
    OneTopic,
    PartitionOf,
    Target,
    TargetKind,
    WholeGroup,
)

# Faults that depend on the machine, or need special brokers, are drawn only if they are asked for.
ASKED_FOR = frozenset({Need.LIBFAKETIME, Need.OLDER_STORAGE, Need.PERMISSIONS, Need.TWO_CURSORS})
DRAWN = tuple(name for name, kind in KINDS.items() if not ASKED_FOR.intersection(kind.needs))
DEFAULT_SECONDS = 120
# The group gets time to begin, and time to recover before the end.
FIRST_MS = 10_000
LAST_MS = 2_000
ATTEMPTS = 60
SECONDS_FOR_EACH = 12
TICK_MS = 100
DURATIONS = (0.3, 0.7, 1.0, 1.6)
FACTORS = (1, 4, 6, 16)


def draw(seed: int, *, seconds: int = DEFAULT_SECONDS, kinds: Sequence[str] = DRAWN) -> Schedule:
    """The schedule of a seed.

    Args:
        seconds: the length of the schedule; it has about one fault for every twelve seconds.
        kinds: the kinds to draw from.

    Raises:
        ScheduleError: there is no such kind, or the time is too short for the theme of the seed.
    """
    unknown = [name for name in kinds if name not in KINDS]
    if unknown or not kinds:
        raise ScheduleError((f"{', '.join(unknown) or 'nothing'} is no fault; allowed: {', '.join(KINDS)}",))
    rng = random.Random(f"fault schedule {seed}")
    theme = KINDS[kinds[seed % len(kinds)]]
    schedule = _begin(rng, theme, f"seed {seed}", seconds * MS_PER_SECOND)
    first = _with_one_more(rng, schedule, theme)
    if first is None:
        raise ScheduleError((f"{theme.name} does not fit into {seconds} seconds",))
    schedule = first
    for _ in range(seconds // SECONDS_FOR_EACH - 1):
        schedule = _with_one_more(rng, schedule, KINDS[rng.choice(kinds)]) or schedule
    return schedule


def _begin(rng: random.Random, theme: FaultKind, title: str, end_ms: int) -> Schedule:
    """A schedule without faults, in which the theme is possible."""
    protocol: GroupProtocol = rng.choice(("classic", "consumer"))
    is_static = rng.random() < 0.25 or Need.STATIC_MEMBERS in theme.needs
    topics = max(rng.choice((1, 1, 2)), 2 if Need.ONE_TOPIC_LEFT in theme.needs else 1)
    return Schedule(
        title=title,
        members=(MembersLine(count=rng.randint(2, 4), protocol=protocol, static=is_static),),
        topics=tuple(TopicPlan(name=f"topic{number}", partitions=rng.randint(2, 8)) for number in range(topics)),
        rate_per_second=rng.choice((100, 300, 1_000)),
        end_ms=end_ms,
    )


def _with_one_more(rng: random.Random, schedule: Schedule, kind: FaultKind) -> Schedule | None:
    """The schedule with one more fault of a kind, at a time when it may strike; None if none is found."""
    for _ in range(ATTEMPTS):
        step = _draw_step(rng, schedule, kind)
        if step is None:
            continue
        longer = replace(schedule, steps=(*schedule.steps, step))
        if not problems(longer):
            return longer
    return None


def _draw_step(rng: random.Random, schedule: Schedule, kind: FaultKind) -> Step | None:
    """A random step, which may not fit the schedule; None if its values contradict each other, or there is no time for
    it."""
    lasts_ms = _draw_duration_ms(rng, kind)
    latest_ms = schedule.end_ms - LAST_MS - (lasts_ms or 0)
    if latest_ms < FIRST_MS:
        return None
    at_ms = rng.randrange(FIRST_MS, latest_ms + 1, TICK_MS)
    values = {parameter.name: _draw_value(rng, parameter) for parameter in kind.parameters}
    target = _draw_target(rng, schedule, rng.choice(kind.targets))
    try:
        return strike(at_ms, kind.name, target, lasts_ms=lasts_ms, **values)
    except ValueError:
        return None


def _draw_duration_ms(rng: random.Random, kind: FaultKind) -> int | None:
    if kind.lasting is None:
        return None
    wanted_ms = round(kind.lasting.default_ms * rng.choice(DURATIONS) / TICK_MS) * TICK_MS
    return min(max(wanted_ms, kind.lasting.least_ms), kind.lasting.most_ms)


def _draw_value(rng: random.Random, parameter: Parameter) -> Value:
    """A random value from a fourth of the default to four times the default."""
    if not isinstance(parameter, Amount):
        return rng.choice(parameter.words)
    value = parameter.default * rng.choice(FACTORS) // FACTORS[1]
    if parameter.least < 0 and rng.random() < 0.5:
        value = -value
    return min(max(value, parameter.least), parameter.most)


def _draw_target(rng: random.Random, schedule: Schedule, kind: TargetKind) -> Target:
    topic = rng.choice(schedule.topics)
    partition = TopicPartition(topic.name, rng.randrange(topic.partitions))
    targets: dict[TargetKind, Target] = {
        OneBroker: OneBroker(rng.randrange(schedule.brokers)),
        LeaderOf: LeaderOf(partition),
        GroupCoordinator: GroupCoordinator(),
        AllBrokers: AllBrokers(),
        OneMember: OneMember(rng.randrange(schedule.member_count)),
        WholeGroup: WholeGroup(),
        OneTopic: OneTopic(topic.name),
        PartitionOf: PartitionOf(partition),
    }
    return targets[kind]
