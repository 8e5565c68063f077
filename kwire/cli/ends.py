"""`--until` and `--exit-at-end`: where in each partition to stop."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum, auto

from kwire.cli import times
from kwire.cli.starts import StartingConsumer
from kwire.clock import wall_clock_ms
from kwire.model import TopicPartition

HELP = (
    "Stop before this offset, or before the first record of this time or later: "
    f"{times.HELP}. A time to come, such as +10m, is waited for."
)


class EndKind(Enum):
    """The meaning of the number of an end."""

    OFFSET = auto()
    TIMESTAMP_MS = auto()


@dataclass(frozen=True, slots=True)
class End:
    """Where to stop."""

    kind: EndKind
    number: int


def parse_end(text: str) -> End:
    """Parse `--until`. Raises: ConfigError, if the text has none of the forms in `HELP`."""
    word = text.strip()
    if word.isascii() and word.isdecimal():
        return End(EndKind.OFFSET, int(word))
    return End(EndKind.TIMESTAMP_MS, times.parse_time_ms("--until", text, HELP))


class Ends:
    """The end offset of each partition, which is the first that is not read, as soon as it is known.

    Args:
        end: What `--until` says.
        exit_at_end: Whether to stop also where the partitions end now.
        partitions: The partitions to read.
    """

    def __init__(
        self,
        consumer: StartingConsumer,
        end: End | None,
        *,
        exit_at_end: bool,
        partitions: Collection[TopicPartition],
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._consumer = consumer
        self._end = end
        self._partitions = partitions
        self._now_ms = now_ms
        self._logs_end = dict(consumer.end_offsets(partitions)) if exit_at_end else None
        self._known: dict[TopicPartition, int] | None = None

    def find(self) -> dict[TopicPartition, int] | None:
        """None while there is no end, or it has yet to come."""
        if self._known is None:
            self._known = self._look()
        return self._known

    def _look(self) -> dict[TopicPartition, int] | None:
        wanted = self._where_wanted()
        if wanted is None or self._logs_end is None:
            return wanted if self._logs_end is None else self._logs_end
        return {partition: min(offset, self._logs_end[partition]) for partition, offset in wanted.items()}

    def _where_wanted(self) -> dict[TopicPartition, int] | None:
        if self._end is None:
            return None
        if self._end.kind is EndKind.OFFSET:
            return dict.fromkeys(self._partitions, self._end.number)
        if self._end.number > self._now_ms():
            return None
        return self._at_time(self._end.number)

    def _at_time(self, timestamp_ms: int) -> dict[TopicPartition, int]:
        # First: what is written between the two questions lies behind the end.
        ends = self._consumer.end_offsets(self._partitions)
        found = self._consumer.offsets_for_times(dict.fromkeys(self._partitions, timestamp_ms))
        return {partition: ends[partition] if at is None else at.offset for partition, at in found.items()}
