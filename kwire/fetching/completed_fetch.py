"""What a Fetch answer brings of one partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kwire.epochs import AssignmentEpoch
from kwire.metrics.consumed import NO_LOG, AnswerCounts, LogSpan
from kwire.model import Cursor, TopicPartition

if TYPE_CHECKING:
    from kwire.protocol.record_batch import Buffer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompletedFetch:
    """One partition's part of a Fetch answer.

    `epoch` is the assignment epoch it was fetched in, `fetch_epoch` the leader epoch of what lies in front of
    `fetch_offset`; `aborted` has (producer id, first offset) of aborted transactions. `cursor` has fetched it, and
    wants nothing from `stop_offset` on. `log` and `answer` are for metrics.
    """

    topic_partition: TopicPartition
    epoch: AssignmentEpoch
    fetch_offset: int
    records: Buffer
    aborted: tuple[tuple[int, int], ...] = ()
    fetch_epoch: int | None = None
    cursor: Cursor = Cursor.MAIN
    stop_offset: int | None = None
    log: LogSpan = NO_LOG
    answer: AnswerCounts = field(default_factory=AnswerCounts)
