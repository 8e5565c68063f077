"""A member's lines become events of the ledger: at the right time, whole polls only, and with what does not fit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kwire.model import TopicPartition
from kwire.testing.faults.events import Recorder
from kwire.testing.faults.payload import identity, value_of
from kwire.testing.faults.telling import MAX_BAD_LINES, Teller
from kwire.testing.invariants.ledger import (
    Assigned,
    Closed,
    Committed,
    Frozen,
    Killed,
    Lost,
    LowWater,
    Polled,
    Raised,
    Revoked,
    Started,
    Thawed,
)

if TYPE_CHECKING:
    from kwire.testing.invariants.ledger import Event

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
WALL_MS = 1_700_000_000_000
CLOSES_WITHIN_MS = 5_000.0


class Told:
    """A member's lines, at times of a clock that the test moves along with them."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.recorder = Recorder(lambda: self.now_s, lambda: WALL_MS / 1000)
        self.teller = Teller("a", self.recorder, self.started, CLOSES_WITHIN_MS)

    def started(self, at_ms: float) -> Started:
        return Started(at_ms=at_ms, member="a", session_timeout_ms=9.0)

    def say(self, at_ms: int, name: str, **fields: object) -> None:
        """The line comes at the moment in which it was written."""
        self.now_s = max(self.now_s, at_ms / 1000)
        self.teller.take(json.dumps({"timestamp": WALL_MS + at_ms, "name": name, **fields}) + "\n")

    def say_record(self, at_ms: int, partition: TopicPartition, offset: int, value: str) -> None:
        self.say(at_ms, "record_data", key=None, value=value, **named(partition), offset=offset)

    def say_poll(self, at_ms: int, *spans: tuple[TopicPartition, int, int]) -> None:
        rows = [
            {**named(tp), "count": last - first + 1, "minOffset": first, "maxOffset": last} for tp, first, last in spans
        ]
        self.say(at_ms, "records_consumed", count=1, partitions=rows)

    @property
    def events(self) -> list[Event]:
        return self.recorder.ledger.events

    @property
    def wrong(self) -> list[str]:
        return [violation.what for violation in self.recorder.violations]


def named(partition: TopicPartition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.partition}


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_life_from_its_start_to_its_end(told: Told) -> None:
    told.say(1, "startup_complete")
    told.say(2, "partitions_assigned", partitions=[named(T0), named(T1)])
    told.say(3, "partitions_lost", partitions=[named(T1)])
    assert told.teller.owned == {T0}
    told.say(4, "poll_failed", error="CorruptRecordError", message="why")
    told.say(5, "shutdown_requested")
    told.say(7, "closing")
    told.say(8, "partitions_revoked", partitions=[named(T0)])
    told.say(9, "shutdown_complete")
    assert told.events == [
        Started(at_ms=1, member="a", session_timeout_ms=9.0),
        Assigned(at_ms=2, member="a", partitions=(T0, T1)),
        Lost(at_ms=3, member="a", partitions=(T1,)),
        Raised(at_ms=4, member="a", call="poll", error="CorruptRecordError", message="why"),
        Revoked(at_ms=8, member="a", partitions=(T0,)),
        Closed(at_ms=9, member="a", took_ms=2, timeout_ms=CLOSES_WITHIN_MS),
    ]
    assert (told.teller.has_started, told.teller.has_closed, told.teller.owned) == (True, True, frozenset())
    assert told.wrong == []


def test_where_nobody_says_when_close_was_called_it_counts_from_the_signal(told: Told) -> None:
    told.say(5, "shutdown_requested")
    told.say(9, "shutdown_complete")
    assert [event.took_ms for event in told.recorder.ledger.of(Closed)] == [4.0]


def test_java_says_what_was_requested_even_after_the_end(told: Told) -> None:
    told.say(9, "shutdown_complete")
    told.say(10, "shutdown_requested")
    assert [event.took_ms for event in told.recorder.ledger.of(Closed)] == [0.0]
    assert told.wrong == []


def test_a_poll_is_one_event_a_partition_at_the_time_of_its_sum(told: Told) -> None:
    for at_ms, partition, offset in ((1, T0, 3), (2, T0, 4), (2, T1, 0)):
        told.say_record(at_ms, partition, offset, value_of(offset, 20))
    told.say_poll(3, (T0, 3, 4), (T1, 0, 0))
    values = [identity(value_of(offset, 20)) for offset in (3, 4, 0)]
    assert told.events == [
        Polled(at_ms=3, member="a", partition=T0, offsets=(3, 4), values=(values[0], values[1])),
        Polled(at_ms=3, member="a", partition=T1, offsets=(0,), values=(values[2],)),
    ]
    assert told.wrong == []


