"""PartitionLog: placing, reading, limits, marks, searching by time, and all the ways in which a log gets shorter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwire.errors import InvalidArgumentError
from kwire.protocol.records import iter_batches, read_records
from kwire.testing.cluster.batches import NewRecord, build_batch
from kwire.testing.cluster.log import PartitionLog
from kwire.testing.cluster.settings import TopicSettings

NOW_MS = 1_700_000_000_000
NO_LIMIT = 1 << 30


def batch(count: int, *, at_ms: int = NOW_MS, value: bytes = b"v") -> bytes:
    return build_batch([NewRecord(value, timestamp_ms=at_ms + nth) for nth in range(count)], timestamp_ms=at_ms)


def transactional(log: PartitionLog, producer_id: int, count: int, *, sequence: int = 0) -> int:
    data = build_batch(
        [b"t"] * count,
        timestamp_ms=NOW_MS,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    return log.append(data, 0, NOW_MS).base_offset


@pytest.fixture
def log() -> PartitionLog:
    """Three batches: offsets 0 to 2, 3 to 5, 6 to 8, each a second younger, the last in leader epoch 1."""
    made = PartitionLog(TopicSettings())
    for nth in range(3):
        made.append(batch(3, at_ms=NOW_MS + 1000 * nth), nth // 2, NOW_MS)
    return made


def offsets(data: bytes) -> list[int]:
    return [record.offset for record in read_records(data)]


def test_batches_are_placed_one_behind_the_other(log: PartitionLog) -> None:
    assert offsets(log.read(0, NO_LIMIT).records) == list(range(9))
    assert [each.partition_leader_epoch for each in log.batches] == [0, 0, 1]
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 9, 9)


def test_reading_begins_with_the_batch_that_holds_the_offset(log: PartitionLog) -> None:
    assert offsets(log.read(4, NO_LIMIT).records)[0] == 3
    assert log.read(9, NO_LIMIT).records == b""


def test_a_limit_cuts_the_last_batch_off(log: PartitionLog) -> None:
    """As Kafka does, which reads bytes; a reader drops what is not whole."""
    first = len(log.batches[0].data)
    cut = log.read(0, first + 10).records
    assert len(cut) == first + 10
    assert len(list(iter_batches(cut))) == 1


def test_the_first_batch_is_whole_whatever_the_limit(log: PartitionLog) -> None:
    """KIP-74."""
    assert offsets(log.read(3, 1).records) == [3, 4, 5]
    assert log.read(3, 1, whole_first=False).records == b""


def test_a_log_begins_later_when_records_are_deleted(log: PartitionLog) -> None:
    """KIP-107: the batch that holds the new start stays whole."""
    assert log.delete_records_before(4) == 4
    assert offsets(log.read(4, NO_LIMIT).records) == [3, 4, 5, 6, 7, 8]
    assert log.delete_records_before(2) == 4, "the start went back"
    with pytest.raises(InvalidArgumentError):
        log.delete_records_before(10)
    assert log.delete_records_before(9) == 9
    assert log.batches == ()


def test_searching_by_time_looks_into_batches(log: PartitionLog) -> None:
    assert log.offset_for_timestamp(NOW_MS + 1001) == (NOW_MS + 1001, 4, 0)
    assert log.offset_for_timestamp(NOW_MS + 1003) == (NOW_MS + 2000, 6, 1)
    assert log.offset_for_timestamp(NOW_MS + 2003) is None


def test_searching_by_time_does_not_find_what_is_deleted(log: PartitionLog) -> None:
    log.delete_records_before(4)
    assert log.offset_for_timestamp(0) == (NOW_MS + 1001, 4, 0)


def test_the_largest_time_may_be_anywhere(log: PartitionLog) -> None:
    """KIP-734."""
    log.append(batch(2, at_ms=NOW_MS), 1, NOW_MS)
    assert log.largest_timestamp() == (NOW_MS + 2002, 8, 1)
    assert PartitionLog(TopicSettings()).largest_timestamp() is None


def test_readers_of_committed_records_stop_at_the_open_transaction(log: PartitionLog) -> None:
    transactional(log, 5, 2)
    log.append(batch(1), 1, NOW_MS)
    found = log.read(0, NO_LIMIT, committed_only=True)
    assert offsets(found.records)[-1] == 8
    assert (found.last_stable_offset, found.high_watermark) == (9, 12)
    assert log.read(0, NO_LIMIT).aborted is None


def test_readers_of_committed_records_stop_in_front_of_a_batch_whose_beginning_is_deleted(log: PartitionLog) -> None:
    """The open transaction begins where the log does then, in the middle of a batch: Kafka hands out none of it."""
    transactional(log, 5, 3)  # 9, 10, 11
    log.delete_records_before(10)
    found = log.read(10, NO_LIMIT, committed_only=True)
    assert (bytes(found.records), found.last_stable_offset) == (b"", 10)
    assert offsets(log.read(10, NO_LIMIT).records)[-1] == 11


def test_aborted_transactions_are_named_to_whoever_reads_over_them(log: PartitionLog) -> None:
    transactional(log, 5, 2)  # 9, 10
    transactional(log, 6, 1)  # 11
    log.end_transaction(5, 0, 1, NOW_MS, committed=False)  # 12
    log.end_transaction(6, 0, 1, NOW_MS, committed=True)  # 13
    transactional(log, 5, 1, sequence=2)  # 14
    log.end_transaction(5, 0, 1, NOW_MS, committed=False)  # 15

    def aborted(offset: int, max_bytes: int) -> list[tuple[int, int]]:
        found = log.read(offset, max_bytes, committed_only=True).aborted
        return [(one.producer_id, one.first_offset) for one in found or []]

    assert aborted(0, NO_LIMIT) == [(5, 9), (5, 14)]
    assert aborted(0, 1) == []
    assert aborted(10, 1) == [(5, 9)]
    assert aborted(13, NO_LIMIT) == [(5, 14)]


def test_an_unclean_election_takes_records_transactions_and_epochs_back(log: PartitionLog) -> None:
    transactional(log, 5, 2)
    log.end_transaction(5, 0, 1, NOW_MS, committed=False)
    log.truncate_to(11)
    assert (log.log_end_offset, log.last_stable_offset) == (11, 9), "the transaction is open again"
    assert log.aborted_between(0, 100) == []
    log.truncate_to(6)
    assert log.end_offset_for_epoch(1) == (-1, -1)
    assert log.last_stable_offset == 6
    assert log.append(batch(1), 2, NOW_MS).base_offset == 6
    assert log.end_offset_for_epoch(0) == (0, 6)
    assert log.end_offset_for_epoch(2) == (2, 7)


def test_truncation_inside_a_batch_takes_the_whole_batch(log: PartitionLog) -> None:
    log.truncate_to(4)
    assert log.log_end_offset == 3
    assert offsets(log.read(0, NO_LIMIT).records) == [0, 1, 2]


def test_a_producer_that_was_truncated_away_writes_its_batch_again(log: PartitionLog) -> None:
    assert transactional(log, 5, 2) == 9
    log.truncate_to(9)
    assert transactional(log, 5, 2) == 9
    assert log.log_end_offset == 11


def test_the_append_time_is_told_to_producers() -> None:
    log = PartitionLog(TopicSettings(message_timestamp_type="LogAppendTime"))
    data = build_batch([b"v"], timestamp_ms=NOW_MS, producer_id=1, producer_epoch=0, base_sequence=0)
    assert log.append(data, 0, NOW_MS + 5).log_append_time_ms == NOW_MS + 5
    assert log.append(data, 0, NOW_MS + 99).log_append_time_ms == NOW_MS + 5, "a repetition has the first one's time"


def test_old_batches_go_with_time() -> None:
    log = PartitionLog(TopicSettings(retention_ms=1500))
    for nth in range(3):
        log.append(batch(1, at_ms=NOW_MS + 1000 * nth), 0, NOW_MS)
    assert log.retain(NOW_MS + 1500) == 0
    assert log.retain(NOW_MS + 1501) == 1
    assert log.retain(NOW_MS + 99_000) == 3


def test_old_batches_go_when_there_are_too_many() -> None:
    size_bytes = len(batch(1))
    log = PartitionLog(replace(TopicSettings(), retention_bytes=2 * size_bytes, retention_ms=-1))
    for _ in range(5):
        log.append(batch(1), 0, NOW_MS)
    assert log.retain(NOW_MS) == 3
    assert log.size_bytes == 2 * size_bytes


@pytest.mark.parametrize(("kept", "start"), [(0.5, 4), (1.0, 4), (1.5, 3), (5.0, 0), (0.0, 5), (-5.0, 0)])
def test_at_least_so_many_bytes_stay_and_any_number_below_0_is_no_bound(kept: float, start: int) -> None:
    """As in Kafka: it deletes what is over, and never goes below."""
    size_bytes = len(batch(1))
    log = PartitionLog(replace(TopicSettings(), retention_bytes=int(kept * size_bytes), retention_ms=-1))
    for _ in range(5):
        log.append(batch(1), 0, NOW_MS)
    assert log.retain(NOW_MS) == start


def test_a_gap_has_no_records_and_reading_goes_on_behind_it(log: PartitionLog) -> None:
    log.leave_gap(1_000)
    log.append(batch(2), 1, NOW_MS)
    assert offsets(log.read(9, NO_LIMIT).records) == [1_009, 1_010]
    assert log.log_end_offset == 1_011
