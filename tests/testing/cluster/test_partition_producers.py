"""Sequences, epochs and open transactions of a partition's producers (KIP-98, KIP-360, KIP-890), through the log."""

from __future__ import annotations

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.testing.cluster.batches import build_batch
from kwire.testing.cluster.log import AppendResult, PartitionLog
from kwire.testing.cluster.settings import TopicSettings
from kwire.testing.cluster.validation import RecordsRefusedError

NOW_MS = 1_700_000_000_000
LAST_SEQUENCE = 2**31 - 1


@pytest.fixture
def log() -> PartitionLog:
    return PartitionLog(TopicSettings())


def write(
    log: PartitionLog, sequence: int, count: int = 1, *, pid: int = 1, epoch: int = 0, transactional: bool = False
) -> AppendResult:
    batch = build_batch(
        [b"v"] * count,
        timestamp_ms=NOW_MS,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return log.append(batch, 0, NOW_MS)


def refused(log: PartitionLog, sequence: int, count: int = 1, *, epoch: int = 0) -> ErrorCode:
    before = log.log_end_offset
    with pytest.raises(RecordsRefusedError) as caught:
        write(log, sequence, count, epoch=epoch)
    assert log.log_end_offset == before, "a refused batch was written"
    return caught.value.code


def test_sequences_go_on_where_they_were(log: PartitionLog) -> None:
    assert [write(log, 0, 3).base_offset, write(log, 3, 2).base_offset] == [0, 3]
    assert refused(log, 6) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_each_of_the_last_five_batches_may_be_repeated(log: PartitionLog) -> None:
    placed = [write(log, 2 * nth, 2) for nth in range(6)]
    for nth in range(1, 6):
        again = write(log, 2 * nth, 2)
        assert again.is_repetition
        assert again[:2] == placed[nth][:2]
        assert again.log_append_time_ms == NOW_MS, "Kafka tells the batch's own time"
    assert log.log_end_offset == 12
    assert refused(log, 0, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_begins_the_same_but_ends_elsewhere_is_no_repetition(log: PartitionLog) -> None:
    write(log, 0, 3)
    assert refused(log, 0, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap(log: PartitionLog) -> None:
    write(log, LAST_SEQUENCE - 1, 2)
    assert write(log, 0).base_offset == 2
    assert write(log, LAST_SEQUENCE - 1, 2).is_repetition


def test_a_producer_nobody_remembers_may_begin_anywhere(log: PartitionLog) -> None:
    """KIP-360: its earlier records may have been deleted."""
    assert write(log, 500).base_offset == 0


def test_a_new_epoch_begins_at_zero_and_ends_the_old_one(log: PartitionLog) -> None:
    write(log, 0, 5)
    assert refused(log, 5, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(log, 0, epoch=1)
    assert refused(log, 5) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_producers_do_not_disturb_each_other(log: PartitionLog) -> None:
    write(log, 0, 2, pid=1)
    write(log, 0, 2, pid=2)
    assert write(log, 2, pid=1).base_offset == 4


def test_the_oldest_open_transaction_holds_readers_back(log: PartitionLog) -> None:
    write(log, 0, 2, pid=9)
    write(log, 0, pid=1, transactional=True)
    write(log, 0, pid=2, transactional=True)
    assert log.last_stable_offset == 2
    log.end_transaction(1, 0, 0, NOW_MS, committed=True)
    assert log.last_stable_offset == 3
    log.end_transaction(2, 0, 0, NOW_MS, committed=False)
    assert log.last_stable_offset == log.high_watermark == 6


def test_a_transaction_goes_on_with_the_sequence_when_its_epoch_stays(log: PartitionLog) -> None:
    write(log, 0, 2, transactional=True)
    log.end_transaction(1, 0, 0, NOW_MS, committed=True)
    assert refused(log, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert write(log, 2, transactional=True).base_offset == 3


def test_a_marker_with_a_new_epoch_fences_late_records(log: PartitionLog) -> None:
    """KIP-890: what was on its way when the transaction ended does not open another one."""
    write(log, 0, 2, transactional=True)
    log.end_transaction(1, 1, 0, NOW_MS, committed=False)
    assert refused(log, 2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert write(log, 0, epoch=1, transactional=True).base_offset == 3


def test_records_outside_of_the_open_transaction_are_refused(log: PartitionLog) -> None:
    write(log, 0, transactional=True)
    assert refused(log, 1) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_of_an_old_epoch_is_refused(log: PartitionLog) -> None:
    write(log, 0, epoch=4)
    with pytest.raises(RecordsRefusedError) as caught:
        log.end_transaction(1, 3, 0, NOW_MS, committed=True)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_without_records_ends_nothing_that_readers_are_told_of(log: PartitionLog) -> None:
    log.end_transaction(1, 0, 0, NOW_MS, committed=False)
    assert log.aborted_between(0, 10) == []
    assert log.last_stable_offset == 1
