"""Batches that the in-process cluster writes are what kwire's decoder, an independent reader, makes of them."""

from __future__ import annotations

import pytest

from kwire.errors import CorruptRecordError, InvalidArgumentError
from kwire.model import Header
from kwire.protocol.records import Codec, ControlType, iter_batches, read_control, read_records
from kwire.testing.cluster.batches import NewRecord, build_batch, placed, transaction_marker, varint, with_times

NOW_MS = 1_700_000_000_000
ROWS = (
    NewRecord(b"v0", b"k0", (Header("h", b"1"), Header("n", None)), NOW_MS - 5),
    NewRecord(None, b"k1"),
    NewRecord(b"x" * 300, None, (), NOW_MS + 9),
)


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
def test_records_come_out_as_they_went_in_under_every_codec(codec: Codec) -> None:
    data = build_batch(ROWS, timestamp_ms=NOW_MS, codec=codec)
    records = read_records(data)
    assert [(r.key, r.value, r.headers) for r in records] == [(r.key, r.value, r.headers) for r in ROWS]
    assert [r.timestamp - NOW_MS for r in records] == [-5, 0, 9]
    assert [r.offset for r in records] == [0, 1, 2]
    batch = next(iter_batches(data))
    assert (batch.max_timestamp, batch.codec) == (NOW_MS + 9, codec)


def test_plain_bytes_are_a_value_without_a_key() -> None:
    (record,) = read_records(build_batch([b"value"], timestamp_ms=NOW_MS))
    assert (record.key, record.value, record.timestamp) == (None, b"value", NOW_MS)


def test_a_batch_without_records_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="at least one"):
        build_batch([], timestamp_ms=NOW_MS)


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="codec id 5"):
        build_batch([b"v"], timestamp_ms=NOW_MS, codec=5)


def test_placing_a_batch_leaves_its_checksum_good() -> None:
    batch = next(iter_batches(placed(build_batch(ROWS, timestamp_ms=NOW_MS), 70, 4)))
    assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch) == (70, 72, 4)


def test_stamping_a_batch_counts_its_checksum_anew() -> None:
    original = next(iter_batches(build_batch(ROWS, timestamp_ms=NOW_MS)))
    stamped = with_times(original, NOW_MS + 77, appended=True)
    assert {record.timestamp for record in read_records(stamped)} == {NOW_MS + 77}
    assert next(iter_batches(with_times(original, NOW_MS + 78, appended=False))).max_timestamp == NOW_MS + 78
    with pytest.raises(CorruptRecordError):
        read_records(stamped[:-1] + b"\xff")


@pytest.mark.parametrize(("committed", "kind"), [(True, ControlType.COMMIT), (False, ControlType.ABORT)])
def test_a_marker_reads_as_the_end_of_a_transaction(committed: bool, kind: ControlType) -> None:
    data = transaction_marker(7, 3, committed=committed, coordinator_epoch=2, timestamp_ms=NOW_MS)
    batch = next(iter_batches(data))
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, -1)
    assert read_control(batch) == (kind, 0, 2)


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, b"\0"), (-1, b"\1"), (63, b"\x7e"), (64, b"\x80\1"), (-65, b"\x81\1"), (300, b"\xd8\4")]
)
def test_varints_are_zigzag(value: int, encoded: bytes) -> None:
    assert varint(value) == encoded


@pytest.mark.parametrize("record", ["text", bytearray(b"value"), None, 7])
def test_what_is_no_record_is_refused_with_what_is_one(record: object) -> None:
    """It was an AttributeError about a timestamp."""
    with pytest.raises(InvalidArgumentError, match=f"or a NewRecord, .* not {type(record).__name__}"):
        build_batch([record], timestamp_ms=0)  # type: ignore[list-item]  # that is the point
