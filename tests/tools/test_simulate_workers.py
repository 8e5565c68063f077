"""The processes of `scripts/simulate`: one that dies or hangs costs its seed, and none is left in the end."""

from __future__ import annotations

import os
import signal

import pytest

from tools.simulate.workers import Died, Workers


def squared_or_dead(seed: int) -> int:
    if seed == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return seed * seed


def for_ever(seed: int) -> int:
    while seed:
        signal.pause()
    return 0


def whose(_seed: int) -> int:
    return os.getpid()


@pytest.mark.slow
def test_a_process_that_dies_is_told_of_with_its_seed_and_the_others_go_on() -> None:
    with Workers(squared_or_dead, 2) as workers:
        found = list(workers.run(iter(range(1, 7))))
    assert Died(3, "its process ended with exit code -9") in found
    assert sorted(each for each in found if isinstance(each, int)) == [1, 4, 16, 25, 36]


@pytest.mark.slow
def test_a_world_that_does_not_end_is_ended() -> None:
    with Workers(for_ever, 1, limit_seconds=3.0) as workers:
        assert list(workers.run(iter((7, 0)))) == [Died(7, "it did not end within 3 s"), 0]


@pytest.mark.slow
def test_a_process_lives_for_so_many_seeds() -> None:
    with Workers(whose, 1, worlds_each=2) as workers:
        first, second, third = workers.run(iter((1, 2, 3)))
    assert first == second != third


@pytest.mark.slow
def test_who_leaves_leaves_no_process_behind() -> None:
    with Workers(whose, 1) as workers:
        found = workers.run(iter((1, 2)))
        process = next(found)
    assert isinstance(process, int)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
