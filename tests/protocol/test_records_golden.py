"""Record sets that Kafka's own classes wrote, or damaged, are read as those classes read them.

`golden_records/record-sets.jsonl.gz` holds one record set a line: its bytes and what the Java reader made of them, or
the error it refused them with and the records it had delivered by then.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from pathlib import Path
from typing import TypedDict

import pytest

from kwire.errors import CorruptRecordError
from kwire.model import TimestampType
from kwire.protocol.records import Batch, Codec, decode_available, iter_batches, read_control, read_records

pytestmark = pytest.mark.usefixtures("in_c_and_in_python")

GOLDEN = Path(__file__).parent / "golden_records" / "record-sets.jsonl.gz"
TIMESTAMP_TYPES = {
    "NoTimestampType": TimestampType.NO_TIMESTAMP_TYPE,
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}


class GoldenBatch(TypedDict):
    magic: int
    base_offset: int
    last_offset: int
    next_offset: int
    size_in_bytes: int
    crc: int
    compression: str
    timestamp_type: str
    base_timestamp: int | None
    max_timestamp: int
    delete_horizon_ms: int | None
    transactional: bool
    control: bool
    producer_id: int
    producer_epoch: int
    base_sequence: int
    partition_leader_epoch: int
    record_count: int | None


class GoldenRecord(TypedDict, total=False):
    batch: int
    offset: int
    timestamp: int
    timestamp_type: str
    key: str | None
    value: str | None
    headers: list[tuple[str, str | None]]
    sequence: int
    control: bool
    transactional: bool
    producer_id: int
    producer_epoch: int
    partition_leader_epoch: int
    control_type: str
    coordinator_epoch: int


class Golden(TypedDict, total=False):
    case: str
    hex: str
    valid_bytes: int
    batches: list[GoldenBatch]
    expect: list[GoldenRecord]
    error: dict[str, str]
    expect_before_error: list[GoldenRecord]


def load() -> list[Golden]:
    with gzip.open(GOLDEN, "rt") as lines:
        return [json.loads(line) for line in lines]


ALL = load()
READ = [pytest.param(golden, id=golden["case"]) for golden in ALL if "error" not in golden]
REFUSED = [pytest.param(golden, id=golden["case"]) for golden in ALL if "error" in golden]


def raw(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def expected(record: GoldenRecord) -> tuple[object, ...]:
    return (
        record["offset"],
        record["timestamp"],
        TIMESTAMP_TYPES[record["timestamp_type"]],
        raw(record["key"]),
        raw(record["value"]),
        tuple((name, raw(value)) for name, value in record["headers"]),
        record["control"],
        record["transactional"],
        record["producer_id"],
        record["producer_epoch"],
        record["sequence"],
        record["partition_leader_epoch"],
    )


def test_the_corpus_is_all_there() -> None:
    assert len(READ) > 300
    assert len(REFUSED) > 200
    formats = {batch["magic"] for golden in ALL for batch in golden.get("batches", ())}
    codecs = {batch["compression"] for golden in ALL for batch in golden.get("batches", ())}
    assert formats == {0, 1, 2}
    assert codecs == {codec.name.lower() for codec in Codec}


@pytest.mark.parametrize("golden", READ)
def test_records_are_those_java_reads(golden: Golden) -> None:
    data = bytes.fromhex(golden["hex"])
    records = [expected(record) for record in golden["expect"]]
    assert [tuple(record) for record in read_records(data)] == records
    assert [tuple(record) for record in read_records(memoryview(bytearray(data)))] == records


@pytest.mark.parametrize("golden", READ)
def test_all_batches_decoded_at_once_give_the_same(golden: Golden) -> None:
    batches = list(iter_batches(bytes.fromhex(golden["hex"])))
    decoded = decode_available(batches)
    records = golden["expect"]
    assert (decoded.taken, decoded.error) == (len(batches), None)
    assert decoded.columns.offsets.tolist() == [record["offset"] for record in records]
    assert decoded.columns.timestamps.tolist() == [record["timestamp"] for record in records]
    assert decoded.columns.keys() == [raw(record["key"]) for record in records]
    assert decoded.columns.values() == [raw(record["value"]) for record in records]
    assert decoded.columns.leader_epochs.tolist() == [record["partition_leader_epoch"] for record in records]
    assert decoded.columns.headers() == [expected(record)[5] for record in records]


@pytest.mark.parametrize("golden", READ)
def test_batch_headers_are_those_java_reads(golden: Golden) -> None:
    data = bytes.fromhex(golden["hex"])
    batches = list(iter_batches(data))
    assert sum(batch.size_bytes for batch in batches) == golden["valid_bytes"]
    assert len(batches) == len(golden["batches"])
    for batch, java in zip(batches, golden["batches"], strict=True):
        assert_header(batch, java)


def assert_header(batch: Batch, java: GoldenBatch) -> None:
    assert batch.magic == java["magic"]
    assert (batch.last_offset, batch.next_offset) == (java["last_offset"], java["next_offset"])
    assert (batch.size_bytes, batch.crc) == (java["size_in_bytes"], java["crc"])
    assert Codec(batch.codec).name.lower() == java["compression"]
    assert batch.timestamp_type is TIMESTAMP_TYPES[java["timestamp_type"]]
    assert batch.max_timestamp == java["max_timestamp"]
    assert (batch.is_transactional, batch.is_control) == (java["transactional"], java["control"])
    assert (batch.producer_id, batch.producer_epoch) == (java["producer_id"], java["producer_epoch"])
    assert (batch.base_sequence, batch.partition_leader_epoch) == (
        java["base_sequence"],
        java["partition_leader_epoch"],
    )
    assert batch.has_delete_horizon == (java["delete_horizon_ms"] is not None)
    if batch.magic == 2:
        assert (batch.base_offset, batch.record_count) == (java["base_offset"], java["record_count"])
        assert batch.base_timestamp == (java["delete_horizon_ms"] or java["base_timestamp"])


CONTROL = [pytest.param(golden, id=golden["case"]) for golden in ALL if "v2/control/" in golden["case"]]


@pytest.mark.parametrize("golden", CONTROL)
def test_control_records_are_those_java_reads(golden: Golden) -> None:
    batches = list(iter_batches(bytes.fromhex(golden["hex"])))
    for record in golden["expect"]:
        control = read_control(batches[record["batch"]])
        assert control is not None
        assert control.type.name == record["control_type"]
        assert control.coordinator_epoch == record.get("coordinator_epoch")


@pytest.mark.parametrize("golden", REFUSED)
def test_what_java_refuses_is_refused(golden: Golden) -> None:
    with pytest.raises(CorruptRecordError) as refused:
        read_records(bytes.fromhex(golden["hex"]))
    assert refused.value.offset is not None
    assert refused.value.problem


@pytest.mark.parametrize("golden", REFUSED)
def test_what_lies_in_front_of_the_damage_is_delivered(golden: Golden) -> None:
    """All batches in front of the damaged one; Java, which inflates as it goes, may reach into that one as well."""
    batches, framing = batches_in_front(bytes.fromhex(golden["hex"]))
    decoded = decode_available(batches)
    assert framing is not None or decoded.error is not None
    java = [record for record in golden["expect_before_error"] if record["batch"] < decoded.taken]
    assert decoded.columns.offsets.tolist() == [record["offset"] for record in java]
    assert decoded.columns.values() == [raw(record["value"]) for record in java]


def batches_in_front(data: bytes, *, check_crcs: bool = True) -> tuple[list[Batch], CorruptRecordError | None]:
    batches = []
    reader = iter_batches(data, check_crcs=check_crcs)
    while True:
        try:
            batches.append(next(reader))
        except StopIteration:
            return batches, None
        except CorruptRecordError as error:
            return batches, error


CHECKSUMS = [
    pytest.param(golden, id=golden["case"])
    for golden in ALL
    if golden.get("error", {}).get("message", "").startswith("Record is corrupt (stored crc")
]


@pytest.mark.parametrize("golden", CHECKSUMS)
def test_without_checksums_a_wrong_one_is_not_the_problem(golden: Golden) -> None:
    data = bytes.fromhex(golden["hex"])
    with pytest.raises(CorruptRecordError, match="wrong checksum"):
        read_records(data)
    _, framing = batches_in_front(data, check_crcs=False)
    assert framing is None or "checksum" not in framing.problem
