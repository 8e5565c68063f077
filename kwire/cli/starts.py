"""`--from`: where in each partition to begin."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from kwire.cli import times
from kwire.errors import ConfigError
from kwire.model import OffsetAndTimestamp, TopicPartition

HELP = f"Where to begin: earliest, latest, an offset, -N for the last N of each partition, or a time: {times.HELP}."

log = logging.getLogger("kwire.cli")


class StartKind(Enum):
    """The meaning of the number of a start; the first two kinds have none."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSET = auto()
    LAST_RECORDS = auto()
    TIMESTAMP_MS = auto()


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin."""

    kind: StartKind
    number: int = 0


class StartingConsumer(Protocol):
    """The part of `kwire.Consumer` that is needed here."""

    def seek(self, partition: TopicPartition, offset: int, /) -> None: ...

    def seek_to_beginning(self, partitions: Collection[TopicPartition], /) -> None: ...

    def seek_to_end(self, partitions: Collection[TopicPartition], /) -> None: ...

    def beginning_offsets(self, partitions: Collection[TopicPartition], /) -> Mapping[TopicPartition, int]: ...

    def end_offsets(self, partitions: Collection[TopicPartition], /) -> Mapping[TopicPartition, int]: ...

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], /
    ) -> Mapping[TopicPartition, OffsetAndTimestamp | None]: ...


def parse_start(text: str, option: str = "--from") -> Start:
    """Parse `--from`. Raises: ConfigError, if the text has none of the forms in `HELP`."""
    word = text.strip().lower()
    if word in ("earliest", "beginning"):
        return Start(StartKind.EARLIEST)
    if word in ("latest", "end"):
        return Start(StartKind.LATEST)
    if word.isascii() and word.isdecimal():
        return Start(StartKind.OFFSET, int(word))
    if word.isascii() and word[:1] == "-" and word[1:].isdecimal():
        return Start(StartKind.LAST_RECORDS, int(word[1:]))
    timestamp_ms = times.parse_time_ms(option, text, HELP)
    if word[:1] == "+":
        raise ConfigError(f"{option} {text}: no record is from the future; -10m is ten minutes ago, latest is the end")
    return Start(StartKind.TIMESTAMP_MS, timestamp_ms)


def seek_to_start(
    consumer: StartingConsumer,
    start: Start,
    partitions: Collection[TopicPartition],
    *,
    log_ends: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]] | None = None,
) -> None:
    """Move every partition to its start. The consumer has them assigned.

    Args:
        log_ends: The ends of logs, if for the consumer they end earlier, at an open transaction.
    """
    match start.kind:
        case StartKind.EARLIEST:
            consumer.seek_to_beginning(partitions)
        case StartKind.LATEST:
            consumer.seek_to_end(partitions)
        case StartKind.OFFSET:
            ends = (log_ends or consumer.end_offsets)(partitions)
            _warn_of_starts_behind(start.number, ends)
            _seek_within_log(consumer, dict.fromkeys(partitions, start.number), ends)
        case StartKind.LAST_RECORDS:
            ends = consumer.end_offsets(partitions)
            _seek_within_log(consumer, {partition: ends[partition] - start.number for partition in partitions}, ends)
        case StartKind.TIMESTAMP_MS:
            _seek_to_times(consumer, dict.fromkeys(partitions, start.number))


def _warn_of_starts_behind(offset: int, ends: Mapping[TopicPartition, int]) -> None:
    """A user who has mistyped the offset may wait for a long time: the warning says why no record comes."""
    for partition, end in sorted(ends.items()):
        if offset > end:
            log.warning("%s ends at offset %d; reading begins there, not at %d", partition, end, offset)


def _seek_within_log(
    consumer: StartingConsumer, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> None:
    """Outside the log, the reset policy would decide: an offset past the end could begin anew at the beginning."""
    begins = consumer.beginning_offsets(offsets.keys())
    for partition, offset in offsets.items():
        consumer.seek(partition, min(max(offset, begins[partition]), ends[partition]))


def _seek_to_times(consumer: StartingConsumer, timestamps: Mapping[TopicPartition, int]) -> None:
    found = consumer.offsets_for_times(timestamps)
    too_late = [partition for partition, at in found.items() if at is None]
    if too_late:
        consumer.seek_to_end(too_late)
    for partition, at in found.items():
        if at is not None:
            consumer.seek(partition, at.offset)
