"""What a processor must have done: each rule over a ledger that keeps it, and over one that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwire.model import TopicPartition
from kwire.testing.invariants import Ledger
from kwire.testing.invariants.handling import (
    commits_follow_handling,
    everything_is_handled,
    lanes_keep_their_order,
    nothing_finished_runs_again,
    one_pair_of_hands,
)
from kwire.testing.invariants.handling_calm import (
    commits_keep_up_with_handling,
    counts_come_to_nothing,
    handling_recovers,
    nobody_waits_for_the_slow,
)
from kwire.testing.invariants.handling_events import (
    AskedForCommits,
    HandlingBegan,
    HandlingEnded,
    Lined,
    MapArrived,
    ProcessorEnded,
    ProcessorStarted,
    StatusSeen,
    StoredMap,
)
from kwire.testing.invariants.ledger import (
    Assigned,
    Calm,
    Closing,
    Ended,
    Event,
    FaultBegan,
    Killed,
    Lost,
    Polled,
    Quiet,
    Raised,
    Removed,
    Revoked,
    Sent,
    Started,
    Stored,
    Truncated,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
RULES = (
    everything_is_handled,
    commits_follow_handling,
    nothing_finished_runs_again,
    lanes_keep_their_order,
    one_pair_of_hands,
    handling_recovers,
    nobody_waits_for_the_slow,
    commits_keep_up_with_handling,
    counts_come_to_nothing,
)


def sent(*offsets: int, at: float = 0.0, partition: TopicPartition = T0) -> list[Event]:
    return [Sent(at_ms=at, partition=partition, offset=offset, value=f"{partition}:{offset}") for offset in offsets]


def started(member: str = "a", workers: int = 2) -> list[Event]:
    return [
        Started(at_ms=0.0, member=member, session_timeout_ms=1_000.0),
        ProcessorStarted(at_ms=0.0, member=member, processor=1, workers=workers),
    ]


def polled(*offsets: int, lanes: str | None = "k", member: str = "a", at: float = 10.0) -> list[Event]:
    values = tuple(f"{T0}:{offset}" for offset in offsets)
    return [
        Polled(at_ms=at, member=member, partition=T0, offsets=offsets, values=values),
        Lined(at_ms=at, member=member, partition=T0, offsets=offsets, lanes=(lanes,) * len(offsets)),
    ]


def began(offset: int, member: str = "a", at: float = 20.0, partition: TopicPartition = T0) -> Event:
    value = f"{partition}:{offset}"
    return HandlingBegan(at_ms=at, member=member, processor=1, partition=partition, offset=offset, value=value)


def ended(
    offset: int,
    member: str = "a",
    at: float = 30.0,
    partition: TopicPartition = T0,
    *,
    is_done: bool = True,
    is_passed_by: bool = False,
) -> Event:
    return HandlingEnded(
        at_ms=at,
        member=member,
        processor=1,
        partition=partition,
        offset=offset,
        value=f"{partition}:{offset}",
        is_done=is_done,
        is_passed_by=is_passed_by,
    )


def handled(*offsets: int, member: str = "a") -> list[Event]:
    return [event for offset in offsets for event in (began(offset, member), ended(offset, member))]


def arrived(offset: int, *finished: tuple[int, int]) -> Event:
    return MapArrived(at_ms=40.0, member="a", partition=T0, offset=offset, finished=finished)


def assigned(member: str, at: float = 5.0) -> Event:
    return Assigned(at_ms=at, member=member, partitions=(T0,))


def status(**wrong: int) -> Event:
    values = {"waiting": 0, "in_work": 0, "retrying": 0, "handled": 2, "skipped": 0, **wrong}
    return StatusSeen(at_ms=60.0, member="a", processor=1, paused=(), **values)


def rules(*events: Event) -> list[str]:
    ledger = Ledger(list(events))
    return [violation.rule for invariant in RULES for violation in invariant(ledger)]


END = Ended(at_ms=99_000.0)


def test_a_run_in_which_all_is_well() -> None:
    events = [*started(), *sent(0, 1), Quiet(at_ms=5.0), *polled(0, 1), *handled(0, 1), arrived(2), status(), END]
    assert rules(*events) == []


def test_without_a_processor_nothing_is_asked() -> None:
    assert rules(*sent(0, 1), Quiet(at_ms=5.0), Calm(at_ms=6.0), END) == []


def test_a_record_that_nobody_handled() -> None:
    events = [*started(), *sent(0, 1), *polled(0, 1), *handled(0)]
    assert rules(*events, END) == ["unhandled"]
    assert rules(*events, Removed(at_ms=50.0, partition=T0, before=2), END) == []
    later = [Closing(at_ms=50.0), *sent(2, at=60.0)]
    assert rules(*events, *handled(1), *later, END) == [], "who comes next handles that"


def test_a_record_that_is_handled_too_late() -> None:
    events = [*started(), *sent(0), Quiet(at_ms=5.0), *polled(0), began(0, at=80_000.0), ended(0, at=80_001.0)]
    assert rules(*events, END) == ["handling-recovery"]


@pytest.mark.parametrize(
    ("commit", "found"),
    [
        (arrived(1), []),
        (arrived(0, (0, 1)), []),
        (arrived(2), ["commit-unfinished"]),
        (arrived(1, (1, 2)), ["map-unfinished"]),
    ],
    ids=["as far as it is done", "as a map", "too far", "a map that says too much"],
)
def test_what_a_commit_says_is_done(commit: Event, found: list[str]) -> None:
    assert rules(*started(), *sent(0, 1), *polled(0, 1), *handled(0), began(1), commit) == found


def test_commits_of_a_log_that_was_cut_bind_nobody() -> None:
    events = [*started(), *sent(0, 1), *polled(0, 1), *handled(0), began(1)]
    assert rules(*events, Truncated(at_ms=35.0, partition=T0, to=1), arrived(2)) == []


def test_what_was_known_to_be_done_and_runs_again() -> None:
    known: list[Event] = [
        StoredMap(at_ms=50.0, partition=T0, offset=1, finished=((2, 3),)),
        AskedForCommits(at_ms=50.0, member="b", partitions=(T0,)),
    ]
    events = [*started(), *started("b"), *sent(0, 1, 2), *polled(0, 1, 2, lanes=None), *handled(0, 1, 2), *known]
    assert rules(*events, *handled(1, member="b")) == [], "it was not committed"
    assert rules(*events, *handled(0, member="b")) == ["handled-again"]
    assert rules(*events, *handled(2, member="b")) == ["handled-again"], "the map said so"
    assert rules(*events, Truncated(at_ms=55.0, partition=T0, to=2), *handled(0, member="b")) == []


def test_a_member_that_is_cut_off_may_do_again_what_its_successor_has_done() -> None:
    """It cannot know that it was expelled; the member that has the partition now is judged as ever."""
    events = [*started("a"), *started("b"), *sent(0, 1), assigned("a"), assigned("b", at=15.0), *handled(0, member="b")]
    asked: list[Event] = [
        StoredMap(at_ms=45.0, partition=T0, offset=1, finished=()),
        AskedForCommits(at_ms=45.0, member="a", partitions=(T0,)),
        AskedForCommits(at_ms=45.0, member="b", partitions=(T0,)),
    ]
    assert rules(*events, *asked, *handled(0, member="a")) == []
    assert rules(*events, *asked, *handled(0, member="b")) == ["handled-again"]
    assert rules(*events, *asked, assigned("a", at=50.0), *handled(0, member="a")) == ["handled-again"]


def test_a_record_that_overtakes_its_lane() -> None:
    begin = [*started(), *sent(0, 1)]
    assert rules(*begin, *polled(0, 1), began(1)) == ["out-of-order"]
    assert rules(*begin, *polled(0, 1, lanes=None), began(1)) == []
    assert rules(*begin, *polled(0, 1), began(0), ended(0, is_done=False), began(1)) == ["out-of-order"]
    assert rules(*begin, *polled(0, 1), Removed(at_ms=15.0, partition=T0, before=1), began(1)) == []


def test_two_at_once_in_a_lane() -> None:
    begin = [*started(), *started("b"), *sent(0), *polled(0), began(0)]
    again = [*polled(0, member="b"), began(0, "b")]
    assert rules(*begin, *again) == ["two-hands"]
    interrupted = Raised(at_ms=15.0, member="a", call="processor", error="Interrupt", message="")
    assert rules(*begin, interrupted, *again) == [], "nothing stops a handler"
    end = ProcessorEnded(at_ms=15.0, member="a", processor=1)
    assert rules(*begin, end, *again) == ["two-hands"]
    assert rules(*begin, replace(end, is_cut_short=True), *again) == []
    assert rules(*begin, FaultBegan(at_ms=25.0, fault="x", detail=""), *again) == [], "it may not know yet"
    assert rules(*begin, Killed(at_ms=25.0, member="a"), *again) == []


def test_more_in_work_than_workers() -> None:
    assert rules(*started(workers=1), *sent(0, 1), *polled(0, 1, lanes=None), began(0), began(1)) == ["too-many-hands"]


def test_what_was_given_up_or_ended_begins_nothing() -> None:
    begin = [*started(), *sent(0), Assigned(at_ms=5.0, member="a", partitions=(T0,)), *polled(0)]
    assert rules(*begin, Revoked(at_ms=15.0, member="a", partitions=(T0,)), began(0)) == ["not-its-own"]
    assert rules(*begin, ProcessorEnded(at_ms=15.0, member="a", processor=1), began(0)) == ["after-its-end"]


def test_nobody_waits_for_a_slow_one() -> None:
    calm = [*started(), Calm(at_ms=0.0), *sent(0), *sent(0, partition=T1)]
    slow = [began(0), ended(0, at=6_000.0)]
    assert rules(*calm, *slow, began(0, partition=T1), ended(0, partition=T1)) == []
    held_up = [began(0), began(0, partition=T1, at=5_500.0), ended(0, at=6_000.0), ended(0, partition=T1, at=5_501.0)]
    assert rules(*calm, *held_up) == ["held-up"]


def test_commits_that_stay_behind() -> None:
    events = [*started(), Calm(at_ms=0.0), *sent(0, 1, 2), *polled(0, 1, 2), *handled(0, 1)]
    assert rules(*events, Stored(at_ms=50.0, partition=T0, offset=2, end=3)) == []
    assert rules(*events, Stored(at_ms=50.0, partition=T0, offset=1, end=3)) == ["commit-behind-handling"]


@pytest.mark.parametrize("count", ["waiting", "in_work", "retrying"])
def test_counts_that_are_left_over(count: str) -> None:
    events = [*started(), *sent(0, 1), *polled(0, 1), *handled(0, 1)]
    assert rules(*events, status(**{count: 1})) == ["counts-left-over"]
    assert rules(*events, status(handled=1)) == ["counts-left-over"]


@pytest.mark.parametrize("gone", [Revoked, Lost])
def test_what_is_passed_by_counts_as_handled_if_it_is_skipped(gone: type[Revoked | Lost]) -> None:
    """It may have been left to the next owner, whether that one has had it again or not."""
    begin = [*started(), *sent(0, 1), *polled(0, 1), *handled(0), began(1), ended(1, is_passed_by=True)]
    left = gone(at_ms=35.0, member="a", partitions=(T0,))
    for rest in ([], [left], [left, *started("b"), *handled(1, member="b")]):
        assert rules(*begin, *rest, status(handled=2, skipped=1)) == []
        assert rules(*begin, *rest, status(handled=1, skipped=0)) == []
        for handled_, skipped in ((2, 0), (1, 1), (3, 1), (3, 2)):
            assert rules(*begin, *rest, status(handled=handled_, skipped=skipped)) == ["counts-left-over"]


@pytest.mark.parametrize("gone", [Revoked, Lost])
def test_what_a_handler_was_done_with_is_counted_though_it_is_handled_again(gone: type[Revoked | Lost]) -> None:
    left = gone(at_ms=25.0, member="a", partitions=(T0,))
    events = [*started(), *sent(0, 1), *polled(0, 1), *handled(0), began(1), left, ended(1), *started("b")]
    again = handled(1, member="b")
    assert rules(*events, *again, status(handled=2)) == []
    for count in (1, 3):
        assert rules(*events, *again, status(handled=count)) == ["counts-left-over"]


def test_commits_need_not_pass_what_was_passed_by_while_partitions_changed_hands() -> None:
    begin = [*started(), Calm(at_ms=0.0), *sent(0, 1), *polled(0, 1), *handled(0), began(1)]
    stored, passed_by = Stored(at_ms=50.0, partition=T0, offset=1, end=2), ended(1, is_passed_by=True)
    assert rules(*begin, Closing(at_ms=25.0), passed_by, stored) == []
    assert rules(*begin, passed_by, Closing(at_ms=35.0), stored) == ["commit-behind-handling"]
    assert rules(*begin, Closing(at_ms=25.0), ended(1), stored) == ["commit-behind-handling"]
