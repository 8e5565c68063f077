"""While a run goes on: what is unread, however late the producer hears of it, and whatever becomes of the log."""

from __future__ import annotations

import threading

import pytest

from kwire.model import TopicPartition
from kwire.testing.faults.tally import Tally
from kwire.testing.invariants.ledger import Event, Polled, Quiet, Removed, Sent, Truncated, Vanished

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def sent(offset: int, *, partition: TopicPartition = T0, value: str = "") -> Sent:
    return Sent(at_ms=1, partition=partition, offset=offset, value=value or f"{partition}@{offset}")


def polled(*offsets: int, partition: TopicPartition = T0) -> Polled:
    values = tuple(f"{partition}@{offset}" for offset in offsets)
    return Polled(at_ms=2, member="a", partition=partition, offsets=offsets, values=values)


def after(*events: Event) -> Tally:
    tally = Tally()
    for event in events:
        tally.take(event)
    return tally


def test_what_was_sent_is_unread_until_it_is_polled() -> None:
    tally = after(sent(0), sent(1), sent(0, partition=T1), polled(0), Quiet(at_ms=3))
    assert (tally.sent, tally.polled) == (3, 1)
    assert tally.unread() == {T0: 1, T1: 1}
    assert not tally.is_drained
    tally.take(polled(1))
    tally.take(polled(0, partition=T1))
    assert tally.unread() == {}
    assert tally.is_drained


def test_a_member_may_be_quicker_than_the_acknowledgement() -> None:
    assert after(polled(0), sent(0)).is_drained


def test_what_comes_again_counts_as_polled_and_changes_nothing_else() -> None:
    tally = after(sent(0), polled(0), polled(0))
    assert (tally.sent, tally.polled, tally.is_drained) == (1, 2, True)


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (Removed(at_ms=3, partition=T0, before=2), 1),
        (Truncated(at_ms=3, partition=T0, to=1), 1),
        (Vanished(at_ms=3, partition=T0, offsets=(0, 2)), 1),
        (Removed(at_ms=3, partition=T1, before=2), 3),
    ],
)
def test_what_is_gone_from_the_log_is_not_waited_for(change: Event, left: int) -> None:
    assert after(sent(0), sent(1), sent(2), change).unread() == {T0: left}


def test_an_acknowledgement_that_comes_after_the_removal_is_of_no_interest() -> None:
    assert after(Removed(at_ms=3, partition=T0, before=2), sent(1)).is_drained


def test_a_log_that_begins_anew_is_waited_for_from_its_start() -> None:
    anew = (Removed(at_ms=3, partition=T0, before=2), Truncated(at_ms=4, partition=T0, to=0), sent(0))
    assert after(*anew).unread() == {T0: 1}


def test_whoever_waits_is_told_when_it_is_drained() -> None:
    tally = after(sent(0))
    assert not tally.wait_drained(0.0)
    reader = threading.Timer(0.0, lambda: tally.take(polled(0)))
    reader.start()
    assert tally.wait_drained(10.0)
    reader.join()


def test_who_catches_up_need_not_read_what_is_sent_meanwhile() -> None:
    tally = after(sent(0), sent(1), sent(0, partition=T1), polled(0))
    marks = tally.marks()
    assert marks == {T0: 1, T1: 0}
    for event in (sent(2), polled(1)):
        tally.take(event)
        assert not tally.wait_reached(marks, 0.0)
    reader = threading.Timer(0.0, lambda: tally.take(polled(0, partition=T1)))
    reader.start()
    assert tally.wait_reached(marks, 10.0)
    reader.join()
    assert tally.unread() == {T0: 1}


def test_who_has_left_something_out_has_caught_up_all_the_same() -> None:
    tally = after(sent(0), sent(1))
    marks = tally.marks()
    tally.take(polled(1))
    assert tally.wait_reached(marks, 0.0)
    assert not tally.is_drained
