"""The payloads of many batches as one buffer: as they lie there, or inflated.

To inflate takes long. So it can be begun before somebody waits for it: a thread that needs no interpreter does what the
module in C can do, and Python goes on with the records that it has.
Called by `record_decoding.py`, and by `fetching/open_fetch.py` to begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire import speedups
from kwire.errors import CorruptRecordError
from kwire.lazy_numpy import np
from kwire.protocol.compression import DEFAULT_LIMIT_BYTES, decompress, decompress_into
from kwire.protocol.compression_buffer import InflationBuffer
from kwire.protocol.inflation_in_c import InflationInC, can_begin, inflation_in_c
from kwire.protocol.record_batch import CODEC_MASK, HEADER_BYTES, MIN_LENGTH_BYTES, Batch, Buffer, codec_of_first
from kwire.protocol.record_batch_columns import BatchColumns, column, in_columns, payload_bytes
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
    """One buffer with the payloads of some batches, the first ones. `behind` says where each ends, if they were
    inflated, one behind the other; None: all lie there as their batches say."""

    buffer: Buffer
    behind: list[int] | None


class Places(NamedTuple):
    """Where the payload of each batch starts and ends."""

    starts: Ints
    ends: Ints


def places_of(batches: Sequence[Batch], behind: list[int] | None) -> Places:
    """The same for numpy, of all these batches."""
    if behind is not None:
        return Places(ints_of([0, *behind[:-1]]), ints_of(behind))
    starts = column(batches, "position") + HEADER_BYTES
    sizes_bytes = column(batches, "length_bytes") - MIN_LENGTH_BYTES
    return Places(starts, starts + np.where(column(batches, "record_count") == 0, 0, sizes_bytes))


class Inflation:
    """Makes one buffer of the payloads of batches of magic 2: of all, or of the first ones, if those are enough.

    An empty batch (compaction leaves them, to keep the producer's sequence) has no payload, whatever lies there.

    Args:
        limit_bytes: The most one batch may inflate to.
        budget_bytes: Stop behind the batch with which this much has been inflated.

    Attributes:
        columns: The batches, if they lie in the same bytes.
    """

    def __init__(self, batches: Sequence[Batch], *, limit_bytes: int, budget_bytes: int | None) -> None:
        self._batches = batches
        self._limit_bytes = limit_bytes
        self._budget_bytes = budget_bytes
        self.columns = in_columns(batches)
        self._buffer = InflationBuffer()
        self._in_c: InflationInC | None = None
        self._payloads: Payloads | None = None

    def begin(self) -> None:
        """Have a thread begin to inflate, if that pays."""
        if can_begin(self._batches[0].codec) and self.packed_bytes >= MIN_AHEAD_BYTES:
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
        return payload_bytes(self._batches)

    @property
    def _is_plain(self) -> bool:
        return self.columns is not None and not self.columns.sum_and_union("attributes")[1] & CODEC_MASK

    @property
    def _are_many(self) -> bool:
        return len(self._batches) >= MANY_PAYLOADS or self.packed_bytes >= MUCH_PACKED_BYTES

    def payloads(self) -> Payloads:
        """The buffer, and where the payloads are in it.

        Raises:
            DamagedBatchError: One is damaged.
        """
        if self._payloads is None:
            self._payloads = Payloads(self._batches[0].data, None) if self._is_plain else self._inflated()
        return self._payloads

    def _inflated(self) -> Payloads:
        if self._in_c is None and self._are_many:
            self._in_c = self._inflation_in_c()
        behind = [] if self._in_c is None else self._in_c.places()
        self._inflate_others(behind)
        return Payloads(self._buffer.finish(), behind)

    def _inflation_in_c(self) -> InflationInC | None:
        if self._budget_bytes is None or self.columns is None or speedups.module is None:
            return None
        data, payloads = memoryview(self.columns.data), speedups.module.payloads(self.columns.numbers)
        return inflation_in_c(
            speedups.module,
            self._buffer,
            data,
            memoryview(payloads).cast("q"),
            limit_bytes=self._limit_bytes,
            enough_bytes=self._budget_bytes,
        )

    def _inflate_others(self, behind: list[int]) -> None:
        """Inflate, one by one, the payloads behind those that are done."""
        for index in range(len(behind), len(self._batches)):
            if behind and self._budget_bytes is not None and len(self._buffer) >= self._budget_bytes:
                break
            batch = self._batches[index]
            if batch.record_count:
                packed = memoryview(batch.data)[batch.payload_start : batch.end]
                try:
                    decompress_into(self._buffer, batch.codec, packed, limit_bytes=self._limit_bytes)
                except CorruptRecordError as error:
                    raise DamagedBatchError(index, error.problem) from error
            behind.append(len(self._buffer))


def inflation_of(
    batches: Sequence[Batch], *, limit_bytes: int = DEFAULT_LIMIT_BYTES, budget_bytes: int | None
) -> Inflation | None:
    """What `decode_available` inflates first of these batches, to be begun. None: there is none of magic 2."""
    run = of_magic_2(batches)
    return Inflation(run, limit_bytes=limit_bytes, budget_bytes=budget_bytes) if run else None


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
