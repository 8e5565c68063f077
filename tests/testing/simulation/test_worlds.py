"""Whole worlds: the same everywhere, well when all is well, and telling when kwire is broken."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from functools import cache

import pytest

from kwire.consumer.delivery import Delivery
from kwire.events import AssignmentView, Delivered
from kwire.fetching.collector import FetchCollector
from kwire.fetching.cursor_collector import Collected
from kwire.managers import offset_fetch
from kwire.managers.second_fetch import SecondFetch
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.protocol.deflation import CODECS
from kwire.subscription.subscription import Subscription
from kwire.testing.cluster.releases import LATEST, RELEASES
from kwire.testing.invariants.ledger import (
    Calm,
    Closing,
    FaultBegan,
    FaultEnded,
    Paused,
    Polled,
    Quiet,
    Sent,
    Sought,
)
from kwire.testing.simulation import run
from kwire.testing.simulation.drawing import NEEDS_BROKERS, draw
from kwire.testing.simulation.faults import FAULTS
from kwire.testing.simulation.habits import FIRST_WITH_SHAPES, Habits, draw_habits
from kwire.testing.simulation.run import WorldOutcome, simulate
from kwire.testing.simulation.scenario import Scenario, Strike
from kwire.testing.simulation.story import story

DIGESTS = """
import logging
from kwire.testing.simulation import simulate
logging.disable(logging.CRITICAL)
print(*(simulate(seed).digest for seed in (39, 38)))
"""

pytestmark = pytest.mark.usefixtures("without_logs")


def small(fault: str | None = None, **changes: object) -> Scenario:
    """A short world with at most one fault."""
    strikes = (Strike(fault=fault, begins_ms=4_000.0, ends_ms=8_000.0),) if fault else ()
    scenario = replace(
        draw(1),
        brokers=3,
        topics=(3,),
        members=2,
        protocol="classic",
        assignors=("cooperative-sticky",),
        committing="auto",
        poll_seconds=0.5,
        processing_ms=1.0,
        max_poll_records=500,
        records_per_second=20.0,
        busy_ms=10_000.0,
        strikes=strikes,
        habits=Habits(),
    )
    return replace(scenario, **changes)  # type: ignore[arg-type]  # fields of a scenario, by name


def outcome_of(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> WorldOutcome:
    monkeypatch.setattr(run, "draw", lambda _seed, _only: scenario)
    return simulate(scenario.seed)


@cache
def digests(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", DIGESTS], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_seed_is_the_same_run_in_every_process(hash_seed: str) -> None:
    """Byte for byte, though strings hash differently in each."""
    here = " ".join(simulate(seed).digest for seed in (39, 38))
    assert digests(hash_seed).strip() == here


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("committing", ["auto", "sync", "async"])
def test_all_is_well_without_faults(protocol: str, committing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = outcome_of(small(protocol=protocol, committing=committing), monkeypatch)
    assert outcome.violations == ()
    members = {event.member for event in outcome.ledger.of(Polled)}
    assert members >= {"member1", "member2"}  # the one that comes for the last act may find nothing to read
    assert sum(len(event.offsets) for event in outcome.ledger.of(Polled)) >= 100


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_each_fault_strikes_heals_and_is_survived(fault: str, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = outcome_of(small(fault, protocol=protocol), monkeypatch)
    assert outcome.violations == (), story(outcome)
    assert [event.fault for event in outcome.ledger.of(FaultBegan)] == [fault]
    assert [event.fault for event in outcome.ledger.of(FaultEnded)] == [fault]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_seek_and_pause_and_read_what_is_committed(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    habits = Habits(
        read_committed=True,
        transactions=0.6,
        seeks=0.2,
        seeks_when_assigned=0.5,
        pauses=0.2,
        fetch_buffer_bytes=3_000,
        max_partition_fetch_bytes=300,
    )
    outcome = outcome_of(small(protocol=protocol, habits=habits), monkeypatch)
    assert outcome.violations == (), story(outcome)
    assert len({event.offset for event in outcome.ledger.of(Sought)}) > 3
    assert len(list(outcome.ledger.of(Paused))) > 3
    numbers = sorted(int(event.value.removeprefix("value")) for event in outcome.ledger.of(Sent))
    assert numbers != list(range(len(numbers))), "what was aborted was never sent, as far as members may see"


@pytest.mark.slow
def test_a_group_is_left_in_calm_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = outcome_of(small("broker-kill"), monkeypatch)
    quiet, calm, closing = (next(outcome.ledger.of(kind)).at_ms for kind in (Quiet, Calm, Closing))
    assert quiet < calm < closing
    assert [event for event in outcome.ledger.of(Sent) if calm < event.at_ms < closing]


def test_habits_go_with_the_faults_that_strike() -> None:
    drawn = [draw_habits(seed, ()) for seed in range(50)]
    assert {habits.read_committed for habits in drawn} == {True, False}
    assert {bool(habits.seeks) for habits in drawn} == {True, False}
    assert {habits.auto_offset_reset for habits in drawn} == {"earliest", "latest"}
    for seed in range(50):
        assert draw_habits(seed, ("unclean-election",)).seeks == 0.0
        assert draw_habits(seed, ("unclean-election",)).transactions == 0.0
        for moves_positions in ("unclean-election", "records-deleted", "refused-positions"):
            assert draw_habits(seed, (moves_positions,)).auto_offset_reset == "earliest"
        assert draw_habits(seed, ("topic-grows",)).metadata_max_age_ms == 10_000
        assert draw_habits(seed, ("damaged-batches",)).bursts > 0.0


def test_each_fault_strikes_in_as_many_seeds_in_a_row_as_there_are_faults() -> None:
    """And where that needs another broker, there is one."""
    struck: set[str] = set()
    for seed in range(7, 7 + len(FAULTS)):
        scenario, theme = draw(seed), tuple(FAULTS)[seed % len(FAULTS)]
        assert [strike.fault for strike in scenario.strikes].count(theme) >= 2
        assert scenario.brokers > 1 or theme not in NEEDS_BROKERS
        struck.add(theme)
    assert struck == set(FAULTS)


def test_brokers_are_of_any_release_that_knows_the_groups_protocol() -> None:
    drawn = [draw(seed) for seed in range(200)]
    assert {scenario.release for scenario in drawn if scenario.protocol == "classic"} == set(RELEASES)
    assert {scenario.release for scenario in drawn if scenario.protocol == "consumer"} == {LATEST.name}


def test_a_fault_that_nobody_asked_for_stays_away() -> None:
    drawn = draw(1)
    kinds = tuple(sorted({strike.fault for strike in drawn.strikes}))
    assert {strike.fault for strike in draw(1, kinds[:1]).strikes} == set(kinds[:1])
    assert draw(1, ()).strikes == ()
    assert replace(draw(1, ()), strikes=drawn.strikes) == drawn, "the rest of the world is as it was"


# --- planted bugs --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_bug_that_forgets_records_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector throws what every fourth collect finds away, and goes on behind it."""
    collect, calls = FetchCollector.collect, 0

    def forgetful(
        self: FetchCollector[bytes, bytes],
        view: AssignmentView,
        into: list[Collected[bytes, bytes]],
        max_records: int,
        now_ms: float,
        max_bytes: float | None = None,
    ) -> None:
        nonlocal calls
        collect(self, view, into, max_records, now_ms, max_bytes)
        calls += bool(into)
        if into and calls % 4 == 0:
            empty = [replace(entry.chunk, columns=entry.chunk.columns.slice(0, 0)) for entry in into]
            into[:] = map(Collected.of, empty)

    monkeypatch.setattr(FetchCollector, "collect", forgetful)
    rules = {violation.rule for violation in outcome_of(small(), monkeypatch).violations}
    assert rules & {"lost-write", "unseen"}
    assert "poll-skip" in rules


