"""`scripts/prove slow-handler`: what its judge says of what a member and its commits looked like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proofs.group import Group
from proofs.slow_handler import GROWTH_BYTES, Farewell, Outcome

MIB = 1024 * 1024
SOUND = Outcome(
    group=Group.RANGE,
    seconds=60.0,
    resident=[50 * MIB, *[60 * MIB] * 9],
    other_commits=[100, 200, 300],
    slow_commits=[0, 0, 0],
    slow_told=[90, 190, 290],
    changes=("assigned 2",),
    written=700,
    farewell=Farewell(700, (0, 60, 120), (1, 1)),
)


def test_a_sound_outcome_breaks_nothing_and_can_be_read() -> None:
    assert list(SOUND.broken()) == []
    assert "one record of 700 took 60 s; in 3 looks: memory 63 MB, grown by 0.0" in str(SOUND)


def test_the_slow_record_may_stand_behind_a_batch_that_overtook_its_own() -> None:
    behind = replace(SOUND, slow_commits=[32, 32, 32], farewell=Farewell(700, (32, 60, 120), (1, 1)))
    assert list(behind.broken()) == []


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (replace(SOUND, changes=("assigned 2", "lost 2", "assigned 2")), "the group changed"),
        (replace(SOUND, farewell=Farewell(700, (0, 60), (1, 2))), "the group changed"),
        (replace(SOUND, resident=[50 * MIB, *[60 * MIB] * 7, *[61 * MIB + GROWTH_BYTES] * 2]), "memory grew by 9.4 MB"),
        (replace(SOUND, other_commits=[100, 100, 300]), "commits of the other partition do not advance"),
        (replace(SOUND, slow_commits=[0, 1, 1]), "do not stay at the slow record, 0"),
        (replace(SOUND, slow_told=[90, 190, 190]), "done behind the slow record does not advance"),
        (replace(SOUND, written=701), "700 records were handled, of 701"),
        (replace(SOUND, farewell=Farewell(700, (0, 120, 60), (1, 1))), "out of order"),
        (replace(SOUND, farewell=None), "before there was anything to see"),
    ],
    ids=lambda each: each.replace(" ", "-") if isinstance(each, str) else "",
)
def test_each_promise_that_is_broken_is_named(wrong: Outcome, line: str) -> None:
    (said,) = wrong.broken()
    assert line in said
