"""The moments of a member that catches up, derived from its lines, for faults that are to strike at such a moment.

    moments = MemberMoments()
    moments.take(line)
    moments.is_at("between-commits")

Each member's `Teller` feeds one. A member with one cursor only reaches the first of the moments.
"""

from __future__ import annotations

from kwire.model import TopicPartition
from kwire.testing.faults.lines import BatchLine, Callback, CommitLine, Line
from kwire.testing.invariants.catching_up import CHILD

HANDED_OVER = "handed-over"
CATCHING_UP = "catching-up"
BETWEEN_COMMITS = "between-commits"
MOMENTS = (CATCHING_UP, HANDED_OVER, BETWEEN_COMMITS)


class MemberMoments:
    """The moments of one member; fed with its lines."""

    def __init__(self) -> None:
        self._is_catching_up = False
        self._handed_over: set[TopicPartition] = set()
        self._read: set[str] = set()
        self._committed: set[str] = set()

    def take(self, line: Line) -> None:
        match line:
            case Callback():
                self._call_back(line)
            case BatchLine():
                self._handed_over -= {span.partition for span in line.spans}
                self._read, self._committed = {span.cursor for span in line.spans}, set()
                self._is_catching_up = CHILD in self._read
            case CommitLine() if not line.error:
                self._committed |= set(line.cursors)
            case _:
                pass

    def _call_back(self, line: Callback) -> None:
        self._is_catching_up = False
        if line.name == "partitions_assigned":
            self._handed_over |= set(line.partitions)
        else:
            self._handed_over -= set(line.partitions)

    def is_at(self, moment: str) -> bool:
        """Whether the member is at this moment. Handed over: it has a partition that it has not read since the
        assignment. Catching up: its last poll had records of a lag. Between commits: of a poll with records of both
        cursors, one cursor is committed."""
        match moment:
            case "handed-over":
                return bool(self._handed_over)
            case "catching-up":
                return self._is_catching_up
            case _:
                return len(self._read) > 1 and len(self._committed) == 1
