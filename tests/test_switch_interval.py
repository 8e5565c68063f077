"""The interpreter's switch interval: short while kwire is at work, and otherwise as it was."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from kwire.switch_interval import SHORT_INTERVAL_S, PollsInARow, ShortSwitchInterval

BEFORE_S = 0.003
SHORT = pytest.approx(SHORT_INTERVAL_S)
BEFORE = pytest.approx(BEFORE_S)


@pytest.fixture(autouse=True)
def interval_of_the_application() -> Iterator[None]:
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(BEFORE_S)
    yield
    assert sys.getswitchinterval() == BEFORE
    sys.setswitchinterval(before_s)


def test_it_is_short_until_the_last_user_restores_it() -> None:
    one, other = ShortSwitchInterval(), ShortSwitchInterval()
    with one:
        other.shorten()
        assert sys.getswitchinterval() == SHORT
    assert sys.getswitchinterval() == SHORT
    other.restore()


def test_a_user_that_was_interrupted_before_it_restored_does_so_the_next_time() -> None:
    interval = ShortSwitchInterval()
    interval.shorten()
    with interval:
        pass
    assert sys.getswitchinterval() == BEFORE


def test_restoring_what_was_not_shortened_changes_nothing() -> None:
    with ShortSwitchInterval():
        ShortSwitchInterval().restore()
        assert sys.getswitchinterval() == SHORT


def test_what_the_application_sets_meanwhile_stays() -> None:
    with ShortSwitchInterval():
        sys.setswitchinterval(2 * BEFORE_S)
    assert sys.getswitchinterval() == pytest.approx(2 * BEFORE_S)
    sys.setswitchinterval(BEFORE_S)


def test_an_interval_that_is_shorter_still_is_left_alone() -> None:
    sys.setswitchinterval(SHORT_INTERVAL_S / 10)
    with ShortSwitchInterval():
        assert sys.getswitchinterval() == pytest.approx(SHORT_INTERVAL_S / 10)
    assert sys.getswitchinterval() == pytest.approx(SHORT_INTERVAL_S / 10)
    sys.setswitchinterval(BEFORE_S)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_the_child_of_a_fork_has_what_the_application_had() -> None:
    """The threads that wanted it short are not in the child, and may have held the lock."""
    with ShortSwitchInterval():
        child = os.fork()
        if child == 0:
            was_restored = sys.getswitchinterval() == BEFORE
            with ShortSwitchInterval():
                is_shortened = sys.getswitchinterval() == SHORT
            os._exit(0 if was_restored and is_shortened else 1)
        assert os.waitpid(child, 0)[1] == 0


# --- polls ----------------------------------------------------------------------------------------------------


def polls(*returned_at_ms: float) -> PollsInARow:
    row = PollsInARow()
    for at_ms in returned_at_ms:
        row.collects()
        assert sys.getswitchinterval() == SHORT
        row.returns(at_ms)
    return row


def test_a_poll_alone_restores_it_when_it_returns() -> None:
    polls(1_000)
    assert sys.getswitchinterval() == BEFORE


def test_it_stays_short_between_polls_that_follow_each_other_quickly() -> None:
    row = polls(1_000, 1_010)
    assert sys.getswitchinterval() == SHORT
    row.finds_nothing()


def test_an_application_that_takes_its_time_has_it_restored_between_its_polls() -> None:
    polls(1_000, 1_010, 1_500)
    assert sys.getswitchinterval() == BEFORE


def test_a_poll_that_waits_restores_it() -> None:
    row = polls(1_000, 1_010)
    row.finds_nothing()
    assert sys.getswitchinterval() == BEFORE


def test_the_network_thread_restores_it_when_the_application_has_stopped_polling() -> None:
    row = polls(1_000, 1_010)
    row.look(1_050)
    assert sys.getswitchinterval() == SHORT
    row.look(1_200)
    assert sys.getswitchinterval() == BEFORE


def test_a_consumer_without_network_thread_leaves_it_alone() -> None:
    """Nobody would restore it when the application stops polling."""
    row = polls(1_000, 1_010)
    row.end()
    assert sys.getswitchinterval() == BEFORE
    row.collects()
    assert sys.getswitchinterval() == BEFORE
