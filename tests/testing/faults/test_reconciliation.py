"""The brokers' logs are the truth: what the ledger lacks is added, and what the brokers have lost is told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.model import TopicPartition
from kwire.testing.faults.broker_log import BrokerLog, LogRecord
from kwire.testing.faults.events import Recorder
from kwire.testing.faults.reconciliation import reconcile
from kwire.testing.invariants.ledger import Hidden, Polled, Removed, Sent, Truncated, Vanished
from kwire.testing.invariants.logs import final_logs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.testing.faults.reconciliation import Reconciliation
    from kwire.testing.invariants.ledger import Event

T0 = TopicPartition("t", 0)
WALL_MS = 1_700_000_000_000


def log_of(values: Mapping[int, str], *, start: int = 0, end: int) -> BrokerLog:
    """Each record was appended at its offset's millisecond."""
    records = {offset: LogRecord(value, WALL_MS + offset) for offset, value in values.items()}
    return BrokerLog(start=start, end=end, records=records)


def sent(offset: int, value: str = "", at_ms: float | None = None) -> Sent:
    return Sent(at_ms=offset if at_ms is None else at_ms, partition=T0, offset=offset, value=value or f"v{offset}")


class Story:
    """What is written already, and what comes to it."""

    def __init__(self, *events: Event) -> None:
        self.recorder = Recorder(lambda: 0.0, lambda: WALL_MS / 1000)
        self.before = list(events)
        for event in events:
            self.recorder.write(event)

    def reconcile(
        self,
        log: BrokerLog | None = None,
        *,
        compacted: Mapping[str, float] | None = None,
        unplaced: Mapping[str, TopicPartition] | None = None,
    ) -> Reconciliation:
        logs = {} if log is None else {T0: log}
        return reconcile(self.recorder, logs, compacted=compacted, unplaced=unplaced)

    @property
    def added(self) -> list[Event]:
        return [event for event in self.recorder.ledger.events if event not in self.before]

    @property
    def values(self) -> dict[int, str]:
        """Those that have to be read in the end."""
        log = final_logs(self.recorder.ledger)[T0]
        return {offset: value for offset, value in log.values.items() if offset >= log.start}


def test_where_both_agree_nothing_is_added() -> None:
    story = Story(sent(0), sent(1))
    found = story.reconcile(log_of({0: "v0", 1: "v1"}, end=2))
    assert story.added == []
    assert found.notes == ()


def test_a_record_whose_acknowledgement_was_lost_was_sent_when_it_was_appended() -> None:
    story = Story(sent(0), sent(2))
    found = story.reconcile(log_of({0: "v0", 1: "x", 2: "v2"}, end=3))
    assert story.added == [sent(1, "x")]
    assert found.unacknowledged == {T0: 1}


def test_records_that_retention_took_are_removed_once_they_were_last_seen() -> None:
    seen = Polled(at_ms=40.0, member="a", partition=T0, offsets=(1,), values=("v1",))
    story = Story(sent(0), sent(1), sent(2), seen)
    found = story.reconcile(log_of({2: "v2"}, start=2, end=3))
    assert story.added == [Removed(at_ms=40.0, partition=T0, before=2)]
    assert (story.values, found.lost_by_brokers) == ({2: "v2"}, {})


def test_what_a_strike_has_written_itself_is_not_added_again() -> None:
    story = Story(sent(0), sent(1), Removed(at_ms=5, partition=T0, before=1))
    story.reconcile(log_of({1: "v1"}, start=1, end=2))
    assert story.added == []


def test_offsets_that_were_given_out_again_tell_of_a_truncation() -> None:
    story = Story(sent(0), sent(1), sent(2), sent(1, "new", at_ms=50.0))
    found = story.reconcile(log_of({0: "v0", 1: "new"}, end=2))
    assert [(event.to, 49.0 < event.at_ms < 50.0) for event in story.recorder.ledger.of(Truncated)] == [(1, True)]
    assert story.values == {0: "v0", 1: "new"}
    assert found.lost_by_brokers == {T0: 2}
    assert found.notes == ("the brokers have lost acknowledged records: 2 of t-0",)


def test_a_truncation_is_seen_by_records_that_nobody_acknowledged_too() -> None:
    story = Story(sent(0), sent(1), sent(2))
    story.reconcile(log_of({0: "v0", 1: "x", 2: "y"}, end=3))
    assert story.values == {0: "v0", 1: "x", 2: "y"}


def test_a_known_truncation_is_nobodys_loss() -> None:
    story = Story(sent(0), sent(1), Truncated(at_ms=20, partition=T0, to=1), sent(1, "new", at_ms=50.0))
    found = story.reconcile(log_of({0: "v0", 1: "new"}, end=2))
    assert (story.added, found.lost_by_brokers) == ([], {})


def test_a_log_that_ends_early_was_cut() -> None:
    story = Story(sent(0), sent(1), sent(2))
    found = story.reconcile(log_of({0: "v0"}, end=1))
    assert story.added == [Truncated(at_ms=2.0, partition=T0, to=1)]
    assert found.lost_by_brokers == {T0: 2}


def test_a_topic_that_is_gone_has_nothing_left_to_read() -> None:
    story = Story(sent(0), sent(1))
    assert story.reconcile().lost_by_brokers == {T0: 2}
    assert story.values == {}


def test_holes_are_compacted_records_where_that_is_allowed() -> None:
    seen = Polled(at_ms=40.0, member="a", partition=T0, offsets=(1,), values=("v1",))
    story = Story(*(sent(offset) for offset in range(5)), seen)
    found = story.reconcile(log_of({0: "v0", 4: "v4"}, end=5), compacted={"t": 30.0})
    assert story.added == [
        Vanished(at_ms=30.0, partition=T0, offsets=(2, 3)),
        Vanished(at_ms=40.0, partition=T0, offsets=(1,)),
    ]
    assert (found.compacted, found.lost_by_brokers) == ({T0: 3}, {})
    assert story.values == {0: "v0", 4: "v4"}


def test_holes_are_losses_of_the_brokers_where_it_is_not() -> None:
    story = Story(sent(0), sent(1), sent(2))
    found = story.reconcile(log_of({0: "v0", 2: "v2"}, end=3))
    assert story.added == [Vanished(at_ms=1.0, partition=T0, offsets=(1,))]
    assert found.lost_by_brokers == {T0: 1}


def test_holes_without_a_record_are_markers() -> None:
    story = Story(sent(0), sent(2))
    found = story.reconcile(log_of({0: "v0", 2: "v2"}, end=4))
    assert story.added == [Hidden(at_ms=0.0, partition=T0, offsets=(1, 3))]
    assert found.notes == ()


def test_what_was_acknowledged_without_an_offset_has_to_be_somewhere() -> None:
    story = Story(sent(0))
    found = story.reconcile(log_of({0: "v0", 1: "x"}, end=2), unplaced={"x": T0, "y": T0})
    assert found.lost_by_brokers == {T0: 1}
