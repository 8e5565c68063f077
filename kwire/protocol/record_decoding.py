"""Record batches to columns, many batches at a time: the hot path.

Contract: nothing is done per record in Python where the module in C, or numpy, can do it for all batches together, and
everything is checked before it is believed: what comes back lies inside its record, its batch and the limits, or a
`CorruptRecordError` names the batch. Called by `fetching/open_fetch.py`.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from kwire import speedups
from kwire.errors import CorruptRecordError
from kwire.lazy_numpy import np
from kwire.protocol.compression import DEFAULT_LIMIT_BYTES
from kwire.protocol.record_batch import LOG_APPEND_TIME_BIT, Batch, Buffer
from kwire.protocol.record_batch_columns import column, total
from kwire.protocol.record_boundaries import DamagedBatchError, find_records
from kwire.protocol.record_columns import RecordColumns, join_columns
from kwire.protocol.record_few import MAX_FEW_RECORDS, few_columns
from kwire.protocol.record_fields import RecordFields, read_fields
from kwire.protocol.record_packed import empty_columns, packed_columns
from kwire.protocol.record_payloads import Inflation, Places, inflation_of, of_magic_2, places_of
from kwire.protocol.record_portions import are_enough, fits, fitting, may_be_packed, rest_of, split
from kwire.protocol.record_varints import DamagedRecordError, Ints, ints_of
from kwire.protocol.records_legacy import decode_message

if TYPE_CHECKING:
    from collections.abc import Sequence


class Decoded(NamedTuple):
    """What `decode_available` decoded: the columns of the first `taken` batches, and the damage behind, if any.

    If the last of them is too large, `rest` is what is left of it, to be decoded next.
    """

    columns: RecordColumns
    taken: int
    error: CorruptRecordError | None
    rest: Batch | None = None


def decode_columns(
    batches: Sequence[Batch], *, check_crcs: bool = True, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> RecordColumns:
    """All records of all batches, in order.

    Args:
        batches: From `iter_batches`, which has checked the outer checksums.
        check_crcs: Whether to check the messages inside compressed magic 0 and 1 sets, which have their own.
        limit_bytes: The most one batch may inflate to.

    Raises:
        CorruptRecordError: A batch does not decode; `offset` is its base offset.
    """
    try:
        return _decode(batches, _Limits(check_crcs, limit_bytes))[0]
    except DamagedBatchError as damage:
        raise batches[damage.index].damage(damage.problem) from damage


def decode_available(
    batches: Sequence[Batch],
    *,
    check_crcs: bool = True,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    budget_bytes: int | None = None,
    inflation: Inflation | None = None,
) -> Decoded:
    """The records of as many batches as decode: those in front of a damaged one are delivered before its error is.

    Args:
        batches: As for `decode_columns`.
        check_crcs: As for `decode_columns`.
        limit_bytes: The most one batch may inflate to.
        budget_bytes: Stop behind the batch with which this much has been inflated; so a fetch answer full of well
            compressed batches is taken in portions. With it, columns stay within the bounds of `record_portions`.
        inflation: `record_payloads.inflation_of` these very batches, with the same budget, if there is one already.
    """
    few = _few_plain(batches)
    if few is not None:
        return Decoded(few, len(batches), None)
    if inflation is None:
        inflation = inflation_of(batches, limit_bytes=limit_bytes, budget_bytes=budget_bytes)
    try:
        packed = _packed(batches, inflation)
    except DamagedBatchError:
        packed = inflation = None
    if packed is not None:
        return Decoded(packed[0], packed[1], None)
    limits = _Limits(check_crcs, limit_bytes, budget_bytes)
    error: CorruptRecordError | None = None
    good = len(batches)
    while True:
        try:
            columns, taken, rest = _decode(batches[:good], limits, inflation)
        except DamagedBatchError as damage:
            # Checks run field by field over all batches, so a batch further in front may have another damage still.
            error = batches[damage.index].damage(damage.problem)
            error.__cause__ = damage
            good, inflation = damage.index, None
        else:
            return Decoded(columns, taken, error if taken == good and rest is None else None, rest)


def _packed(batches: Sequence[Batch], inflation: Inflation | None) -> tuple[RecordColumns, int] | None:
    """The columns as the module in C reads them, and of how many batches they are. None: it is not there, or there is
    something that is not for it.

    Raises:
        DamagedBatchError: A batch cannot be inflated.
    """
    columns = None if inflation is None else inflation.columns
    if inflation is None or columns is None or len(columns) < len(batches) or speedups.module is None:
        return None
    buffer, behind = inflation.payloads()
    run = columns if behind is None else columns[: len(behind)]
    if not may_be_packed(buffer, total(run, "record_count")):
        return None
    packed = packed_columns(buffer, run, None if behind is None else array("q", behind))
    return None if packed is None else (packed, len(run))


class _Limits(NamedTuple):
    check_crcs: bool
    limit_bytes: int
    budget_bytes: int | None = None


def _decode(
    batches: Sequence[Batch], limits: _Limits, inflation: Inflation | None = None
) -> tuple[RecordColumns, int, Batch | None]:
    """The columns, how many batches they are of, and what is left of the last. Neighbours of one format are decoded
    together."""
    parts: list[RecordColumns] = []
    taken, rest = 0, None
    budget_bytes = limits.budget_bytes
    while taken < len(batches) and rest is None and (budget_bytes is None or budget_bytes > 0 or not parts):
        start = taken
        if batches[start].magic < 2:
            part, taken = _decode_legacy(batches[start], start, limits), start + 1
        else:
            part, taken, rest = _decode_run(batches, start, limits._replace(budget_bytes=budget_bytes), inflation)
        inflation = None  # it was for the first ones
        parts.append(part)
        if budget_bytes is not None:
            budget_bytes -= len(part.buffer) if part.buffer is not batches[start].data else 0
            if are_enough(sum(map(len, parts))):
                break
    return join_columns(parts) if parts else empty_columns(), taken, rest


def _decode_legacy(batch: Batch, index: int, limits: _Limits) -> RecordColumns:
    try:
        return decode_message(batch, check_crcs=limits.check_crcs, limit_bytes=limits.limit_bytes)
    except CorruptRecordError as error:
        raise DamagedBatchError(index, error.problem) from error


def _decode_run(
    batches: Sequence[Batch], start: int, limits: _Limits, inflation: Inflation | None
) -> tuple[RecordColumns, int, Batch | None]:
    """The batches of magic 2 from `start` on; answers the index behind the last as well, and what is left of that."""
    run = of_magic_2(batches[start:])
    try:
        inflation = inflation or Inflation(run, limit_bytes=limits.limit_bytes, budget_bytes=limits.budget_bytes)
        buffer, behind = inflation.payloads()
        run = run if behind is None else run[: len(behind)]
        run, places, rest = _portion(run, buffer, places_of(run, behind), limits)
        few = _few(run, buffer, places)
        columns = _many(run, buffer, places) if few is None else few
    except DamagedBatchError as error:
        raise DamagedBatchError(start + error.index, error.problem) from error
    except DamagedRecordError as error:
        counted = np.cumsum(column(run, "record_count"))
        index = int(np.searchsorted(counted, error.row, side="right"))
        nth = error.row - int(counted[index - 1] if index else 0)
        raise DamagedBatchError(start + index, f"record {nth} of the batch: {error.problem}") from error
    return columns, start + len(run), rest


def _portion(
    run: Sequence[Batch], buffer: Buffer, places: Places, limits: _Limits
) -> tuple[Sequence[Batch], Places, Batch | None]:
    """As many of the batches as may be decoded at once, or the front of the first and the rest of it."""
    starts, ends = places
    if limits.budget_bytes is None or fits(buffer):
        return run, places, None
    count = fitting(column(run, "record_count"), ends - starts)
    if count:
        return run[:count], Places(starts[:count], ends[:count]), None
    start, end = int(starts[0]), int(ends[0])
    taken, place = split(run[0], buffer, start, end)
    if taken == run[0].record_count:
        return run[:1], Places(starts[:1], ends[:1]), None
    front = run[0]._replace(record_count=taken)
    return [front], Places(starts[:1], ints_of([place])), rest_of(run[0], buffer, taken, place, end)


def _many(batches: Sequence[Batch], buffer: Buffer, places: Places) -> RecordColumns:
    """Decode with numpy: the way for many records, which knows all cases and finds all damage."""
    counts, data = column(batches, "record_count"), np.frombuffer(buffer, dtype=np.uint8)
    fields = read_fields(buffer, data, *find_records(buffer, data, *places, counts))
    return _columns(batches, buffer, counts, fields)


def _few(batches: Sequence[Batch], buffer: Buffer, places: Places) -> RecordColumns | None:
    """Decode as rows (`record_few.py`). None: there are many records, or one of another kind."""
    if not _are_few(batches):
        return None
    return few_columns(buffer, zip(batches, places.starts.tolist(), places.ends.tolist(), strict=True))


def _are_few(batches: Sequence[Batch]) -> bool:
    return len(batches) <= MAX_FEW_RECORDS and 0 < total(batches, "record_count") <= MAX_FEW_RECORDS


def _few_plain(batches: Sequence[Batch]) -> RecordColumns | None:
    """The shortest way, for a consumer that keeps up: a batch or two, not compressed. None: these are others."""
    if not _are_few(batches):
        return None
    data = batches[0].data
    if not fits(data) or not all(each.is_plain and each.data is data for each in batches):
        return None
    return few_columns(data, [(each, each.payload_start, each.end) for each in batches])


def _columns(batches: Sequence[Batch], buffer: Buffer, counts: Ints, fields: RecordFields) -> RecordColumns:
    """Turn deltas into offsets and timestamps, and repeat what a batch says once for each of its records."""
    base_timestamps = column(batches, "base_timestamp")
    deltas = fields.timestamp_deltas
    appended = column(batches, "attributes") & LOG_APPEND_TIME_BIT != 0
    if appended.any():
        # KIP-32: all records of the batch have the time the broker appended it, its max timestamp.
        base_timestamps = np.where(appended, column(batches, "max_timestamp"), base_timestamps)
        deltas = np.where(np.repeat(appended, counts), 0, deltas)
    epochs = column(batches, "partition_leader_epoch").astype(np.int32)
    return RecordColumns(
        buffer=buffer,
        offsets=np.repeat(column(batches, "base_offset"), counts) + fields.offset_deltas,
        timestamps=np.repeat(base_timestamps, counts) + deltas,
        timestamp_types=np.repeat(appended.astype(np.int8), counts),
        leader_epochs=np.repeat(epochs, counts),
        key_starts=fields.key_starts,
        key_lengths=fields.key_lengths,
        value_starts=fields.value_starts,
        value_lengths=fields.value_lengths,
        headers_at=fields.headers,
    )
