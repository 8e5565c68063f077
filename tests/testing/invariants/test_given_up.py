"""Records that a user has decided to give up: nobody has to have had them, and nothing else goes with them."""

from __future__ import annotations

from kwire.model import TopicPartition
from kwire.testing.invariants import Ledger, check
from kwire.testing.invariants.handling_events import (
    HandlingBegan,
    HandlingEnded,
    MapArrived,
    ProcessorStarted,
    StatusSeen,
)
from kwire.testing.invariants.ledger import (
    Assigned,
    Closed,
    CommitArrived,
    Ended,
    Event,
    Polled,
    Quiet,
    Revoked,
    Sent,
    Sought,
    Started,
    Stored,
)
from kwire.testing.invariants.user_events import GivenUp, UserCodeRaised
from kwire.testing.invariants.words import words

T0 = TopicPartition("t", 0)
SENT = tuple(Sent(at_ms=0.0, partition=T0, offset=offset, value=f"v{offset}") for offset in range(4))
STARTED = Started(at_ms=1.0, member="a", session_timeout_ms=10_000.0)
ASSIGNED = Assigned(at_ms=2.0, member="a", partitions=(T0,))
GONE = (
    Revoked(at_ms=900.0, member="a", partitions=(T0,)),
    Closed(at_ms=901.0, member="a", took_ms=1.0, timeout_ms=5.0),
)
END = Ended(at_ms=90_000.0)
PROCESSOR = ProcessorStarted(at_ms=3.0, member="a", processor=1, workers=2)


def rules(*events: Event) -> list[str]:
    return [violation.rule for violation in check(Ledger(list(events)))]


def stored(offset: int) -> Stored:
    return Stored(at_ms=1.5, partition=T0, offset=offset, end=4)


def polled(*offsets: int) -> Polled:
    values = tuple(f"v{offset}" for offset in offsets)
    return Polled(at_ms=100.0, member="a", partition=T0, offsets=offsets, values=values)


def given_up(offset: int, how: str = "seek") -> GivenUp:
    return GivenUp(at_ms=100.0, member="a", value=f"v{offset}", how=how, processor=1)


def sought(offset: int) -> Sought:
    return Sought(at_ms=100.0, member="a", partition=T0, offset=offset)


def committed(offset: int) -> CommitArrived:
    return CommitArrived(at_ms=200.0, member="a", partition=T0, offset=offset)


def handled(*offsets: int) -> list[Event]:
    facts = [{"member": "a", "processor": 1, "partition": T0, "offset": each, "value": f"v{each}"} for each in offsets]
    began = [HandlingBegan(at_ms=150.0, **fact) for fact in facts]  # type: ignore[arg-type]
    ended = [HandlingEnded(at_ms=151.0, is_done=True, **fact) for fact in facts]  # type: ignore[arg-type]
    return [each for pair in zip(began, ended, strict=True) for each in pair]


def test_what_is_sought_behind_need_not_be_polled_and_may_be_committed() -> None:
    story: tuple[Event, ...] = (*SENT, STARTED, ASSIGNED, Quiet(at_ms=50.0), polled(0, 1))
    rest: tuple[Event, ...] = (sought(3), committed(3), polled(3), *GONE, END)
    assert rules(*story, given_up(2), *rest) == []
    assert rules(*story, *rest) == ["commit-ahead", "recovery", "lost-write"]


def test_what_is_skipped_without_a_word_is_lost() -> None:
    assert rules(*SENT, STARTED, ASSIGNED, polled(0, 1), polled(3), *GONE, END) == ["poll-skip", "lost-write"]


def test_good_records_in_front_of_the_one_to_step_over_come_first() -> None:
    early: tuple[Event, ...] = (*SENT, STARTED, ASSIGNED, polled(0), given_up(2), sought(3), polled(3), *GONE)
    assert rules(*early) == ["raised-too-early"]


def test_the_first_record_of_an_assignment_is_stepped_over_where_the_commits_end() -> None:
    rest: tuple[Event, ...] = (STARTED, ASSIGNED, given_up(2), sought(3), polled(3), *GONE)
    assert rules(*SENT, stored(2), *rest) == []
    assert rules(*SENT, stored(1), *rest) == ["begins-too-late"]


def test_a_new_owner_need_not_begin_with_what_was_given_up() -> None:
    assert rules(*SENT, stored(2), STARTED, ASSIGNED, polled(3), *GONE) == ["begins-too-late"]
    assert rules(*SENT, stored(2), STARTED, given_up(2, "skip"), ASSIGNED, polled(3), *GONE) == []


def test_what_a_processor_skips_counts_as_done() -> None:
    commit = MapArrived(at_ms=200.0, member="a", partition=T0, offset=4, finished=())
    begin: tuple[Event, ...] = (*SENT, STARTED, PROCESSOR, ASSIGNED, Quiet(at_ms=50.0), polled(0, 1, 2, 3))
    assert rules(*begin, given_up(2, "skip"), *handled(0, 1, 3), commit, *GONE, END) == []
    assert rules(*begin, *handled(0, 1, 3), commit, *GONE, END) == [
        "commit-unfinished",
        "handling-recovery",
        "unhandled",
    ]


def test_a_processor_may_count_what_it_skips_or_not() -> None:
    def seen(handled_: int, skipped: int) -> list[str]:
        counts = {"waiting": 0, "in_work": 0, "retrying": 0, "handled": handled_, "skipped": skipped}
        status = StatusSeen(at_ms=300.0, member="a", processor=1, paused=(), **counts)
        return rules(*SENT, STARTED, PROCESSOR, ASSIGNED, polled(0, 1), given_up(1, "skip"), *handled(0), status)

    assert (seen(1, 0), seen(2, 1)) == ([], [])
    assert seen(0, 0) == seen(2, 0) == seen(1, 1) == seen(3, 2) == ["counts-left-over"]


def test_a_story_tells_what_raised_and_what_was_given_up() -> None:
    raised = UserCodeRaised(at_ms=1.0, member="a", place="value deserializer", error="OutageError", value="v2")
    assert words(raised) == "a: its value deserializer raises OutageError over v2"
    interrupted = UserCodeRaised(at_ms=1.0, member="a", place="signal handler", error="Interrupt")
    assert words(interrupted) == "a: its signal handler raises Interrupt"
    assert words(given_up(2)) == "a gives up v2: seek"
