"""Events from one member's lines: it writes them to the ledger with their times, and checks that they are consistent.

Each member's reader (`member_process.py`) has a `Teller`, which only that reader calls.
"""

from __future__ import annotations

from collections.abc import Callable

from kwire.model import TopicPartition
from kwire.testing.faults.events import Recorder
from kwire.testing.faults.lines import (
    AnswerLine,
    BadLineError,
    BatchLine,
    Callback,
    CommitLine,
    Datum,
    Failure,
    Line,
    Moment,
    read_line,
)
from kwire.testing.faults.moments import MemberMoments
from kwire.testing.faults.payload import identity
from kwire.testing.invariants.ledger import (
    Assigned,
    Closed,
    Committed,
    Event,
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

# Of one member: invalid lines of a program must not fill the report.
MAX_BAD_LINES = 20


class Teller:
    """The state of a member by its lines: whether it has started, what it owns, whether it has closed.

    Args:
        started: the event of its start, made by the caller, which knows the settings.
        closes_within_ms: how long its close may take.
    """

    def __init__(
        self, member: str, recorder: Recorder, started: Callable[[float], Started], closes_within_ms: float
    ) -> None:
        self.owned: frozenset[TopicPartition] = frozenset()
        self.has_started = self.has_closed = False
        self.trusts_its_clock = True
        self.last_ms = 0.0
        self.moments = MemberMoments()
        self._member = member
        self._recorder = recorder
        self._started = started
        self._closes_within_ms = closes_within_ms
        self._closing_since_ms: float | None = None
        self._pending: dict[tuple[TopicPartition, str], list[Datum]] = {}
        self._bad_lines = 0

    def take(self, text: str) -> Line | None:
        """Process a line. Returns it; None if it is invalid."""
        try:
            line = read_line(text)
            self._tell(line)
            self.moments.take(line)
        except BadLineError as error:
            self._refuse(str(error))
            return None
        return line

    def killed(self, at_ms: float) -> None:
        """Note that the process was killed. Its last line may be later than the decision to kill it."""
        self.owned = frozenset()
        self._recorder.write(Killed(at_ms=max(at_ms, self.last_ms), member=self._member))

    def froze(self, at_ms: float) -> None:
        self._recorder.write(Frozen(at_ms=max(at_ms, self.last_ms), member=self._member))

    def thawed(self, at_ms: float) -> None:
        """Called before the process goes on: its next line has a timestamp in whole milliseconds, which may be a little
        earlier."""
        self.last_ms = max(at_ms, self.last_ms)
        self._recorder.write(Thawed(at_ms=self.last_ms, member=self._member))

    def _tell(self, line: Line) -> None:
        match line:
            case Datum():
                self._pending.setdefault((line.partition, line.cursor), []).append(line)
            case BatchLine():
                self._poll(line)
            case Moment():
                self._pass(line.name, self._at_ms(line.at_ms))
            case Callback():
                self._call_back(line, self._at_ms(line.at_ms))
            case CommitLine():
                self._commit(line, self._at_ms(line.at_ms))
            case AnswerLine():
                self._answer(line, self._at_ms(line.at_ms))
            case Failure():
                at_ms = self._at_ms(line.at_ms)
                self._write(
                    Raised(at_ms=at_ms, member=self._member, call="poll", error=line.error, message=line.message)
                )

    def _pass(self, name: str, at_ms: float) -> None:
        match name:
            case "startup_complete":
                self.has_started = True
                self._write(self._started(at_ms))
            case "shutdown_requested" | "closing":
                # An own runner tells when it calls `close`; what comes before that, others have to be allowed, too.
                if not self.has_closed:
                    self._closing_since_ms = at_ms
            case _:
                took_ms = 0.0 if self._closing_since_ms is None else at_ms - self._closing_since_ms
                self.has_closed = True
                self._write(
                    Closed(at_ms=at_ms, member=self._member, took_ms=took_ms, timeout_ms=self._closes_within_ms)
                )

    def _call_back(self, line: Callback, at_ms: float) -> None:
        event: Event
        match line.name:
            case "partitions_assigned":
                self.owned |= set(line.partitions)
                event = Assigned(at_ms=at_ms, member=self._member, partitions=line.partitions)
            case "partitions_revoked":
                self.owned -= set(line.partitions)
                event = Revoked(at_ms=at_ms, member=self._member, partitions=line.partitions)
            case _:
                self.owned -= set(line.partitions)
                event = Lost(at_ms=at_ms, member=self._member, partitions=line.partitions)
        self._write(event)

    def _poll(self, line: BatchLine) -> None:
        """The line that sums up a poll follows its records, one a line, and has to agree with them."""
        pending, self._pending = self._pending, {}
        told = {(span.partition, span.cursor): (span.count, span.first, span.last) for span in line.spans}
        found = {of: (len(data), data[0].offset, data[-1].offset) for of, data in pending.items()}
        if told != found:
            self._refuse(f"records_consumed says {told}, its record_data say {found}")
        at_ms = self._at_ms(line.at_ms)
        for (partition, cursor), data in pending.items():
            offsets = tuple(datum.offset for datum in data)
            values = tuple(identity(datum.value) for datum in data)
            self._write(
                Polled(
                    at_ms=at_ms,
                    member=self._member,
                    partition=partition,
                    offsets=offsets,
                    values=values,
                    cursor=cursor,
                )
            )

    def _commit(self, line: CommitLine, at_ms: float) -> None:
        if line.error:
            self._write(
                Raised(at_ms=at_ms, member=self._member, call="commit_sync", error="KafkaError", message=line.error)
            )
            return
        for (partition, offset), cursor in zip(line.offsets, line.cursors or ("",) * len(line.offsets), strict=True):
            self._write(Committed(at_ms=at_ms, member=self._member, partition=partition, offset=offset, cursor=cursor))

    def _answer(self, line: AnswerLine, at_ms: float) -> None:
        for partition, offset in line.offsets:
            self._write(LowWater(at_ms=at_ms, member=self._member, partition=partition, offset=offset))

    def _at_ms(self, wall_clock_ms: int) -> float:
        """The time of a line on the run's clock: not after now, and not before the member's last line."""
        now_ms = self._recorder.now_ms()
        at_ms = self._recorder.at_ms(wall_clock_ms) if self.trusts_its_clock else now_ms
        self.last_ms = max(self.last_ms, min(at_ms, now_ms))
        return self.last_ms

    def _write(self, event: Event) -> None:
        self._recorder.write(event)

    def _refuse(self, what: str) -> None:
        self._bad_lines += 1
        if self._bad_lines <= MAX_BAD_LINES:
            self._recorder.violate("bad-line", f"{self._member} printed {what}")