@pytest.mark.slow
def test_a_bug_that_commits_what_was_not_handed_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the application is noted to have seen is a record further than it is."""
    so_far = Delivery.so_far

    def hasty(self: Delivery[bytes, bytes]) -> list[Delivered]:
        handed_out = so_far(self)
        return [(tp, epoch, replace(position, offset=position.offset + 1)) for tp, epoch, position in handed_out]

    monkeypatch.setattr(Delivery, "so_far", hasty)
    assert "commit-ahead" in {violation.rule for violation in outcome_of(small(), monkeypatch).violations}


@pytest.mark.slow
@pytest.mark.parametrize(("reset", "rule"), [("earliest", "redelivered"), ("latest", "lost-write")])
def test_a_bug_that_overlooks_commits_is_found(reset: str, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that are looked up after the first three."""
    look, answered = offset_fetch._position, 0

    def overlooking(partition: offset_fetch._Answered) -> OffsetAndMetadata | None:
        nonlocal answered
        answered += 1
        return look(partition) if answered <= 3 else None

    monkeypatch.setattr(offset_fetch, "_position", overlooking)
    outcome = outcome_of(small("storm", habits=Habits(auto_offset_reset=reset)), monkeypatch)
    assert rule in {violation.rule for violation in outcome.violations}


@pytest.mark.slow
def test_a_bug_that_kills_the_network_side_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Subscription, *args: object, **kwargs: object) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(Subscription, "note_delivered", broken)
    rules = {violation.rule for violation in outcome_of(small(), monkeypatch).violations}
    assert "died" in rules


def test_only_worlds_of_large_seeds_know_compressed_batches_headers_and_floods() -> None:
    """Those of the others are what they were."""

    def shapes(seeds: Iterable[int]) -> set[tuple[Sequence[int], int, float]]:
        drawn = [draw_habits(seed, ()) for seed in seeds]
        return {(habits.codecs, habits.most_header_bytes, habits.floods) for habits in drawn}

    assert shapes((*range(1, 201), FIRST_WITH_SHAPES - 1)) == {((0,), 0, 0.0)}
    assert len(shapes(range(FIRST_WITH_SHAPES, FIRST_WITH_SHAPES + 100))) == 3 * 3 * 2


@pytest.mark.slow
def test_a_flood_of_compressed_batches_is_read_over_a_second_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: set[TopicPartition] = set()
    look = SecondFetch.misplaced

    def spy(self: SecondFetch, now_ms: float) -> Set[TopicPartition]:
        found = look(self, now_ms)
        moved.update(found)
        return found

    monkeypatch.setattr(SecondFetch, "misplaced", spy)
    habits = Habits(codecs=CODECS, most_header_bytes=30, floods=0.3, max_partition_fetch_bytes=300)
    outcome = outcome_of(small(brokers=1, topics=(4,), members=1, processing_ms=0.0, habits=habits), monkeypatch)
    assert outcome.violations == (), story(outcome)
    assert len(moved) >= 2
