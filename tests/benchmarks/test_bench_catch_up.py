"""`scripts/bench catch-up`: what a turn says of what was read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks.catch_up_worker import Part, Probe, measure

ENDS = (10, 5)


class Reading:
    """A reader that hands out these polls, and then nothing."""

    def __init__(self, *polls: Sequence[Part]) -> None:
        self._polls = iter(polls)

    def read(self) -> Sequence[Part]:
        return next(self._polls, ())

    def close(self) -> None:
        """It has nothing."""


class SentProbe(Probe):
    """One that is in the log at once."""

    def __init__(self) -> None:
        self.sent_s = 0.0

    def send(self) -> None:
        self.sent_s = 1.0


def figures_of(*polls: Sequence[Part]) -> dict[str, float]:
    """Each look at the clock is a second after the one before."""
    seconds = iter(range(1000))
    return measure(Reading(*polls), SentProbe(), ENDS, now=lambda: float(next(seconds)))


def test_the_newest_may_come_before_the_lag_is_done() -> None:
    figures = figures_of([(0, 0, 2)], [(0, 10, 11), (0, 2, 10)], [(1, 0, 5)])
    assert (figures["fresh_s"], figures["lag_s"]) == (1.0, 3.0)


def test_in_order_it_comes_behind_all_that_was_there() -> None:
    figures = figures_of([(1, 0, 5)], [(0, 0, 10)], [(0, 10, 11)])
    assert (figures["fresh_s"], figures["lag_s"]) == (2.0, 2.0)


def test_a_record_that_comes_twice_ends_the_turn() -> None:
    with pytest.raises(SystemExit, match="nothing came"):
        figures_of([(0, 0, 2)], [(0, 0, 10)], [(1, 0, 5)])


def test_a_record_that_never_comes_ends_the_turn() -> None:
    with pytest.raises(SystemExit, match=r"nothing came for 60 s; left: \{0: 1, 1: 5\}"):
        figures_of([(0, 0, 9)])
