"""The suite's encoder of record batches, against the reader, which Kafka's own bytes are the measure of."""

from __future__ import annotations

import pytest

from kwire.conformance.batches import RecordToWrite, Writer, encode_batch, varint
from kwire.model import Header
from kwire.protocol.record_varints import read_varint
from kwire.protocol.records import Codec, iter_batches, read_records

RECORDS = (
    RecordToWrite(b"value", b"key", (Header("a", b"1"), Header("a", None)), timestamp_ms=1000),
    RecordToWrite(None, None, timestamp_ms=900),
    RecordToWrite(b"", b"", timestamp_ms=5000),
    RecordToWrite(b"long " * 20_000, b"k", timestamp_ms=1001),
)


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_reads_back_as_written(codec: Codec) -> None:
    found = read_records(encode_batch(*RECORDS, codec=codec))
    assert [record.offset for record in found] == [0, 1, 2, 3]
    assert [(record.key, record.value, record.headers, record.timestamp) for record in found] == [
        (record.key, record.value, record.headers, record.timestamp_ms) for record in RECORDS
    ]


def test_the_header_tells_who_wrote() -> None:
    producer = Writer(producer_id=77, epoch=3, transactional=True)
    (batch,) = iter_batches(encode_batch(*RECORDS, producer=producer, base_sequence=9))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 9)
    assert batch.is_transactional
    assert not batch.is_control
    assert (batch.base_timestamp, batch.max_timestamp, batch.last_offset_delta) == (1000, 5000, 3)


def test_lz4_blocks_are_independent_as_kafka_wants_them() -> None:
    (batch,) = iter_batches(encode_batch(*RECORDS, codec=Codec.LZ4))
    flags = batch.data[batch.payload_start + 4]
    assert flags & 0x20, "the flag of block independence in the lz4 frame"


@pytest.mark.parametrize("value", [0, -1, 1, 63, 64, -64, -65, 8191, 8192, 300_000, (1 << 31) - 1, -(1 << 31)])
def test_varints_read_back(value: int) -> None:
    encoded = varint(value)
    assert read_varint(encoded, 0, len(encoded)) == (value, len(encoded))
