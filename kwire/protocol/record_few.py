"""Few records to columns: what a consumer that keeps up gets, one answer after the other with a record or two.

Two dozen calls of numpy cost the same for one record as for thousands, about 0.2 ms, which is most of what such a
record takes from the socket to the application. Contract: answers exactly what the decoding of many would, or None
where a record is not of the ordinary kind (headers, damage): then the other way is gone, which knows all and names
what is wrong. Called by `record_decoding.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kwire.protocol.record_columns import RecordColumns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.protocol.record_batch import Batch, Buffer

MOST_RECORDS = 16
"""Measured: at about 40 records the two ways take the same time."""

# Longer varints are for the other way: padded ones, and values of 28 bits or more, where 32 and 64 bits differ.
_MOST_VARINT_BYTES = 4


def few_columns(buffer: Buffer, payloads: Iterable[tuple[Batch, int, int]]) -> RecordColumns | None:
    """The columns of these batches.

    Args:
        buffer: Holds all payloads.
        payloads: The batches, and where the records of each start and end.
    """
    try:
        rows = [row for batch, start, end in payloads for row in _rows(buffer, batch, start, end)]
        # One array with a column of the records in each row: numpy is called once, not eight times.
        columns = np.array(list(zip(*rows, strict=True)), dtype=np.int64)
    except (IndexError, ValueError, OverflowError):
        return None
    offsets, timestamps, timestamp_types, leader_epochs, key_starts, key_lengths, value_starts, value_lengths = columns
    return RecordColumns(
        buffer=buffer,
        offsets=offsets,
        timestamps=timestamps,
        timestamp_types=timestamp_types.astype(np.int8),
        leader_epochs=leader_epochs.astype(np.int32),
        key_starts=key_starts,
        key_lengths=key_lengths,
        value_starts=value_starts,
        value_lengths=value_lengths,
    )


def _rows(buffer: Buffer, batch: Batch, at: int, end: int) -> Iterator[tuple[int, ...]]:
    """The records of one batch; each is one row of the columns.

    Raises:
        IndexError, ValueError: Not of the ordinary kind.
    """
    appended = batch.is_log_append_time  # KIP-32: all have the time the broker appended them, the max timestamp
    for _ in range(batch.record_count):
        length, at = _varint(buffer, at)
        record_end = at + length
        timestamp_delta, at = _varint(buffer, at + 1)  # behind the attributes, which have no meaning
        offset_delta, at = _varint(buffer, at)
        key_length, key_start = _varint(buffer, at)
        value_length, value_start = _varint(buffer, key_start + max(0, key_length))
        at = value_start + max(0, value_length)
        if buffer[at] or at + 1 != record_end or record_end > end:
            raise ValueError("headers, or damage")
        at = record_end
        yield (
            batch.base_offset + offset_delta,
            batch.max_timestamp if appended else batch.base_timestamp + timestamp_delta,
            int(appended),
            batch.partition_leader_epoch,
            key_start,
            max(-1, key_length),  # any negative length is null
            value_start,
            max(-1, value_length),
        )
    if at != end:
        raise ValueError("something lies behind the records")


def _varint(buffer: Buffer, at: int) -> tuple[int, int]:
    """A zigzag varint, and the place behind it."""
    raw = buffer[at]
    if raw >= 0x80:
        raw &= 0x7F
        for nth in range(1, _MOST_VARINT_BYTES):
            byte = buffer[at + nth]
            raw |= (byte & 0x7F) << (7 * nth)
            if byte < 0x80:
                at += nth
                break
        else:
            raise ValueError("a long varint")
    return (raw >> 1) ^ -(raw & 1), at + 1
