"""Members with two cursors: good histories pass, and each broken promise is named. The plain rules stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.model import TopicPartition
from kwire.testing.invariants import Ledger, check
from kwire.testing.invariants.catching_up import CHILD, MAIN
from kwire.testing.invariants.ledger import (
    Assigned,
    Committed,
    Ended,
    FaultBegan,
    Killed,
    LowWater,
    Polled,
    Removed,
    Revoked,
    Sent,
    Started,
    Truncated,
)
from kwire.testing.invariants.lines import events_of

if TYPE_CHECKING:
    from kwire.testing.invariants.ledger import Event

T0 = TopicPartition("t", 0)
LAG = 3
ASSIGNED_MS = 50_000.0


def sent(offset: int, at: float = 0.0) -> Sent:
    return Sent(at_ms=at, partition=T0, offset=offset, value=f"v{offset}")


def polled(cursor: str, *offsets: int, member: str = "a") -> Polled:
    values = tuple(f"v{offset}" for offset in offsets)
    return Polled(at_ms=ASSIGNED_MS + 10, member=member, partition=T0, offsets=offsets, values=values, cursor=cursor)


def committed(cursor: str, offset: int, member: str = "a") -> Committed:
    return Committed(at_ms=ASSIGNED_MS + 20, member=member, partition=T0, offset=offset, cursor=cursor)


def low_water(offset: int, member: str = "a") -> LowWater:
    return LowWater(at_ms=ASSIGNED_MS + 30, member=member, partition=T0, offset=offset)


def begins(member: str = "a") -> tuple[Event, Event]:
    return (
        Started(at_ms=0.0, member=member, session_timeout_ms=6_000.0, catches_up_from=LAG),
        Assigned(at_ms=ASSIGNED_MS, member=member, partitions=(T0,)),
    )


def killed(member: str = "a") -> Killed:
    return Killed(at_ms=ASSIGNED_MS + 40, member=member)


def revoked(member: str = "a") -> Revoked:
    return Revoked(at_ms=ASSIGNED_MS + 40, member=member, partitions=(T0,))


def rules(*events: Event) -> list[str]:
    """Of a run in which something goes wrong, and whose last event is its end: nobody is left then."""
    fault = FaultBegan(at_ms=0.0, fault="storm", detail="")
    left = [killed(event.member) for event in events if isinstance(event, Started)]
    return [violation.rule for violation in check(Ledger([fault, *events[:-1], *left, events[-1]]))]


# A lag of ten, and two records that come when the partition has been assigned.
LOG = (*map(sent, range(10)), sent(10, ASSIGNED_MS), sent(11, ASSIGNED_MS))
END = Ended(at_ms=ASSIGNED_MS * 2)
CAUGHT_UP = (
    *LOG,
    *begins(),
    polled(MAIN, 10),
    polled(CHILD, 0, 1, 2, 3),
    committed(CHILD, 4),
    committed(MAIN, 11),
    low_water(4),
)


def test_a_lag_that_is_caught_up_with_beside_the_newest() -> None:
    assert rules(*CAUGHT_UP, polled(CHILD, *range(4, 10)), polled(MAIN, 11), low_water(10), END) == []


def test_the_next_owner_goes_on_with_what_neither_cursor_had_committed() -> None:
    newest = (sent(12), sent(13, ASSIGNED_MS))
    story = (*CAUGHT_UP, polled(CHILD, 4, 5), polled(MAIN, 11), killed(), *newest, *begins("b"))
    assert rules(*story, polled(CHILD, *range(4, 10), 11, 12, member="b"), polled(MAIN, 13, member="b"), END) == []


def test_what_the_child_had_committed_comes_again() -> None:
    story = (*CAUGHT_UP, killed(), *begins("b"))
    assert rules(*story, polled(CHILD, *range(3, 10), member="b"), polled(MAIN, 11, member="b"), END) == ["redelivered"]


def test_what_the_main_cursor_had_committed_comes_again() -> None:
    story = (*CAUGHT_UP, killed(), *begins("b"))
    assert rules(*story, polled(CHILD, *range(4, 11), member="b"), polled(MAIN, 11, member="b"), END) == ["redelivered"]


def test_what_was_committed_too_late_for_an_assignment_may_come_in_it() -> None:
    story = (*LOG, *begins(), polled(MAIN, 10), polled(CHILD, 0, 1), *begins("b"), committed(CHILD, 2))
    rest = (polled(CHILD, *range(10), member="b"), polled(MAIN, 10, 11, member="b"))
    assert rules(*story, *rest, END) == []


def test_a_commit_covers_the_range_that_it_lies_in_alone() -> None:
    """Of the one before the jump nothing was told to be committed: that comes again by right."""
    before = (*LOG, *begins("z"), polled(CHILD, 4, 5, member="z"), polled(MAIN, 10, 11, member="z"), killed("z"))
    story = (*before, sent(12), *begins(), polled(CHILD, 2, 3), polled(CHILD, 6, 7), committed(CHILD, 8), killed())
    rest = (*begins("b"), polled(CHILD, *range(6), 8, 9, member="b"), polled(MAIN, 12, member="b"))
    assert rules(*story, *rest, END) == []
    again = (*begins("b"), polled(CHILD, *range(10), member="b"), polled(MAIN, 12, member="b"))
    assert rules(*story, *again, END) == ["redelivered"]


def test_a_record_that_neither_cursor_gives() -> None:
    assert rules(*CAUGHT_UP, polled(MAIN, 11), polled(CHILD, 4, 6, 7, 8, 9), END) == ["poll-skip", "lost-write"]
    assert rules(*CAUGHT_UP, polled(MAIN, 11), polled(CHILD, *range(4, 9)), END) == ["lost-write"]


def test_a_main_cursor_leaves_nothing_to_others() -> None:
    story = (*LOG, sent(12, ASSIGNED_MS), *begins(), polled(CHILD, *range(10)), polled(MAIN, 10), polled(MAIN, 12))
    assert rules(*story, killed(), *begins("b"), polled(CHILD, 11, member="b"), END) == ["poll-skip"]


def test_a_child_goes_back() -> None:
    story = (*LOG, *begins(), polled(MAIN, 10, 11), polled(CHILD, *range(5, 10)), polled(CHILD, *range(5)), END)
    assert rules(*story) == ["nonmonotonic-poll"]


def test_an_offset_comes_by_both_cursors() -> None:
    found = rules(*CAUGHT_UP, polled(CHILD, *range(4, 11)), polled(MAIN, 11), END)
    assert found == ["overlap", "ranges-overlap"]


def test_a_child_reads_what_is_the_main_cursors() -> None:
    story = (*LOG, *begins(), polled(CHILD, *range(12)), polled(MAIN, 10), END)
    assert rules(*story) == ["overlap", "ranges-overlap"]


def test_the_newest_wait_for_a_lag() -> None:
    one_done = (*LOG, *begins("z"), polled(MAIN, 0, member="z"), committed(MAIN, 1, member="z"), killed("z"))
    assert rules(*one_done, *begins(), polled(MAIN, *range(1, 12)), END) == ["newest-late"]


def test_where_nothing_is_committed_all_is_read_in_order() -> None:
    assert rules(*LOG, *begins(), polled(MAIN, *range(12)), END) == []


def test_what_is_no_lag_is_read_in_order() -> None:
    few = (*map(sent, range(LAG)), sent(LAG, ASSIGNED_MS))
    one_done = (*few, *begins("z"), polled(MAIN, 0, member="z"), committed(MAIN, 1, member="z"), killed("z"))
    assert rules(*one_done, *begins(), polled(MAIN, *range(1, LAG + 1)), END) == []


def test_the_groups_offset_is_ahead_of_what_anybody_was_given() -> None:
    story = (*CAUGHT_UP, low_water(5), polled(CHILD, *range(4, 10)), polled(MAIN, 11), END)
    assert rules(*story) == ["low-water-ahead"]


def test_the_low_water_mark_may_pass_what_retention_took() -> None:
    gone = Removed(at_ms=ASSIGNED_MS + 25, partition=T0, before=8)
    assert rules(*CAUGHT_UP, gone, low_water(8), polled(CHILD, 8, 9), polled(MAIN, 11), END) == []


def test_a_commit_of_a_cursor_is_ahead_of_it() -> None:
    rest = (polled(CHILD, *range(4, 10)), polled(MAIN, 11), END)
    assert rules(*CAUGHT_UP, committed(CHILD, 9), *rest) == ["commit-ahead"]
    assert rules(*LOG, *begins(), polled(MAIN, 10), committed(CHILD, 11), polled(CHILD, *range(10)), *rest[1:]) == [
        "commit-ahead"
    ]


def test_who_has_given_a_partition_away_reads_and_commits_nothing_of_it() -> None:
    story = (*CAUGHT_UP, polled(CHILD, *range(4, 10)), polled(MAIN, 11), revoked())
    assert rules(*story, polled(MAIN, 11), committed(MAIN, 12), END) == ["not-assigned", "commit-not-owned"]


def test_a_log_that_was_cut_makes_commits_void() -> None:
    cut = Truncated(at_ms=ASSIGNED_MS + 35, partition=T0, to=2)
    anew = (sent(2, ASSIGNED_MS), sent(3, ASSIGNED_MS))
    assert rules(*CAUGHT_UP, cut, killed(), *anew, *begins("b"), polled(MAIN, 0, 1, 2, 3, member="b"), END) == []


def test_a_history_keeps_the_cursors_and_that_of_others_is_as_it_was() -> None:
    ledger = Ledger(list(CAUGHT_UP))
    assert list(events_of(ledger.lines())) == ledger.events
    plain = Ledger([Polled(at_ms=1.0, member="a", partition=T0, offsets=(1,), values=("v",))])
    assert list(plain.lines()) == [
        '{"event":"Polled","at_ms":1.0,"member":"a","partition":"t-0","offsets":[1],"values":["v"]}'
    ]
