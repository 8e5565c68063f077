"""How much is decoded at a time: columns of a million records, whatever a batch holds.

10 KB of zstd may be 128 MiB and 19 million records, whose columns take 1.7 GB. So a batch that is as large as that is
decoded portion by portion: its front first, then its rest, which is a batch of its own from then on. No good batch is
refused. Called by `record_decoding.py`.
"""

from __future__ import annotations

from kwire.lazy_numpy import np
from kwire.protocol.record_batch import CODEC_MASK, HEADER_BYTES, LOG_OVERHEAD_BYTES, Batch, Buffer
from kwire.protocol.record_boundaries import MIN_RECORD_BYTES, DamagedBatchError, impossible
from kwire.protocol.record_varints import Ints, read_varint

MAX_PORTION_RECORDS = 1_000_000
MAX_PORTION_BYTES = 16 * 1024 * 1024
"""Bytes bound the number of headers, each of which takes two or more."""

FRONT_RECORDS = 125_000
FRONT_BYTES = 4 * 1024 * 1024
"""What is taken of a batch that is larger. Its records are found one by one, which takes a moment."""


def fits(payloads: Buffer) -> bool:
    """Whether so few bytes may be decoded at once, whatever they hold."""
    return len(payloads) <= min(MAX_PORTION_BYTES, MAX_PORTION_RECORDS * MIN_RECORD_BYTES)


def may_be_packed(payloads: Buffer, records: int) -> bool:
    """Whether so many bytes and records may be decoded at once."""
    return len(payloads) <= MAX_PORTION_BYTES and records <= MAX_PORTION_RECORDS


def are_enough(records: int) -> bool:
    """Whether this many records make a portion, to which no further batches are added."""
    return records > MAX_PORTION_RECORDS // 2


def fitting(counts: Ints, sizes_bytes: Ints) -> int:
    """How many of the first batches may be decoded at once; 0 if the first is too large.

    Args:
        counts: How many records each of them has.
        sizes_bytes: What those take.
    """
    are_too_much = (np.cumsum(counts) > MAX_PORTION_RECORDS) | (np.cumsum(sizes_bytes) > MAX_PORTION_BYTES)
    # A count that the bytes have no room for is damage, and found when the batch is decoded.
    are_too_much[0] &= counts[0] * MIN_RECORD_BYTES <= sizes_bytes[0]
    return int(are_too_much.argmax()) if are_too_much.any() else len(counts)


def split(batch: Batch, payload: Buffer, start: int, end: int) -> tuple[int, int]:
    """How many records make the front of a batch, whose payload lies between `start` and `end`, and where they end.

    Raises:
        DamagedBatchError: A record is longer than the payload.
    """
    place, count = start, 0
    try:
        while count < min(FRONT_RECORDS, batch.record_count) and place - start < FRONT_BYTES:
            length, body = read_varint(payload, place, end)
            if not MIN_RECORD_BYTES - 1 <= length <= end - body:
                raise ValueError(impossible(length, end - body))
            place, count = body + length, count + 1
    except ValueError as error:
        raise DamagedBatchError(0, str(error)) from error
    return count, place


def rest_of(batch: Batch, payload: Buffer, taken: int, place: int, end: int) -> Batch:
    """What is left of a batch when this many of its records are taken: from `place` on. It is not compressed any
    more."""
    position = place - HEADER_BYTES
    return batch._replace(
        data=payload,
        position=position,
        length_bytes=end - position - LOG_OVERHEAD_BYTES,
        attributes=batch.attributes & ~CODEC_MASK,
        record_count=batch.record_count - taken,
    )
