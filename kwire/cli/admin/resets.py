"""The plan of `kwire groups reset`: the commit that each partition would get. Pure: offsets are arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kwire.cli.admin.cluster import EARLIEST, LATEST, ClusterView
from kwire.cli.starts import Start, StartKind
from kwire.errors import ConfigError, InvalidArgumentError
from kwire.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Reset:
    """The commit of one partition before and after a reset."""

    partition: TopicPartition
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class LogRange:
    """The first offset of a log, and its end."""

    begin: int
    end: int

    def clamp(self, offset: int) -> int:
        """The nearest offset within the log: outside of it, members would begin by their reset policy."""
        return min(max(offset, self.begin), self.end)


def plan_resets(
    committed: Mapping[TopicPartition, int],
    logs: Mapping[TopicPartition, LogRange],
    *,
    start: Start | None,
    at_time: Mapping[TopicPartition, int | None],
    shift_by: int | None,
) -> list[Reset]:
    """The resets that would be committed.

    Args:
        start: The start to reset to; None to shift commits.
        at_time: The offsets for the time of `start`, if it has one; None where all records are older.
        shift_by: The number of records to shift by.
    """
    resets = []
    for partition, log in sorted(logs.items()):
        before = committed.get(partition)
        if start is None:
            if before is None:
                continue  # nothing to shift
            target = before + (shift_by or 0)
        else:
            target = _target(start, log, at_time.get(partition))
        resets.append(Reset(partition, before, log.clamp(target)))
    return resets


def _target(start: Start, log: LogRange, at_time: int | None) -> int:
    match start.kind:
        case StartKind.EARLIEST:
            return log.begin
        case StartKind.LATEST:
            return log.end
        case StartKind.OFFSET:
            return start.number
        case StartKind.LAST_RECORDS:
            return log.end - start.number
        case StartKind.TIMESTAMP_MS:
            return log.end if at_time is None else at_time


def log_ranges(view: ClusterView, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogRange]:
    """Raises: InvalidArgumentError, for a partition without a leader, whose log is unknown."""
    begins, ends = view.offsets(partitions, EARLIEST), view.offsets(partitions, LATEST)
    found: dict[TopicPartition, LogRange] = {}
    for partition in partitions:
        begin, end = begins[partition], ends[partition]
        if begin is None or end is None:
            raise InvalidArgumentError(f"{partition} has no leader, so nobody knows where its log begins and ends")
        found[partition] = LogRange(begin, end)
    return found


def parse_topic(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse a topic, or some of its partitions, such as orders:0,2. Raises: ConfigError."""
    name, colon, numbers = text.partition(":")
    parts = [part.strip() for part in numbers.split(",")] if colon else []
    if not name or not all(part.isdecimal() for part in parts):
        raise ConfigError(f"--topic {text}: write NAME, or NAME:0,2 for some of its partitions")
    return name, tuple(sorted({int(part) for part in parts}))
