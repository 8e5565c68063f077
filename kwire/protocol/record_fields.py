"""The fields of many records, decoded column by column (magic 2, KIP-98).

A record's body is: attributes int8, timestamp delta varlong, offset delta varint, key, value, headers; key and value
are a varint length (negative: null) and the bytes. Contract: every field lies inside its record and the last one ends
with it, or `DamagedRecordError` names the first record at fault. Called by `record_decoding.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.lazy_numpy import np
from kwire.protocol.record_headers import HeaderColumns, read_headers
from kwire.protocol.record_varints import VARLONG_BYTES, Ints, Octets, read_varints, require

if TYPE_CHECKING:
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


def _behind(starts: Ints, lengths: Ints, ends: Ints, problem: str) -> Ints:
    behind: Ints = starts + np.maximum(lengths, 0)
    require(behind <= ends, problem)
    return behind
