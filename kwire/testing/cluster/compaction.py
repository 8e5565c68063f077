"""Compaction: of each key the last record stays (cleanup.policy=compact), with all that transactions add to it.

As Kafka's log cleaner: records of aborted transactions go, deletions (null values) and markers stay until their delete
horizon (KIP-534), and the last batch of a producer stays as an empty shell, because its sequence number is in it.
Contract: pure; answers new batches, offsets as they were. Called by `log`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.protocol.record_batch import LOG_APPEND_TIME_BIT, iter_batches
from kwire.testing.cluster.batches import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    ChecksummedFields,
    compress,
    framed,
    record_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kwire.protocol.record_batch import Batch
    from kwire.protocol.records import StoredRecord

DELETE_HORIZON_BIT = 0x40


class Compaction(NamedTuple):
    """The rules of one compaction.

    Attributes:
        is_aborted: Whether a record of this producer at this offset was aborted.
        has_data: Whether batches of this producer's transaction, which ends at this marker, are still in the log.
        keeps_producer: Whether the state of the batch's producer is kept in this batch.
        delete_retention_ms: How long deletions stay after the first compaction that meets them.
        now_ms: The wall clock.
    """

    is_aborted: Callable[[int, int], bool]
    has_data: Callable[[int, int], bool]
    keeps_producer: Callable[[Batch], bool]
    delete_retention_ms: int
    now_ms: int


def compacted(batches: Sequence[Batch], rules: Compaction) -> list[Batch]:
    """The batches after compaction."""
    from kwire.protocol.records import read_records

    records = [read_records(bytes(batch.data), check_crcs=False) for batch in batches]
    latest = _latest_offsets(batches, records, rules)
    kept: list[Batch] = []
    for batch, rows in zip(batches, records, strict=True):
        staying = [row for row in rows if _stays(batch, row, latest, rules)]
        if staying or rules.keeps_producer(batch):
            kept.append(_rewritten(batch, rows, staying, rules))
    return kept


def _latest_offsets(
    batches: Sequence[Batch], records: Sequence[Sequence[StoredRecord]], rules: Compaction
) -> dict[bytes, int]:
    """The offset of the last record of each key, without aborted records."""
    return {
        row.key: row.offset
        for batch, rows in zip(batches, records, strict=True)
        for row in rows
        if row.key is not None and not row.control and not rules.is_aborted(batch.producer_id, row.offset)
    }


def _stays(batch: Batch, row: StoredRecord, latest: dict[bytes, int], rules: Compaction) -> bool:
    if row.control:
        return rules.has_data(batch.producer_id, row.offset) or not _horizon_passed(batch, rules)
    if row.key is None or rules.is_aborted(batch.producer_id, row.offset):
        return False
    if latest.get(row.key, -1) > row.offset:
        return False
    return row.value is not None or not _horizon_passed(batch, rules)


def _horizon_passed(batch: Batch, rules: Compaction) -> bool:
    return batch.has_delete_horizon and batch.base_timestamp <= rules.now_ms


def _rewritten(batch: Batch, rows: list[StoredRecord], staying: list[StoredRecord], rules: Compaction) -> Batch:
    """The batch with only these records; the same object if nothing about it changes."""
    needs_horizon = any(row.control or row.value is None for row in staying) and not batch.has_delete_horizon
    if len(staying) == len(rows) and not needs_horizon:
        return batch
    fields = ChecksummedFields.of(batch)._replace(record_count=len(staying))
    if not staying:
        return _shell(batch, fields)
    if needs_horizon:
        # KIP-534: the base timestamp becomes the horizon, and the records' deltas count from there.
        horizon_ms = rules.now_ms + rules.delete_retention_ms
        fields = fields._replace(attributes=fields.attributes | DELETE_HORIZON_BIT, base_timestamp_ms=horizon_ms)
    fields = fields._replace(max_timestamp_ms=max(row.timestamp for row in staying))
    payload = b"".join(
        record_bytes(
            row.offset - batch.base_offset, row.timestamp - fields.base_timestamp_ms, row.key, row.value, row.headers
        )
        for row in staying
    )
    return _placed_anew(batch, fields, compress(batch.codec, payload))


def _shell(batch: Batch, fields: ChecksummedFields) -> Batch:
    """The batch without records. It names no codec: librdkafka would try for ever to decompress records that are not
    there."""
    kept = batch.attributes & (LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT)
    return _placed_anew(batch, fields._replace(attributes=kept, base_timestamp_ms=batch.max_timestamp), b"")


def _placed_anew(batch: Batch, fields: ChecksummedFields, payload: bytes) -> Batch:
    data = framed(fields, payload, base_offset=batch.base_offset, leader_epoch=batch.partition_leader_epoch)
    return next(iter_batches(data, check_crcs=False))
