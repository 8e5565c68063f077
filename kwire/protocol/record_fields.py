"""The fields of many records, decoded column by column (magic 2, KIP-98).

A record's body is: attributes int8, timestamp delta varlong, offset delta varint, key, value, headers; key and value
are a varint length (negative: null) and the bytes. Contract: every field lies inside its record and the last one ends
with it, or `DamagedRecordError` names the first record at fault. Called by `record_decoding.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire import speedups
from kwire.protocol import record_headers
from kwire.protocol.record_boundaries import are_impossible
from kwire.protocol.record_headers import HeaderColumns, columns_of_spans, read_headers
from kwire.protocol.record_varints import VARLONG_BYTES, Ints, Octets, read_varints, require

if TYPE_CHECKING:
    from types import ModuleType

    from kwire.protocol.record_batch import Buffer


class RecordFields(NamedTuple):
    """One row per record; starts and lengths point into the buffer, length -1 is null."""

    timestamp_deltas: Ints
    offset_deltas: Ints
    key_starts: Ints
    key_lengths: Ints
    value_starts: Ints
    value_lengths: Ints
    headers: HeaderColumns | None


def read_fields(buffer: Buffer, data: Octets, bodies: Ints, ends: Ints) -> RecordFields:
    """Decode the records whose bodies lie between `bodies` and `ends`."""
    # The attributes byte has no meaning in any version so far; Java ignores it as well.
    timestamp_deltas, at = read_varints(data, bodies + 1, ends, max_bytes=VARLONG_BYTES)
    offset_deltas, at = read_varints(data, at, ends)
    key_lengths, key_starts = read_varints(data, at, ends)
    at = _behind(key_starts, key_lengths, ends, "a key longer than what is left")
    value_lengths, value_starts = read_varints(data, at, ends)
    at = _behind(value_starts, value_lengths, ends, "a value longer than what is left")
    headers = read_headers(buffer, data, at, ends)
    return RecordFields(
        timestamp_deltas,
        offset_deltas,
        key_starts,
        np.maximum(key_lengths, -1),  # any negative length is null
        value_starts,
        np.maximum(value_lengths, -1),
        headers,
    )


def read_records_in_c(buffer: Buffer, starts: Ints, ends: Ints, counts: Ints) -> RecordFields | None:
    """As `read_fields`, of all records of many batches, whose boundaries need not be known.

    None: there is no module in C, or something is damaged; reading it in Python says what.
    """
    module = speedups.module
    if module is None or are_impossible(starts, ends, counts).any():
        return None
    fields = np.empty((7, int(counts.sum())), dtype=np.int64)
    count = module.read_fields(buffer, np.array((starts, ends, counts)), fields, record_headers.MAX_HEADERS)
    if count < 0:
        return None
    timestamp_deltas, offset_deltas, key_starts, key_lengths, value_starts, value_lengths, places = fields
    headers = _read_headers_in_c(module, buffer, places, count) if count else None
    return RecordFields(timestamp_deltas, offset_deltas, key_starts, key_lengths, value_starts, value_lengths, headers)


def _read_headers_in_c(module: ModuleType, buffer: Buffer, places: Ints, count: int) -> HeaderColumns:
    """The headers of all records, which were found to be sound."""
    first, spans = np.empty(len(places) + 1, dtype=np.int64), np.empty((4, count), dtype=np.int64)
    module.read_headers(buffer, places, first, spans)
    return columns_of_spans(first, spans)


def _behind(starts: Ints, lengths: Ints, ends: Ints, problem: str) -> Ints:
    behind: Ints = starts + np.maximum(lengths, 0)
    require(behind <= ends, problem)
    return behind
