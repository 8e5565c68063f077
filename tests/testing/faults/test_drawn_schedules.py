"""Schedules from seeds make sense, are the same each time, and strike with every kind."""

from __future__ import annotations

import pytest

from kwire.testing.faults.catalogue import KINDS
from kwire.testing.faults.drawing import DRAWN, FIRST_MS, LAST_MS, draw
from kwire.testing.faults.rules import problems
from kwire.testing.faults.schedule import ScheduleError
from kwire.testing.faults.schedule_text import parse, render

SEEDS = range(len(DRAWN))


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "seeds"), [(90, SEEDS), (300, range(0, len(DRAWN), 8))])
def test_every_drawn_schedule_makes_sense_and_is_told_as_text(seconds: int, seeds: range) -> None:
    for seed in seeds:
        schedule = draw(seed, seconds=seconds)
        assert not problems(schedule), seed
        assert parse(render(schedule)) == schedule
        assert schedule.steps[0].at_ms >= FIRST_MS
        assert max(step.ends_ms for step in schedule.steps) <= seconds * 1_000 - LAST_MS == schedule.end_ms - LAST_MS


def test_the_same_seed_makes_the_same_schedule_and_another_one_another() -> None:
    assert draw(7) == draw(7)
    assert len({render(draw(seed)) for seed in range(10)}) == 10


def test_a_seed_means_the_same_tomorrow() -> None:
    """Reports name seeds: a change of how they are drawn has to be meant."""
    assert render(draw(1, seconds=40, kinds=("latency", "consumer-kill", "leader-move"))).splitlines()[-3:] == [
        "at 20.3s  consumer-kill member 1 for 15s",
        "at 27.8s  leader-move topic topic0",
        "end 40s",
    ]


def test_each_seed_in_turn_is_about_another_kind() -> None:
    for seed in SEEDS:
        assert DRAWN[seed] in {step.fault for step in draw(seed, seconds=60).steps}


def test_all_that_needs_no_special_machine_and_no_special_brokers_is_drawn() -> None:
    special = {"clock-jump", "catch-up-end", "rolling-downgrade", "topic-forbidden", "group-forbidden"}
    assert set(KINDS) - set(DRAWN) == special


def test_only_the_kinds_that_are_asked_for_strike() -> None:
    kinds = ("latency", "clock-jump")
    struck = {step.fault for seed in range(6) for step in draw(seed, kinds=kinds).steps}
    assert struck == set(kinds)


def test_about_one_fault_strikes_in_twelve_seconds() -> None:
    counts = [len(draw(seed, seconds=120).steps) for seed in range(20)]
    assert max(counts) == 10
    assert min(counts) >= 6


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ScheduleError, match="rolling-restart does not fit into 20 seconds"):
        draw(0, seconds=20, kinds=("rolling-restart",))
    with pytest.raises(ScheduleError, match="storms is no fault; allowed: broker-kill, "):
        draw(0, kinds=("storms",))
    with pytest.raises(ScheduleError, match="nothing is no fault"):
        draw(0, kinds=())