def test_a_sum_that_its_records_do_not_make_is_told(told: Told) -> None:
    told.say_record(1, T0, 3, "v")
    told.say_poll(2, (T0, 3, 4))
    assert len(told.wrong) == 1
    assert "records_consumed" in told.wrong[0]
    assert [event.offsets for event in told.recorder.ledger.of(Polled)] == [(3,)]


def test_a_member_that_was_not_told_to_be_verbose_is_of_no_use(told: Told) -> None:
    told.say_poll(2, (T0, 3, 4))
    assert len(told.wrong) == 1


def test_only_commits_that_are_done_count(told: Told) -> None:
    offsets = [{**named(T0), "offset": 4}]
    told.say(1, "offsets_committed", offsets=offsets, success=True)
    told.say(2, "offsets_committed", offsets=offsets, error="no", success=False)
    assert told.events == [
        Committed(at_ms=1, member="a", partition=T0, offset=4),
        Raised(at_ms=2, member="a", call="commit_sync", error="KafkaError", message="no"),
    ]


def test_bad_lines_are_violations_up_to_a_number(told: Told) -> None:
    for _ in range(MAX_BAD_LINES + 5):
        told.teller.take("Segmentation fault\n")
    assert len(told.wrong) == MAX_BAD_LINES
    assert told.wrong[0].startswith("a printed 'Segmentation fault'")


# --- times ----------------------------------------------------------------------------------------------------


def test_the_clock_is_the_members_and_time_does_not_go_back(told: Told) -> None:
    told.now_s = 10.0
    for at_ms in (2_000, 1_000, 3_000):
        told.say(at_ms, "partitions_assigned", partitions=[])
    assert [event.at_ms for event in told.events] == [2_000, 2_000, 3_000]


def test_nothing_happens_after_it_was_heard_of(told: Told) -> None:
    told.now_s = 1.0
    told.teller.take(f'{{"timestamp":{WALL_MS + 3_600_000},"name":"startup_complete"}}\n')
    assert [event.at_ms for event in told.events] == [1_000]


def test_a_clock_that_was_shifted_is_not_believed(told: Told) -> None:
    told.teller.trusts_its_clock = False
    told.now_s = 9.0
    told.say(2_000, "startup_complete")
    assert [event.at_ms for event in told.events] == [9_000]


def test_what_comes_after_a_thaw_is_not_put_before_it(told: Told) -> None:
    """Lines are stamped in whole milliseconds, thaws are not."""
    told.now_s = 0.0057
    told.teller.froze(4.2)
    told.teller.thawed(5.4)
    told.say(5, "partitions_revoked", partitions=[])
    assert [(type(event), event.at_ms) for event in told.events] == [(Frozen, 4.2), (Thawed, 5.4), (Revoked, 5.4)]


def test_a_kill_comes_after_the_last_word(told: Told) -> None:
    told.say(5, "partitions_assigned", partitions=[named(T0)])
    told.teller.killed(4.0)
    assert told.events[-1] == Killed(at_ms=5.0, member="a")
    assert told.teller.owned == frozenset()


def test_who_catches_up_names_the_cursor_of_all_that_it_reads_and_commits(told: Told) -> None:
    for offset, cursor in ((5, "main"), (0, "child")):
        told.say(10, "record_data", key=None, value=value_of(offset, 20), **named(T0), offset=offset, cursor=cursor)
    rows = [
        {**named(T0), "count": 1, "minOffset": at, "maxOffset": at, "cursor": cursor}
        for at, cursor in ((5, "main"), (0, "child"))
    ]
    told.say(11, "records_consumed", count=2, partitions=rows)
    told.say(12, "offsets_committed", offsets=[{**named(T0), "offset": 1, "cursor": "child"}], success=True)
    told.say(13, "low_water", offsets=[{**named(T0), "offset": 1}])
    assert not told.wrong
    assert told.events == [
        Polled(at_ms=11, member="a", partition=T0, offsets=(5,), values=(identity(value_of(5, 20)),), cursor="main"),
        Polled(at_ms=11, member="a", partition=T0, offsets=(0,), values=(identity(value_of(0, 20)),), cursor="child"),
        Committed(at_ms=12, member="a", partition=T0, offset=1, cursor="child"),
        LowWater(at_ms=13, member="a", partition=T0, offset=1),
    ]
    assert told.teller.moments.is_at("between-commits")
