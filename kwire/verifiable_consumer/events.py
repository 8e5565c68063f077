"""The lines on stdout: one JSON object for each event, fields named and ordered as Java's, written when it happens."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

from kwire.clock import wall_clock_ms
from kwire.model import Cursor, OffsetAndMetadata, Record, TopicPartition

# Kept, because json.dumps with options makes a new encoder for each call. Like Jackson, it writes no spaces.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


Reached: TypeAlias = dict[tuple[TopicPartition, Cursor], int]
"""The position of each cursor in each partition: the offset behind its last record."""


class Lines(Protocol):
    """Takes whole lines; when `write` returns, readers can see them."""

    def write(self, data: bytes, /) -> None: ...


class EventLog:
    """Writes events.

    A signal handler may use it, even if it interrupts a `_put` of the main thread. Its lines are then written after
    those of that `_put`, by it or by the next one.
    """

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._pending: deque[bytes] = deque()
        self._is_writing = False

    def startup_complete(self) -> None:
        self._emit("startup_complete")

    def shutdown_requested(self) -> None:
        self._emit("shutdown_requested")

    def shutdown_complete(self) -> None:
        self._emit("shutdown_complete")

    def partitions_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self._emit("partitions_assigned", partitions=_partitions(partitions))

    def partitions_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self._emit("partitions_revoked", partitions=_partitions(partitions))

    def partitions_lost(self, partitions: Iterable[TopicPartition]) -> None:
        """kwire's own, as the next two."""
        self._emit("partitions_lost", partitions=_partitions(partitions))

    def poll_failed(self, error: Exception) -> None:
        self._emit("poll_failed", error=type(error).__name__, message=str(error))

    def closing(self) -> None:
        self._emit("closing")

    def record_data(self, records: Iterable[Record[bytes, bytes]], cursor: Cursor | None = None) -> None:
        """A line for each record, in one write; `cursor` is printed if there are two."""
        self._put("".join(record_line("record_data", record, cursor) for record in records))

    def records_consumed(self, count: int, summaries: Iterable[dict[str, str | int]]) -> None:
        """The number of records of one poll, and the range of offsets of each partition."""
        self._emit("records_consumed", count=count, partitions=list(summaries))

    def offsets_committed(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], error: Exception | None = None
    ) -> None:
        """The result of a commit. Only a failed one has the field `error`."""
        self._committed([partition_fields(tp) | {"offset": position.offset} for tp, position in offsets.items()], error)

    def cursors_committed(self, reached: Reached, error: Exception | None = None) -> None:
        """The result of a commit with two cursors. Java's program does not have this event, nor the next one."""
        rows = [partition_fields(tp) | {"offset": at, "cursor": cursor.value} for (tp, cursor), at in reached.items()]
        self._committed(rows, error)

    def low_water(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The group's committed offsets, as `committed()` returns them."""
        self._emit("low_water", offsets=[partition_fields(tp) | {"offset": offset} for tp, offset in offsets.items()])

    def _committed(self, rows: list[dict[str, str | int]], error: Exception | None) -> None:
        said = {} if error is None else {"error": str(error)}
        self._emit("offsets_committed", offsets=rows, **said, success=error is None)

    def _emit(self, name: str, **fields: object) -> None:
        self._put(_line(name, fields))

    def _put(self, lines: str) -> None:
        self._pending.append(lines.encode())
        if self._is_writing:
            return
        self._is_writing = True
        try:
            while self._pending:
                self._lines.write(self._pending.popleft())
        finally:
            self._is_writing = False


def _line(name: str, fields: dict[str, object]) -> str:
    return _encode({"timestamp": wall_clock_ms(), "name": name, **fields}) + "\n"


def record_line(name: str, record: Record[bytes, bytes], cursor: Cursor | None = None) -> str:
    fields: dict[str, object] = {
        "key": _text(record.key),
        "value": _text(record.value),
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
    }
    if cursor is not None:
        fields["cursor"] = cursor.value
    return _line(name, fields)


def _text(data: bytes | None) -> str | None:
    """The text of bytes, as by Java's StringDeserializer, which accepts malformed UTF-8."""
    return None if data is None else data.decode(errors="replace")


def _partitions(partitions: Iterable[TopicPartition]) -> list[dict[str, str | int]]:
    return [partition_fields(tp) for tp in sorted(partitions)]


def partition_fields(tp: TopicPartition) -> dict[str, str | int]:
    """A partition as Kafka's tests read it."""
    return {"topic": tp.topic, "partition": tp.partition}
