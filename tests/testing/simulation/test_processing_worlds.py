"""Worlds whose members run a `Processor`: well when all is well, the same each time, and telling when it is broken."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

import kwire.processing.partition_queues
from kwire.processing.lazy_records import LazyRecords
from kwire.processing.tracker import Tracker
from kwire.processing.workers import Item, Run
from kwire.testing.invariants.handling_events import HandlingEnded, Lined, ProcessorStarted, StatusSeen
from kwire.testing.invariants.ledger import Calm, Closing, Killed
from kwire.testing.simulation.drawing import draw, with_handling
from kwire.testing.simulation.handling import draw_handling
from kwire.testing.simulation.run import simulate
from kwire.testing.simulation.story import story

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_logs")]

SEEDS = (5, 10)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_world_in_which_records_are_worked_on_is_well(seed: int) -> None:
    outcome = simulate(seed, processing=True)
    assert not outcome.violations, story(outcome)
    ledger = outcome.ledger
    for kind in (Calm, Closing, ProcessorStarted, Lined, StatusSeen):
        assert next(ledger.of(kind), None) is not None, kind.__name__
    assert sum(event.is_done for event in ledger.of(HandlingEnded)) > 100


def test_a_world_whose_workers_make_their_records_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worlds have few records: as a rule too few for that."""
    monkeypatch.setattr(kwire.processing.partition_queues, "FEW_ROWS", 2)
    run_of, counted = Run.__init__, Counter[type]()

    def counting(
        run: Run[bytes, bytes],
        items: Sequence[Item[bytes, bytes]],
        handler: Callable[..., object],
        *,
        may_be_unreadable: bool,
    ) -> None:
        counted[type(items)] += 1
        run_of(run, items, handler, may_be_unreadable=may_be_unreadable)

    monkeypatch.setattr(Run, "__init__", counting)
    outcome = simulate(156, processing=True)
    assert not outcome.violations, story(outcome)
    assert counted[LazyRecords] > 10


def test_such_a_world_is_the_same_each_time() -> None:
    assert simulate(10, processing=True).digest == simulate(10, processing=True).digest


def test_such_a_world_is_the_same_in_processes_that_hash_differently() -> None:
    """What was asked for, committed and sought went in the order of sets."""
    code = "from kwire.testing.simulation.run import simulate; print(simulate(1, processing=True).digest)"
    digests = {
        subprocess.run(
            (sys.executable, "-c", code),
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_its_faults_are_those_of_the_seed() -> None:
    for seed in range(1, 30):
        plain, processing = draw(seed), with_handling(draw(seed))
        assert processing.strikes == plain.strikes
        assert processing.handling == draw_handling(seed)
        assert plain.handling is None


def test_members_work_in_all_ways() -> None:
    drawn = [draw_handling(seed) for seed in range(1, 60)]
    assert {each.order for each in drawn} == {"partition", "key", "none"}
    for field in ("on_tasks", "in_background", "offset_map", "has_poison", "buries", "async_revocation"):
        assert {getattr(each, field) for each in drawn} == {True, False}, field


def test_members_are_killed_over_their_work() -> None:
    outcome = simulate(24, ("member-kill",), processing=True)
    killed = {event.member for event in outcome.ledger.of(Killed)}
    assert killed
    assert not outcome.violations, story(outcome)


def test_a_commit_of_what_is_in_work_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tracker, "base", property(lambda tracker: tracker.position))
    rules = {violation.rule for violation in simulate(1, processing=True).violations}
    assert "commit-unfinished" in rules
