"""Rules about what applications do beside polling, about handing over, and about a group at rest: each finds what
breaks it, and leaves alone what only looks like it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.model import TopicPartition
from kwire.testing.invariants import Ledger, check
from kwire.testing.invariants.ledger import (
    Assigned,
    Calm,
    Closed,
    Closing,
    CommitArrived,
    FaultBegan,
    JoinedAnew,
    Lost,
    Paused,
    Polled,
    Processed,
    Raised,
    Removed,
    Resumed,
    Revoked,
    Sent,
    Sought,
    Started,
    Stored,
    Truncated,
)

if TYPE_CHECKING:
    from kwire.testing.invariants.ledger import Event

T0 = TopicPartition("t", 0)


def sent(offset: int, at: float = 0.0) -> Sent:
    return Sent(at_ms=at, partition=T0, offset=offset, value=f"v{offset}")


def polled(*offsets: int, member: str = "a", at: float = 100.0) -> Polled:
    values = tuple(f"v{offset}" for offset in offsets)
    return Polled(at_ms=at, member=member, partition=T0, offsets=offsets, values=values)


def started(member: str = "a", *, by_itself: bool = True) -> Started:
    return Started(
        at_ms=0.0,
        member=member,
        session_timeout_ms=10_000.0,
        tells_processing=True,
        commits_on_revoke=True,
        commits_by_itself=by_itself,
    )


def assigned(member: str = "a", at: float = 50.0) -> Assigned:
    return Assigned(at_ms=at, member=member, partitions=(T0,))


def revoked(member: str = "a", at: float = 500.0) -> Revoked:
    return Revoked(at_ms=at, member=member, partitions=(T0,))


def stored(offset: int | None, end: int = 3, at: float = 600.0) -> Stored:
    return Stored(at_ms=at, partition=T0, offset=offset, end=end)


def sought(offset: int, at: float = 200.0) -> Sought:
    return Sought(at_ms=at, member="a", partition=T0, offset=offset)


def rules(*events: Event) -> list[str]:
    return [violation.rule for violation in check(Ledger(list(events)))]


BEGIN = (started(), sent(0), sent(1), sent(2), assigned())
LOST = Lost(at_ms=500.0, member="a", partitions=(T0,))
FAULT = FaultBegan(at_ms=10.0, fault="storm", detail="")
CALM, CLOSING = Calm(at_ms=1_000.0), Closing(at_ms=20_000.0)


# --- what applications do ---------------------------------------------------------------------------------------


def test_a_commit_of_records_that_the_application_is_busy_with() -> None:
    commit = CommitArrived(at_ms=150.0, member="a", partition=T0, offset=2)
    processed = Processed(at_ms=120.0, member="a")
    assert rules(*BEGIN, polled(0, 1), commit) == ["commit-unprocessed"]
    assert rules(*BEGIN, polled(0, 1), processed, commit) == []
    assert rules(*BEGIN, polled(0, 1), processed, polled(2), commit) == []


def test_a_seek_allows_any_position_and_no_other() -> None:
    assert rules(*BEGIN, polled(0, 1), sought(0), polled(0)) == []
    assert rules(*BEGIN, polled(0, 1), sought(1), polled(0)) == ["nonmonotonic-poll"]
    assert rules(*BEGIN, polled(0, 1), sought(0), polled(2)) == ["poll-skip"]


def test_a_paused_partition_is_not_polled_until_it_is_resumed() -> None:
    paused = Paused(at_ms=110.0, member="a", partition=T0)
    resumed = Resumed(at_ms=120.0, member="a", partition=T0)
    assert rules(*BEGIN, polled(0), paused, polled(1)) == ["paused-poll"]
    assert rules(*BEGIN, polled(0), paused, resumed, polled(1)) == []
    assert rules(*BEGIN, polled(0), paused, revoked(at=130.0), assigned(at=140.0), polled(0)) == []


# --- where assignments begin, and what comes in pairs -------------------------------------------------------------


@pytest.mark.parametrize(
    ("committed", "first", "found"),
    [(1, 1, []), (2, 1, ["redelivered"]), (1, 2, ["begins-too-late"]), (None, 0, []), (None, 1, ["begins-too-late"])],
)
def test_an_assignment_begins_where_the_commits_end(committed: int | None, first: int, found: list[str]) -> None:
    begin = (started(), sent(0), sent(1), sent(2), FAULT, stored(committed, at=40.0), assigned())
    assert rules(*begin, polled(first)) == found


def test_an_assignment_may_begin_elsewhere_after_a_seek_or_where_records_are_gone() -> None:
    begin = (started(), sent(0), sent(1), sent(2), FAULT)
    assert rules(*begin, stored(2, at=40.0), assigned(), sought(0, at=60.0), polled(0)) == []
    assert rules(*begin, Removed(at_ms=30.0, partition=T0, before=2), stored(1, at=40.0), assigned(), polled(2)) == []
    assert rules(*begin, Truncated(at_ms=30.0, partition=T0, to=2), stored(3, at=40.0), assigned(), polled(0)) == []


def test_what_is_revoked_is_committed_while_nothing_is_wrong() -> None:
    handed_over = (polled(0, 1), revoked(), stored(1), assigned("b", at=600.0))
    assert rules(*BEGIN, *handed_over) == ["handed-over-twice"]
    assert rules(FAULT, *BEGIN, *handed_over) == []
    assert rules(*BEGIN, polled(0, 1), revoked(), stored(2), assigned("b", at=600.0)) == []


def test_nobody_is_given_what_another_one_has_while_nothing_is_wrong() -> None:
    both = (stored(0), assigned("b", at=600.0))
    assert rules(*BEGIN, *both) == ["two-owners"]
    assert rules(FAULT, *BEGIN, *both) == []
    assert rules(FAULT, *BEGIN, CALM, CLOSING, stored(0), assigned("b", at=21_000.0)) == ["two-owners"]
    assert rules(*BEGIN, revoked(), *both) == []


def test_callbacks_come_in_pairs() -> None:
    closed = Closed(at_ms=600.0, member="a", took_ms=1.0, timeout_ms=5_000.0)
    assert rules(*BEGIN, assigned(at=60.0)) == ["assigned-twice"]
    assert rules(*BEGIN, revoked(), revoked()) == ["revoked-twice"]
    assert rules(*BEGIN, closed) == ["never-revoked"]
    assert rules(*BEGIN, LOST) == ["lost-for-nothing"]
    assert rules(FAULT, *BEGIN, LOST, closed) == []


def test_who_joins_anew_holds_nothing() -> None:
    anew = JoinedAnew(at_ms=700.0, member="a")
    assert rules(started(), JoinedAnew(at_ms=1.0, member="a"), assigned()) == []
    assert rules(*BEGIN, anew) == ["joins-holding"]
    assert rules(*BEGIN, revoked(), anew) == []
    assert rules(FAULT, *BEGIN, LOST, anew) == []


# --- a group at rest ------------------------------------------------------------------------------------------------


def test_a_record_of_the_calm_is_polled_at_once() -> None:
    begin = (started(), assigned(), CALM, sent(0, at=2_000.0))
    assert rules(*begin, polled(0, at=2_500.0)) == []
    assert rules(*begin, polled(0, at=3_500.0)) == ["late"]
    assert rules(*BEGIN, polled(0, 1, 2, at=30_000.0)) == [], "who knows what was wrong"


@pytest.mark.parametrize(
    "event",
    [
        revoked(at=3_000.0),
        Assigned(at_ms=3_000.0, member="a", partitions=()),
        Raised(at_ms=3_000.0, member="a", call="poll", error="KafkaTimeoutError", message=""),
    ],
    ids=["revoked", "assigned", "raised"],
)
def test_nothing_happens_in_the_calm(event: Event) -> None:
    assert rules(*BEGIN, CALM, event) == ["restless"]
    assert rules(*BEGIN, CALM, CLOSING, event) == []
    assert rules(*BEGIN, event) == []


def test_commits_keep_up_with_what_was_polled() -> None:
    drained = (*BEGIN, polled(0, 1, 2), CALM)
    assert rules(*drained, stored(3, at=15_000.0), CLOSING) == []
    assert rules(*drained, stored(2, at=15_000.0), CLOSING) == ["commit-behind"]
    assert rules(*drained, CLOSING, stored(2, at=21_000.0)) == ["commit-behind"]
    by_hand = (started(by_itself=False), sent(0), assigned(), polled(0), CALM)
    assert rules(*by_hand, stored(0, at=15_000.0), CLOSING, stored(1, at=21_000.0)) == []


def test_closing_takes_no_time_when_nothing_is_wrong() -> None:
    closed = Closed(at_ms=24_000.0, member="a", took_ms=4_000.0, timeout_ms=5_000.0)
    assert rules(*BEGIN, CALM, CLOSING, revoked(at=21_000.0), closed) == ["close-slow"]
    assert rules(*BEGIN, revoked(), closed) == []
