"""Drawing: the scenario of a world from its seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace

from kwire.testing.cluster.releases import LATEST, RELEASES
from kwire.testing.simulation.faults import FAULTS
from kwire.testing.simulation.habits import (
    CUTS_LOGS,
    HIDDEN_BY_METADATA,
    NEEDS_METADATA,
    draw_async_habits,
    draw_habits,
)
from kwire.testing.simulation.handling import draw_handling
from kwire.testing.simulation.login_faults import LOGIN_FAULTS
from kwire.testing.simulation.logins import draw_logins
from kwire.testing.simulation.scenario import GroupProtocol, Scenario, Strike
from kwire.testing.simulation.user_faults import FOR_EVER, draw_user_faults

SLOWLY_AGING_MS = 60_000
# How much less often a handler fails if the processor stops at a failure.
SELDOM = 7
BAD_SELDOM = 101
ROOM = 1_000
# With one broker, leaders cannot move, and no broker can take over.
NEEDS_BROKERS = frozenset(
    {"leader-moves", "coordinator-moves", "unclean-election", "refused-positions", "partition-from-one-broker"}
)


def draw(seed: int, only: tuple[str, ...] | None = None) -> Scenario:
    """The scenario of a seed.

    Args:
        only: use only these faults, instead of those that the seed draws; to shorten a story.
    """
    rng = random.Random(f"scenario {seed}")
    busy_ms = rng.uniform(30_000.0, 90_000.0)
    theme = tuple(FAULTS)[seed % len(FAULTS)]  # so each fault strikes once in this many seeds
    protocol: GroupProtocol = rng.choice(("classic", "consumer"))
    scenario = Scenario(
        seed=seed,
        brokers=max(rng.choice((1, 2, 3, 3)), 2 if theme in NEEDS_BROKERS else 1),
        topics=tuple(rng.randint(1, 4) for _ in range(rng.choice((1, 1, 2)))),
        members=rng.randint(1, 4),
        protocol=protocol,
        assignors=rng.choice((("range",), ("cooperative-sticky",), ("range", "cooperative-sticky"), ("roundrobin",))),
        committing=rng.choice(("auto", "auto", "sync", "async")),
        poll_seconds=rng.choice((0.1, 0.5, 2.0)),
        processing_ms=rng.choice((0.0, 1.0, 20.0, 200.0)),
        max_poll_records=rng.choice((1, 10, 500)),
        records_per_second=rng.choice((5.0, 20.0, 60.0)),
        busy_ms=busy_ms,
        release=rng.choice((LATEST.name, LATEST.name, *RELEASES)) if protocol == "classic" else LATEST.name,
        strikes=_draw_strikes(rng, theme, busy_ms),
    )
    habits = draw_habits(seed, {strike.fault for strike in scenario.strikes})
    if habits.floods:
        scenario = _flooded(scenario, theme)
    grows = habits.metadata_max_age_ms < SLOWLY_AGING_MS and rng.random() < 0.3  # it shows when metadata is asked for
    scenario = replace(scenario, habits=habits, grows_at_end=grows)
    return scenario if only is None else _with_only(scenario, only)


def _flooded(scenario: Scenario, theme: str) -> Scenario:
    """The same with members that soon read a flood, of several partitions that one broker leads."""
    brokers = 2 if theme in NEEDS_BROKERS else 1
    return replace(scenario, brokers=brokers, topics=(4,), processing_ms=0.0, max_poll_records=500)


def with_handling(scenario: Scenario) -> Scenario:
    """The same, with members that run a `Processor`: nobody else seeks or pauses what that has, or commits for it.

    One that buffers ten records is sent no more than twenty a second: its partitions are held back and let go behind
    a fetch that waits for news, which makes 60 records a second at best.
    """
    habits = replace(scenario.habits, seeks=0.0, seeks_when_assigned=0.0, pauses=0.0, floods=0.0)
    handling = draw_handling(scenario.seed)
    rate = min(scenario.records_per_second, 2.0 * handling.most_records)
    return replace(scenario, handling=handling, habits=habits, committing="async", records_per_second=rate)


def with_async_consumers(scenario: Scenario) -> Scenario:
    """The scenario, with members that use an `AsyncConsumer`."""
    return replace(scenario, async_habits=draw_async_habits(scenario.seed))


def with_user_faults(scenario: Scenario) -> Scenario:
    """The same, with members whose own code fails. Not one of them seeks in a log that is cut: what is behind a bad
    record there may be in front of another one. And a processor that stops over a failure does so now and then only,
    and has room for more than a few records: else there would be nothing but a backlog."""
    faults = draw_user_faults(scenario.seed)
    if scenario.handling is not None:
        handling = replace(scenario.handling, has_poison=False)
        if faults.policy == "stop":
            bad_each = faults.bad_each and max(faults.bad_each, BAD_SELDOM)
            faults = replace(faults, bad_each=bad_each, failing_each=faults.failing_each * SELDOM)
            handling = replace(handling, failing=0.0, most_records=max(ROOM, handling.most_records))
        return replace(scenario, user_faults=faults, handling=handling)
    if CUTS_LOGS in {strike.fault for strike in scenario.strikes}:
        faults = replace(faults, bad_each=0, polls_again=FOR_EVER)
    return replace(scenario, user_faults=faults)


def with_logins(scenario: Scenario, only: tuple[str, ...] | None = None) -> Scenario:
    """The same, with connections that are secured, and with faults of logins beside the others. Members that run a
    `Processor` do not rest for an hour: their threads would look around for that long, which takes minutes.

    Args:
        only: as of `draw`.
    """
    rng = random.Random(f"login strikes {scenario.seed}")
    faults = rng.choices(tuple(LOGIN_FAULTS), k=rng.choice((1, 2, 3)))
    strikes = (*scenario.strikes, *_at_any_time(rng, faults, scenario.busy_ms))
    secured = replace(
        scenario,
        logins=draw_logins(scenario.seed, may_rest=scenario.handling is None),
        strikes=tuple(sorted(strikes, key=lambda strike: strike.begins_ms)),
    )
    return secured if only is None else _with_only(secured, only)


def _draw_strikes(rng: random.Random, theme: str, busy_ms: float) -> tuple[Strike, ...]:
    """Twice what this world is about, and whatever else comes."""
    kinds = tuple(fault for fault in FAULTS if theme != HIDDEN_BY_METADATA or fault != NEEDS_METADATA)
    if rng.random() < 0.5:  # a few kinds, again and again: what goes wrong only together has to come together
        kinds = (theme, *rng.sample(kinds, 2))
    faults = [theme, theme, *rng.choices(kinds, k=rng.choice((0, 1, 3, 6, 10)))]
    return tuple(sorted(_at_any_time(rng, faults, busy_ms), key=lambda strike: strike.begins_ms))


def _at_any_time(rng: random.Random, faults: Iterable[str], busy_ms: float) -> Iterator[Strike]:
    for fault in faults:
        begins_ms = rng.uniform(1_000.0, busy_ms - 1_000.0)
        lasts_ms = rng.choice((500.0, 3_000.0, 12_000.0, 25_000.0)) * rng.uniform(0.5, 1.5)
        yield Strike(fault=fault, begins_ms=begins_ms, ends_ms=min(busy_ms, begins_ms + lasts_ms))


def _with_only(scenario: Scenario, only: tuple[str, ...]) -> Scenario:
    return replace(scenario, strikes=tuple(strike for strike in scenario.strikes if strike.fault in only))
