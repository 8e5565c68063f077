"""Compaction keeps the last record of each key, and what transactions and producers still need of the rest."""

from __future__ import annotations

import pytest

from kwire.protocol.records import Codec, read_records
from kwire.testing.cluster.batches import NewRecord, build_batch
from kwire.testing.cluster.log import PartitionLog
from kwire.testing.cluster.settings import TopicSettings
from kwire.testing.cluster.validation import RecordsRefusedError

NOW_MS = 1_700_000_000_000
RETENTION_MS = 1000
NO_LIMIT = 1 << 30


@pytest.fixture
def log() -> PartitionLog:
    return PartitionLog(TopicSettings(cleanup_policy="compact", delete_retention_ms=RETENTION_MS))


def write(log: PartitionLog, *rows: tuple[str, str | None], codec: Codec = Codec.NONE) -> None:
    records = [NewRecord(None if value is None else value.encode(), key.encode()) for key, value in rows]
    log.append(build_batch(records, timestamp_ms=NOW_MS, codec=codec), 0, NOW_MS)


def write_in_transaction(
    log: PartitionLog, producer_id: int, sequence: int, *rows: tuple[str, str], epoch: int = 0
) -> None:
    data = build_batch(
        [NewRecord(value.encode(), key.encode()) for key, value in rows],
        timestamp_ms=NOW_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    log.append(data, 0, NOW_MS)


def left(log: PartitionLog) -> list[tuple[int, str, str | None]]:
    records = read_records(log.read(log.log_start_offset, NO_LIMIT).records)
    return [
        (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
        for record in records
        if not record.control
    ]


def markers(log: PartitionLog) -> list[int]:
    return [batch.base_offset for batch in log.batches if batch.is_control and batch.record_count]


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
def test_the_last_record_of_each_key_stays_where_it_was(log: PartitionLog, codec: Codec) -> None:
    write(log, ("a", "1"), ("b", "1"), ("a", "2"), codec=codec)
    write(log, ("c", "1"), ("a", "3"), codec=codec)
    log.compact(NOW_MS)
    assert left(log) == [(1, "b", "1"), (3, "c", "1"), (4, "a", "3")]
    assert log.log_end_offset == 5
    assert [batch.codec for batch in log.batches] == [codec, codec]
    assert [batch.last_offset for batch in log.batches] == [2, 4], "batches cover the offsets that they covered"


def test_what_does_not_change_is_not_written_anew(log: PartitionLog) -> None:
    write(log, ("a", "1"), ("b", "1"))
    before = log.batches
    log.compact(NOW_MS)
    assert log.batches[0] is before[0]


def test_reading_goes_on_over_the_gaps(log: PartitionLog) -> None:
    for value in "123":
        write(log, ("a", value))
    log.compact(NOW_MS)
    assert left(log) == [(2, "a", "3")]
    assert [record.offset for record in read_records(log.read(0, NO_LIMIT).records)] == [2]
    write(log, ("b", "1"))
    assert left(log)[-1] == (3, "b", "1")


def test_a_deletion_stays_until_its_horizon(log: PartitionLog) -> None:
    """KIP-534: readers that are not far behind must hear of it."""
    write(log, ("a", "1"))
    write(log, ("a", None), ("b", "1"))
    log.compact(NOW_MS)
    assert left(log) == [(1, "a", None), (2, "b", "1")]
    assert log.batches[-1].has_delete_horizon
    assert {record.timestamp for record in read_records(log.read(0, NO_LIMIT).records)} == {NOW_MS}, "times changed"
    log.compact(NOW_MS + RETENTION_MS - 1)
    assert left(log) == [(1, "a", None), (2, "b", "1")]
    log.compact(NOW_MS + RETENTION_MS)
    assert left(log) == [(2, "b", "1")]


def test_nothing_behind_an_open_transaction_is_touched(log: PartitionLog) -> None:
    write(log, ("a", "1"))
    write_in_transaction(log, 5, 0, ("a", "2"))
    write(log, ("a", "3"))
    log.compact(NOW_MS)
    assert [offset for offset, _, _ in left(log)] == [0, 1, 2]


def test_records_of_aborted_transactions_go_and_hide_nothing(log: PartitionLog) -> None:
    write(log, ("a", "1"))
    write_in_transaction(log, 5, 0, ("a", "aborted"))
    log.end_transaction(5, 0, 0, NOW_MS, committed=False)
    log.compact(NOW_MS)
    assert left(log) == [(0, "a", "1")]


def test_an_aborted_transaction_without_records_hides_nothing_of_the_producer_s_next_one(log: PartitionLog) -> None:
    """Readers of committed records leave out what follows until its marker comes, which is gone: they lost the rest."""
    write_in_transaction(log, 5, 0, ("a", "aborted"))
    log.end_transaction(5, 0, 0, NOW_MS, committed=False)
    write_in_transaction(log, 5, 1, ("b", "1"))
    log.end_transaction(5, 0, 0, NOW_MS, committed=True)
    told = log.read(0, NO_LIMIT, committed_only=True).aborted
    assert [(one.producer_id, one.first_offset) for one in told or ()] == [(5, 0)]
    for step in range(3):
        log.compact(NOW_MS + 10 * step * RETENTION_MS)
    assert (markers(log), left(log)) == ([3], [(2, "b", "1")])
    assert log.read(0, NO_LIMIT, committed_only=True).aborted == []


def test_an_empty_batch_says_nothing_of_a_codec(log: PartitionLog) -> None:
    """As Kafka writes it. librdkafka inflated what was not there, and never came to the next batch."""
    data = build_batch(
        [NewRecord(b"1", b"a")], timestamp_ms=NOW_MS, codec=Codec.GZIP, producer_id=5, producer_epoch=0, base_sequence=0
    )
    log.append(data, 0, NOW_MS)
    write(log, ("a", "2"))
    log.compact(NOW_MS)
    shell = log.batches[0]
    assert (shell.record_count, shell.codec, shell.base_timestamp, shell.max_timestamp) == (0, 0, NOW_MS, NOW_MS)


def test_a_marker_stays_as_long_as_its_records_and_then_until_its_horizon(log: PartitionLog) -> None:
    write_in_transaction(log, 5, 0, ("a", "1"))
    log.end_transaction(5, 1, 0, NOW_MS, committed=True)
    write_in_transaction(log, 5, 0, ("b", "1"), epoch=1)
    log.end_transaction(5, 2, 0, NOW_MS, committed=True)
    log.compact(NOW_MS)
    log.compact(NOW_MS + 10 * RETENTION_MS)
    assert markers(log) == [1, 3], "their records are still there"
    write(log, ("a", "2"))
    log.compact(NOW_MS + 20 * RETENTION_MS)
    log.compact(NOW_MS + 40 * RETENTION_MS)
    assert left(log) == [(2, "b", "1"), (4, "a", "2")]
    assert markers(log) == [3]


@pytest.mark.parametrize("committed", [True, False])
def test_a_producer_leaves_an_empty_batch_for_its_sequence(log: PartitionLog, committed: bool) -> None:
    write_in_transaction(log, 5, 0, ("a", "1"))
    write_in_transaction(log, 5, 1, ("a", "2"), ("b", "1"))
    log.end_transaction(5, 0, 0, NOW_MS, committed=committed)
    write(log, ("a", "3"), ("b", "3"))
    log.compact(NOW_MS)
    log.compact(NOW_MS + 10 * RETENTION_MS)
    shells = [batch for batch in log.batches if not batch.record_count]
    assert [(batch.producer_id, batch.base_sequence, batch.last_offset) for batch in shells] == [(5, 1, 2)]
    assert markers(log) == [3], "else the shell would read as an open transaction"
    log.truncate_to(log.log_end_offset)  # a broker that starts learns from what is left
    assert log.last_stable_offset == log.log_end_offset == 6
    with pytest.raises(RecordsRefusedError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        write_in_transaction(log, 5, 4, ("c", "1"))
    write_in_transaction(log, 5, 3, ("c", "1"))
    assert left(log)[-1] == (6, "c", "1")


def test_a_producer_without_records_in_its_epoch_leaves_the_marker_that_fences(log: PartitionLog) -> None:
    write_in_transaction(log, 5, 0, ("a", "1"))
    log.end_transaction(5, 7, 0, NOW_MS, committed=True)
    write(log, ("a", "2"))
    for step in range(4):
        log.compact(NOW_MS + 10 * step * RETENTION_MS)
    shells = [batch for batch in log.batches if not batch.record_count]
    assert [(batch.is_control, batch.producer_epoch) for batch in shells] == [(True, 7)]
