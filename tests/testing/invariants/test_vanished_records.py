"""Records that a log has lost in its middle: nobody has to read them, and who skips them has skipped nothing."""

from __future__ import annotations

from kwire.model import TopicPartition
from kwire.testing.invariants import Ledger, check
from kwire.testing.invariants.ledger import Assigned, Closed, Ended, Event, Polled, Revoked, Sent, Started, Vanished
from kwire.testing.invariants.words import words

T0 = TopicPartition("t", 0)


def rules_broken(vanished: tuple[Event, ...]) -> list[str]:
    """By a group that reads offsets 0, 1 and 4 of five."""
    sent: list[Event] = [Sent(at_ms=float(n), partition=T0, offset=n, value=f"v{n}") for n in range(5)]
    read: list[Event] = [Polled(at_ms=20, member="a", partition=T0, offsets=(0, 1, 4), values=("v0", "v1", "v4"))]
    begin: list[Event] = [
        Started(at_ms=6, member="a", session_timeout_ms=1e4),
        Assigned(at_ms=7, member="a", partitions=(T0,)),
    ]
    end: list[Event] = [
        Revoked(at_ms=30, member="a", partitions=(T0,)),
        Closed(at_ms=31, member="a", took_ms=1, timeout_ms=9),
        Ended(at_ms=40),
    ]
    return [violation.rule for violation in check(Ledger([*sent, *begin, *vanished, *read, *end]))]


def test_who_skips_what_has_vanished_has_done_nothing_wrong() -> None:
    assert rules_broken((Vanished(at_ms=10, partition=T0, offsets=(2, 3)),)) == []


def test_what_is_still_there_has_to_be_read() -> None:
    assert rules_broken(()) == ["poll-skip", "lost-write"]
    assert rules_broken((Vanished(at_ms=10, partition=T0, offsets=(2,)),)) == ["poll-skip", "lost-write"]


def test_it_is_told_in_words() -> None:
    vanished = Vanished(at_ms=10, partition=T0, offsets=(2, 3))
    assert words(vanished) == "t-0 has lost 2 records from 2 on"
