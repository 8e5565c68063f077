"""Worlds whose members delay what a rebalance wants back (KIP-983): nobody has a partition twice, and all is read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwire.testing.invariants.ledger import Polled, Revoked
from kwire.testing.simulation import run
from kwire.testing.simulation.drawing import draw
from kwire.testing.simulation.habits import FIRST_WITH_DELAYS, Habits, draw_habits
from kwire.testing.simulation.run import simulate
from kwire.testing.simulation.story import story

pytestmark = pytest.mark.usefixtures("without_logs")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "assignor", "committing"),
    [("classic", "range", "auto"), ("classic", "cooperative-sticky", "sync"), ("consumer", "range", "auto")],
)
def test_what_is_delayed_changes_hands_cleanly(
    protocol: str, assignor: str, committing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = replace(
        draw(1),
        topics=(4,),
        members=3,
        protocol=protocol,  # type: ignore[arg-type]  # one of those there are
        assignors=(assignor,),
        committing=committing,  # type: ignore[arg-type]  # as above
        poll_seconds=0.1,
        processing_ms=1.0,
        records_per_second=20.0,
        busy_ms=10_000.0,
        strikes=(),
        habits=Habits(delays=0.9),
    )
    monkeypatch.setattr(run, "draw", lambda _seed, _only: scenario)
    outcome = simulate(scenario.seed)
    assert outcome.violations == (), story(outcome)
    assert {event.member for event in outcome.ledger.of(Polled)} >= {"member1", "member2", "member3"}
    assert len([event for event in outcome.ledger.of(Revoked) if event.partitions]) >= 3


def test_only_worlds_of_large_seeds_know_delays() -> None:
    """Those of the others are what they were."""
    assert {draw_habits(seed, ()).delays for seed in (*range(1, 201), FIRST_WITH_DELAYS - 1)} == {0.0}
    assert len({draw_habits(seed, ()).delays for seed in range(FIRST_WITH_DELAYS, FIRST_WITH_DELAYS + 50)}) > 2
