"""What counts as standing still, and what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.testing.faults.report.progress import Standstill, follow
from kwire.testing.invariants.ledger import Ended, Paused, Polled, Removed, Resumed, Sent, Truncated

if TYPE_CHECKING:
    from kwire.testing.faults.report.progress import Track
    from kwire.testing.invariants.ledger import Event
    from tests.testing.faults.report.report_run import T0, T1, assigned, killed, ledger, polled, sent, started
else:
    from report_run import T0, T1, assigned, killed, ledger, polled, sent, started

END = Ended(at_ms=1_000)


def track(*events: Event | list[Event]) -> Track:
    return follow(ledger(started(), *events, END), bins=10)[T0]


def test_a_partition_stands_still_from_its_first_unread_record_until_it_moves() -> None:
    found = track(sent(100, 0, 1), polled(150, 0), polled(400, 1), sent(500, 2))
    assert found.standstills == [Standstill(100, 150, 2), Standstill(150, 400, 1), Standstill(500, None, 1)]
    assert list(found.unread) == [2]


def test_records_that_come_again_do_not_count_as_moving() -> None:
    found = track(sent(100, 0, 1), polled(150, 0), polled(200, 0), polled(300, 1))
    assert found.standstills == [Standstill(100, 150, 2), Standstill(150, 300, 1)]
    assert (found.sent_records, found.delivered_records) == (2, 2)


def test_a_record_may_be_polled_before_its_producer_knows_that_it_is_sent() -> None:
    found = track(polled(90, 0), sent(100, 0))
    assert not found.unread
    assert found.standstills == []


def test_nobody_is_blamed_for_what_waited_before_the_first_member_started() -> None:
    found = follow(ledger(sent(100, 0), started(300), polled(350, 0), started(400, "b"), END), bins=10)[T0]
    assert found.standstills == [Standstill(300, 350, 1)]


def test_what_the_application_has_paused_is_not_waited_for() -> None:
    pause, resume = Paused(at_ms=120, member="a", partition=T0), Resumed(at_ms=700, member="a", partition=T0)
    found = track(sent(100, 0), pause, sent(200, 1), resume, polled(710, 0, 1))
    assert found.standstills == [Standstill(100, 120, 1), Standstill(700, 710, 2)]
    drained = track(sent(100, 0), polled(110, 0), pause, sent(200, 1))
    assert drained.standstills == [Standstill(100, 110, 1)]


def test_a_pause_ends_with_the_assignment_and_with_the_member() -> None:
    pause = Paused(at_ms=120, member="a", partition=T0)
    assert track(sent(100, 0), pause, assigned(300)).standstills[1:] == [Standstill(300, None, 1)]
    assert track(sent(100, 0), pause, killed(400)).standstills[1:] == [Standstill(400, None, 1)]


def test_what_retention_has_taken_is_not_unread_any_more() -> None:
    found = track(sent(100, 0, 1, 2), polled(150, 0), Removed(at_ms=300, partition=T0, before=3))
    assert found.standstills == [Standstill(100, 150, 3), Standstill(150, 300, 2)]
    assert (found.gone_unread, found.unread) == (2, {})


def test_a_record_that_was_sent_and_removed_between_two_looks_at_the_log_is_not_waited_for() -> None:
    """Its removal is written as of the look before, and so stands in front of it."""
    removed = Removed(at_ms=300, partition=T0, before=3)
    found = track(sent(100, 0), polled(150, 0), removed, sent(350, 1, 2, 3), polled(400, 3))
    assert (found.gone_unread, found.unread) == (2, {})
    assert found.standstills == [Standstill(100, 150, 1), Standstill(350, 400, 1)]


def test_what_was_handed_out_after_all_is_not_gone_unread() -> None:
    """It was in a consumer's buffer when the log lost it."""
    found = track(sent(100, 0, 1), Removed(at_ms=200, partition=T0, before=2), polled(250, 0, 1))
    assert (found.gone_unread, found.sent_records, found.delivered_records) == (0, 2, 2)


def test_a_topic_that_was_recreated_begins_at_the_start() -> None:
    removed, cut = Removed(at_ms=200, partition=T0, before=2), Truncated(at_ms=300, partition=T0, to=0)
    anew = Sent(at_ms=400, partition=T0, offset=0, value="another")
    found = track(sent(100, 0, 1), polled(150, 0, 1), removed, cut, anew)
    assert found.unread == {0: "another"}


def test_offsets_of_a_truncated_log_are_given_out_anew() -> None:
    cut = Truncated(at_ms=200, partition=T0, to=1)
    anew = Sent(at_ms=300, partition=T0, offset=1, value="another")
    read = Polled(at_ms=350, member="a", partition=T0, offsets=(1,), values=("another",))
    found = track(sent(100, 0, 1, 2), polled(150, 0, 1), cut, anew, read)
    assert (found.gone_unread, found.sent_records, found.delivered_records) == (1, 4, 3)
    assert found.standstills == [Standstill(100, 150, 3), Standstill(150, 200, 1), Standstill(300, 350, 1)]


def test_a_record_of_the_old_log_does_not_stand_for_the_one_that_has_its_offset_now() -> None:
    """It was buffered when the log was cut, and handed out afterwards."""
    cut = Truncated(at_ms=200, partition=T0, to=1)
    anew = Sent(at_ms=300, partition=T0, offset=1, value="another")
    found = track(sent(100, 0, 1), polled(150, 0), cut, polled(250, 1), anew)
    assert found.unread == {1: "another"}
    assert found.standstills[-1] == Standstill(300, None, 1)


def test_standstills_are_found_by_a_moment_in_them() -> None:
    found = track(sent(100, 0), polled(200, 0), sent(300, 1), polled(400, 1), sent(500, 2))
    first, second, third = found.standstills
    assert found.stood_still_at(150, 0) == [first]
    assert found.stood_still_at(200, 0) == []
    assert found.stood_still_at(200, 100) == [second]
    assert found.stood_still_at(0, 1_000) == [first, second, third]
    assert found.stood_still_at(9_999, 0) == [third]


def test_the_curves_tell_the_end_of_each_bin_and_the_largest_lag_in_it() -> None:
    found = track(sent(110, 0, 1, 2), polled(120, 0, 1), sent(350, 3), polled(360, 2, 3))
    told = [(level.sent, level.delivered, level.most_unread) for level in found.levels]
    assert told == [(0, 0, 0), (3, 2, 3), (3, 2, 1), (4, 4, 2), *[(4, 4, 0)] * 6]


def test_partitions_come_in_order() -> None:
    tracks = follow(ledger(sent(1, 0, partition=T1), sent(2, 0), END))
    assert list(tracks) == [T0, T1]
