"""The payloads of many batches as one buffer: as they lie there, or inflated.

To inflate takes long. So it can be begun before somebody waits for it: a thread that needs no interpreter does what the
module in C can do, and Python goes on with the records that it has.
Called by `record_decoding.py`, and by `fetching/open_fetch.py` to begin.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.errors import CorruptRecordError
from kwire.protocol.compression import DEFAULT_LIMIT_BYTES, Codec, decompress, decompress_into
from kwire.protocol.compression_buffer import InflationBuffer
from kwire.protocol.inflation_in_c import InflationInC, can_begin, inflation_in_c
from kwire.protocol.record_batch import CODEC_MASK, HEADER_BYTES, MIN_LENGTH_BYTES, Batch, Buffer, codec_of_first
from kwire.protocol.record_batch_columns import BatchColumns, are_of_one_buffer, column
from kwire.protocol.record_boundaries import DamagedBatchError
from kwire.protocol.record_varints import ints_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.protocol.record_varints import Ints

MANY_PAYLOADS = 4
MUCH_PACKED_BYTES = 128 * 1024
"""From this many payloads on, or this many bytes, the module in C inflates them together, if it can. For less numpy's
calls take too long."""

MIN_AHEAD_BYTES = 256 * 1024
"""The fewest compressed bytes that are inflated ahead: fewer are inflated in the time that a thread takes to start."""


class Payloads(NamedTuple):
    """One buffer with the payloads of some batches, and where each starts and ends."""

    buffer: Buffer
    starts: Ints
    ends: Ints


class Inflation:
    """Makes one buffer of the payloads of batches of magic 2: of all, or of the first ones, if those are enough.

    Args:
        limit_bytes: The most one batch may inflate to.
        budget_bytes: Stop behind the batch with which this much has been inflated.
    """

    def __init__(self, batches: Sequence[Batch], *, limit_bytes: int, budget_bytes: int | None) -> None:
        # An empty batch (compaction leaves them, to keep the producer's sequence) has no payload, whatever lies there.
        counts, codecs = column(batches, "record_count"), column(batches, "attributes") & CODEC_MASK
        self._batches = batches
        self._limit_bytes = limit_bytes
        self._budget_bytes = budget_bytes
        self._starts = column(batches, "position") + HEADER_BYTES
        self._ends = self._starts + np.where(counts == 0, 0, column(batches, "length_bytes") - MIN_LENGTH_BYTES)
        self._codecs = np.where(counts == 0, Codec.NONE, codecs)
        self._are_of_one_buffer = are_of_one_buffer(batches)
        self._is_plain = self._are_of_one_buffer and not codecs.any()
        self._buffer = InflationBuffer()
        self._in_c: InflationInC | None = None

    def begin(self) -> None:
        """Have a thread begin to inflate, if that pays."""
        if self._are_of_one_buffer and can_begin(self._codecs[0]) and self.packed_bytes >= MIN_AHEAD_BYTES:
            self._in_c = self._inflation_in_c()
            if self._in_c is not None:
                self._in_c.begin()

    @property
    def has_begun(self) -> bool:
        """Whether a thread has begun to inflate."""
        return self._in_c is not None

    @property
    def packed_bytes(self) -> int:
        """The size of all payloads as they are, compressed."""
        return int((self._ends - self._starts).sum())

    @property
    def _are_many(self) -> bool:
        return len(self._batches) >= MANY_PAYLOADS or self.packed_bytes >= MUCH_PACKED_BYTES

    def payloads(self) -> Payloads:
        """The buffer, and where the payloads are in it. Called once: the buffer is handed over.

        Raises:
            DamagedBatchError: One is damaged.
        """
        if self._is_plain:
            return Payloads(self._batches[0].data, self._starts, self._ends)
        if self._in_c is None and self._are_of_one_buffer and self._are_many:
            self._in_c = self._inflation_in_c()
        behind = [] if self._in_c is None else self._in_c.places()
        self._inflate_others(behind)
        return Payloads(self._buffer.finish(), ints_of([0, *behind[:-1]]), ints_of(behind))

    def _inflation_in_c(self) -> InflationInC | None:
        if self._budget_bytes is None:
            return None
        payloads = np.array((self._codecs, self._starts, self._ends))
        data, limit_bytes = memoryview(self._batches[0].data), self._limit_bytes
        return inflation_in_c(self._buffer, data, payloads, limit_bytes=limit_bytes, enough_bytes=self._budget_bytes)

    def _inflate_others(self, behind: list[int]) -> None:
        """Inflate, one by one, the payloads behind those that are done."""
        each = zip(self._codecs.tolist(), self._starts.tolist(), self._ends.tolist(), strict=True)
        view = memoryview(self._batches[0].data)
        for index, (codec, start, end) in enumerate(islice(each, len(behind), None), len(behind)):
            if behind and self._budget_bytes is not None and len(self._buffer) >= self._budget_bytes:
                break
            whole = view if self._are_of_one_buffer else memoryview(self._batches[index].data)
            try:
                decompress_into(self._buffer, codec, whole[start:end], limit_bytes=self._limit_bytes)
            except CorruptRecordError as error:
                raise DamagedBatchError(index, error.problem) from error
            behind.append(len(self._buffer))


def inflation_of(batches: Sequence[Batch], *, budget_bytes: int) -> Inflation | None:
    """What `decode_available` inflates first of these batches, to be begun. None: there is none of magic 2."""
    run = of_magic_2(batches)
    return Inflation(run, limit_bytes=DEFAULT_LIMIT_BYTES, budget_bytes=budget_bytes) if run else None


def can_be_ahead(data: Buffer) -> bool:
    """Whether a thread can inflate what is in this record set, as far as its first batch tells."""
    return can_begin(codec_of_first(data))


def pays_ahead(data: Buffer) -> bool:
    """Whether to open this record set before its turn, for a thread to begin with it."""
    return len(data) >= MIN_AHEAD_BYTES and can_be_ahead(data)


def of_magic_2(batches: Sequence[Batch]) -> Sequence[Batch]:
    """The batches up to the first of another format."""
    if isinstance(batches, BatchColumns):
        return batches
    return batches[: next((index for index, batch in enumerate(batches) if batch.magic != 2), len(batches))]


def inflate_payload(batch: Batch, limit_bytes: int) -> Buffer:
    """The batch's records, uncompressed, as one stretch of bytes."""
    packed = memoryview(batch.data)[batch.payload_start : batch.end]
    return decompress(batch.codec, packed, limit_bytes=limit_bytes)
