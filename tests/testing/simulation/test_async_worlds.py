"""Worlds whose members use an `AsyncConsumer`: polls are cancelled, tasks commit beside them, and a loss is found."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from kwire.consumer.async_consumer import AsyncConsumer
from kwire.consumer_events import (
    BrokerReachable,
    BrokerUnreachable,
    ConsumerEvent,
    DataLost,
    HeartbeatsUnanswered,
    LagExceeded,
    RebalanceBegan,
    RebalanceEnded,
)
from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import CommitArrived, Polled
from kwire.testing.invariants.user_events import UserCodeRaised
from kwire.testing.simulation import run
from kwire.testing.simulation.drawing import draw, with_async_consumers
from kwire.testing.simulation.habits import AsyncHabits, Habits, draw_async_habits
from kwire.testing.simulation.member import SimulatedMember
from kwire.testing.simulation.run import WorldOutcome, simulate
from kwire.testing.simulation.story import story

pytestmark = pytest.mark.usefixtures("without_logs")


def outcome_of(habits: AsyncHabits, monkeypatch: pytest.MonkeyPatch, **changes: object) -> WorldOutcome:
    """Of a world in which nothing else goes wrong."""
    quiet = replace(draw(1, ()), busy_ms=15_000.0, members=2, records_per_second=20.0, habits=Habits())
    scenario = replace(quiet, async_habits=habits, **changes)  # type: ignore[arg-type]  # fields, by name
    monkeypatch.setattr(run, "with_async_consumers", lambda _drawn: scenario)
    return simulate(1, (), async_consumer=True)


def test_each_habit_is_drawn_and_a_seed_keeps_its_faults() -> None:
    drawn = [draw_async_habits(seed) for seed in range(50)]
    assert {each.besides for each in drawn} == {0, 1, 3}
    assert len({each.cancels for each in drawn}) == 3
    assert replace(with_async_consumers(draw(7)), async_habits=None) == draw(7)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("committing", ["auto", "sync", "async"])
def test_polls_are_cancelled_while_tasks_commit_and_all_is_well(
    protocol: str, committing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = outcome_of(
        AsyncHabits(cancels=0.6, besides=3), monkeypatch, protocol=protocol, committing=committing, poll_seconds=0.5
    )
    assert outcome.violations == (), story(outcome)
    assert len([event for event in outcome.ledger.of(UserCodeRaised) if event.place == "task"]) > 10
    assert sum(len(event.offsets) for event in outcome.ledger.of(Polled)) >= 100
    assert next(outcome.ledger.of(CommitArrived), None) is not None


@pytest.mark.slow
def test_a_seed_is_the_same_run_each_time() -> None:
    assert simulate(3, async_consumer=True).digest == simulate(3, async_consumer=True).digest


@pytest.mark.slow
def test_a_task_that_finishes_the_records_of_another_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks something up, and what the other one is still at counts as processed."""

    async def come_back_first(consumer: AsyncConsumer[bytes, bytes], _partition: TopicPartition) -> None:
        consumer._session.state.note_delivered()

    monkeypatch.setattr(AsyncConsumer, "current_lag", come_back_first)
    outcome = outcome_of(AsyncHabits(cancels=0.0, besides=3), monkeypatch, committing="auto", processing_ms=3_000.0)
    assert "commit-unprocessed" in {violation.rule for violation in outcome.violations}


@pytest.mark.slow
@pytest.mark.parametrize("async_consumer", [False, True], ids=["Consumer", "AsyncConsumer"])
def test_operators_are_told_of_a_worlds_troubles_and_nobody_minds(
    async_consumer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members are frozen, logs truncated, brokers killed. Of the async ones seed 9 once found a lost record: a task had
    committed an offset without its leader epoch, and the next owner could not see that the log was cut."""
    told: Counter[type[ConsumerEvent]] = Counter()
    settings = SimulatedMember._settings

    def with_listener(member: SimulatedMember) -> dict[str, object]:
        return settings(member) | {"on_event": lambda event: told.update([type(event)]), "event_lag_records": 10}

    monkeypatch.setattr(SimulatedMember, "_settings", with_listener)
    for seed in (5, 9):
        assert simulate(seed, async_consumer=async_consumer).violations == ()
    assert told.keys() >= {RebalanceBegan, RebalanceEnded, HeartbeatsUnanswered, LagExceeded, DataLost}
    assert told[BrokerUnreachable] >= told[BrokerReachable] > 0
