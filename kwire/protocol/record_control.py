"""Control batches: the markers that end transactions, and KRaft's own records (KIP-98, KIP-595).

Contract: one marker is read alone, cheaply, as there is one for each transaction. Called by
`fetching/transactions.py`, which needs to know where an aborted transaction ends.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from kwire.errors import CorruptRecordError
from kwire.protocol.compression import DEFAULT_LIMIT_BYTES
from kwire.protocol.record_payloads import inflate_payload
from kwire.protocol.record_varints import read_varint

if TYPE_CHECKING:
    from kwire.protocol.record_batch import Batch, Buffer


class ControlType(IntEnum):
    """What a control record says; the ids of Kafka's ControlRecordType."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlRecord(NamedTuple):
    """The marker in a control batch. Only ABORT and COMMIT have a coordinator epoch."""

    type: ControlType
    version: int
    coordinator_epoch: int | None


_CONTROL_TYPES = {member.value: member for member in ControlType}


def read_control(batch: Batch, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> ControlRecord | None:
    """The marker of a control batch; None when compaction has removed it and left the empty batch.

    One marker ends each transaction, so this reads the one record alone, without the machinery for columns.

    Raises:
        CorruptRecordError: The record does not decode, or its key is no control record's key.
    """
    if batch.record_count == 0:
        return None
    try:
        key, value = _first_key_and_value(inflate_payload(batch, limit_bytes))
    except CorruptRecordError as error:
        raise batch.damage(error.problem) from error
    except ValueError as error:
        raise batch.damage(f"control record: {error}") from error
    version = int.from_bytes(key[:2], "big", signed=True)
    if len(key) < 4 or version < 0:
        raise batch.damage(f"control record: its key {key.hex()!r} is not a version and a type")
    # KIP-98: readers take later versions as the first, with fields they do not know behind it.
    kind = _CONTROL_TYPES.get(int.from_bytes(key[2:4], "big", signed=True), ControlType.UNKNOWN)
    epoch = None
    if kind in (ControlType.ABORT, ControlType.COMMIT) and len(value) >= 6:
        epoch = int.from_bytes(value[2:6], "big", signed=True)
    return ControlRecord(kind, version, epoch)


def _first_key_and_value(payload: Buffer) -> tuple[bytes, bytes]:
    length, at = read_varint(payload, 0, len(payload))
    end = at + length
    if not 0 <= length <= len(payload) - at:
        raise ValueError(f"a record of {length} bytes where {len(payload) - at} are left")
    at += 1  # attributes
    while at < end and payload[at] >= 0x80:  # the timestamp delta, of no interest here
        at += 1
    _, at = read_varint(payload, at + 1, end)
    key, at = _read_bytes(payload, at, end)
    value, _ = _read_bytes(payload, at, end)
    return key, value


def _read_bytes(payload: Buffer, at: int, end: int) -> tuple[bytes, int]:
    """A field of length and bytes, null as empty, and the place behind it."""
    length, at = read_varint(payload, at, end)
    behind = at + max(length, 0)
    if behind > end:
        raise ValueError(f"a field of {length} bytes where {end - at} are left")
    return bytes(payload[at:behind]), behind
