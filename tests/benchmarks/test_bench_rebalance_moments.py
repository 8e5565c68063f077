"""`scripts/bench rebalance`: an event comes as far from the next heartbeat as planned, whatever beat a client keeps."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.rebalance.moments import is_near, left_ns, lefts, moment_ns
from benchmarks.rebalance.tap import COMMITS, HEARTBEATS, Heard, Tap

if TYPE_CHECKING:
    from collections.abc import Iterator

MS = 1_000_000
INTERVAL_NS = 3_000 * MS


def at(heartbeats_ms: list[int], left_ms: int, *, earliest_ms: int = 0, interval_ms: int = 3_000) -> int | None:
    beats_ns = [at_ms * MS for at_ms in heartbeats_ms]
    found = moment_ns(beats_ns, interval_ms * MS, left_ms * MS, earliest_ms * MS)
    return None if found is None else found // MS


# --- the moment ------------------------------------------------------------------------------------------------------


def test_what_is_left_is_spread_evenly_over_what_every_client_can_have_and_is_the_same_for_all() -> None:
    assert sorted(lefts(2, 1, seed="kill")) == [0.25, 0.75]
    assert sorted(lefts(4, 3, seed="join")) == pytest.approx([1 - n / 24 for n in (7, 5, 3, 1)])
    assert lefts(9, 3, seed="join") == lefts(9, 3, seed="join")
    assert lefts(9, 3, seed="join") != lefts(9, 3, seed="leave")


def test_the_slowest_is_the_one_whose_heartbeat_was_last() -> None:
    assert at([10_000, 11_000, 11_100], 2_500) == 11_600
    assert at([11_000], 1_000) == 13_000


def test_no_moment_behind_the_next_heartbeat_of_another_which_would_then_be_the_slowest() -> None:
    assert at([10_000, 11_000], 1_000) == 13_000
    assert at([10_000, 11_000], 900) is None
    assert at([10_000, 11_000, 12_000], 2_100) == 12_900
    assert at([10_000, 11_000, 12_000], 1_900) is None


def test_a_moment_that_is_over_waits_for_the_next_heartbeat_unless_that_is_soon() -> None:
    assert at([11_000], 2_500, earliest_ms=11_500) == 11_500
    assert at([11_000], 2_500, earliest_ms=11_501) is None
    assert at([1_000], 90, earliest_ms=1_011, interval_ms=100) == 1_110
    assert at([1_000], 90, earliest_ms=1_205, interval_ms=100) == 1_210
    assert at([1_000], 90, earliest_ms=1_211, interval_ms=100) is None


def test_what_is_left_is_that_of_the_slowest_also_some_intervals_on() -> None:
    assert left_ns([10_000 * MS, 11_000 * MS], INTERVAL_NS, 11_600 * MS) == 2_400 * MS
    assert left_ns([10_000 * MS, 11_000 * MS], INTERVAL_NS, 13_500 * MS) == 2_500 * MS
    assert is_near(2_400 * MS, 2_550 * MS, INTERVAL_NS)
    assert not is_near(2_400 * MS, 2_551 * MS, INTERVAL_NS)


@settings(max_examples=50)
@given(
    phases=st.lists(st.integers(0, INTERVAL_NS - 1), min_size=1, max_size=4),
    rounds=st.integers(1, 12),
    turn=st.integers(0, 11),
)
def test_every_time_left_comes_within_an_interval_however_the_heartbeats_lie(
    phases: list[int], rounds: int, turn: int
) -> None:
    """Going through one interval, heartbeat by heartbeat, as the bench does."""
    wanted_ns = int(lefts(rounds, len(phases), seed="any")[turn % rounds] * INTERVAL_NS)
    found = []
    for now_ns in phases:
        beats_ns = [now_ns - (now_ns - phase) % INTERVAL_NS for phase in phases]
        moment = moment_ns(beats_ns, INTERVAL_NS, wanted_ns, now_ns)
        if moment is not None:
            found.append(left_ns(beats_ns, INTERVAL_NS, moment))
    assert found
    assert set(found) == {wanted_ns}


# --- what the broker tells -------------------------------------------------------------------------------------------


@pytest.fixture
def tap() -> Iterator[Tap]:
    with Tap() as tap:
        yield tap


def test_the_tap_knows_the_last_heartbeat_of_each_and_tells_it_from_a_commit(tap: Tap) -> None:
    for line in (b"10 12 g a", b"20 68 g b", b"30 12 g a", b"40 8 g a", b"50 12 warm-up a"):
        tap.hear(Heard.parse(line))
    assert tap.heartbeats_ns("g", ["a", "b"]) == [30, 20]
    assert tap.heartbeats_ns("g", ["a", "b"], before_ns=30) == [10, 20]
    assert tap.heartbeats_ns("g", ["a", "b"], before_ns=20) is None
    assert tap.heartbeats_ns("g", ["a", "c"]) is None
    assert tap.last_ns("g", "a", COMMITS) == 40
    assert tap.last_ns("g", "b", COMMITS) is None
    assert tap.last_ns("warm-up", "a", HEARTBEATS) == 50


def test_who_waits_looks_after_every_request_that_the_broker_tells_of(tap: Tap) -> None:
    looked = threading.Event()

    def find() -> int | None:
        looked.set()
        return tap.last_ns("g", "a", HEARTBEATS)

    def tell() -> None:
        looked.wait(10)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as broker:
            for line in (b"7 12 g b", b"8 12 g a"):
                broker.sendto(line, ("127.0.0.1", int(tap.settings["bench.tap.port"])))

    thread = threading.Thread(target=tell)
    thread.start()
    assert tap.wait_until(find, 10) == 8
    thread.join()
    assert tap.wait_until(lambda: None, 0) is None
