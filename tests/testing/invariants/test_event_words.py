"""Events that matter to a story have words; what goes on all the time has none."""

from __future__ import annotations

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import (
    Assigned,
    Closed,
    Committed,
    Event,
    FaultBegan,
    FaultEnded,
    Killed,
    Lost,
    Quiet,
    Raised,
    Removed,
    Sent,
    Truncated,
)
from kwire.testing.invariants.words import words

T0 = TopicPartition("t", 0)


def test_what_befell_members_faults_and_logs_is_told() -> None:
    told: dict[Event, str | None] = {
        Assigned(at_ms=1, member="a", partitions=(T0, TopicPartition("t", 1))): "a assigned t-0, t-1",
        Lost(at_ms=1, member="a", partitions=()): "a lost nothing",
        Raised(at_ms=1, member="a", call="poll", error="E", message="why"): "a poll raised E: why",
        Closed(at_ms=1, member="a", took_ms=1.6, timeout_ms=9): "a closed in 2 ms",
        Killed(at_ms=1, member="a"): "a killed",
        FaultBegan(at_ms=1, fault="latency", detail="all"): "FAULT latency: all",
        FaultEnded(at_ms=1, fault="latency"): "HEALED latency",
        Removed(at_ms=1, partition=T0, before=7): "t-0 begins at 7",
        Truncated(at_ms=1, partition=T0, to=5): "t-0 truncated to 5",
        Quiet(at_ms=1): "QUIET",
    }
    assert {event: words(event) for event in told} == told


def test_sending_and_committing_go_without_saying() -> None:
    assert words(Sent(at_ms=1, partition=T0, offset=0, value="v")) is None
    assert words(Committed(at_ms=1, member="a", partition=T0, offset=0)) is None
