"""One line of a record corpus: a record set, and what Kafka's own reader made of it, or how it refused it.

A line that Kafka reads passes when every record, every batch header and the number of whole bytes are the same. A line
that Kafka refuses passes when kwire refuses it with CorruptRecordError, having delivered exactly the batches in front
of the damaged one; Kafka inflates as it goes and may reach into that one too.
"""

from __future__ import annotations

from base64 import b64decode
from contextlib import suppress
from typing import TYPE_CHECKING

from kwire.errors import CorruptRecordError
from kwire.model import TimestampType
from kwire.protocol.records import Batch, Codec, StoredRecord, decode_available, iter_batches, read_control
from kwire.protocol.records import read_records as read_record_set
from tools.corpus.lines import CorpusError, Verdict, bytes_of, list_of, number_of, text_of

if TYPE_CHECKING:
    from tools.corpus.lines import Line

TIMESTAMP_TYPES = {
    "NoTimestampType": TimestampType.NO_TIMESTAMP_TYPE,
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}


def judge(line: Line) -> Verdict:
    """Try one line.

    Raises:
        CorpusError: The line is not complete.
    """
    case, data = text_of(line, "case"), bytes_of(line)
    family = "/".join(case.split("#", maxsplit=1)[0].split("/")[:2])
    is_refused = "error" in line
    try:
        problem = _refused(line, data) if is_refused else _read(line, data)
    except CorruptRecordError as error:
        problem = f"kwire refuses what Kafka reads: {error}"
    return Verdict(row=(family, 0), column="refused" if is_refused else "read", problem=problem)


def _read(line: Line, data: bytes) -> str:
    batches = list(iter_batches(data))
    if sum(batch.size_bytes for batch in batches) != number_of(line, "valid_bytes"):
        return f"{sum(batch.size_bytes for batch in batches)} bytes are whole batches, Kafka says {line['valid_bytes']}"
    headers = [_wrong_header(ours, theirs) for ours, theirs in zip(batches, list_of(line, "batches"), strict=False)]
    if len(headers) != len(batches) or len(batches) != len(list_of(line, "batches")):
        return f"{len(batches)} batches, Kafka has {len(list_of(line, 'batches'))}"
    return next(filter(None, headers), "") or _wrong_records(line, data) or _wrong_markers(line, batches)


def _wrong_header(batch: Batch, java: Line) -> str:
    """The first field of a batch header that differs."""
    ours: Line = {
        "magic": batch.magic,
        "last_offset": batch.last_offset,
        "next_offset": batch.next_offset,
        "size_in_bytes": batch.size_bytes,
        "crc": batch.crc,
        "compression": Codec(batch.codec).name.lower(),
        "max_timestamp": batch.max_timestamp,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "partition_leader_epoch": batch.partition_leader_epoch,
    }
    if batch.magic == 2:  # in the older formats Kafka tells these of the messages inside
        ours |= {"base_offset": batch.base_offset, "record_count": batch.record_count}
        ours["delete_horizon_ms"] = batch.base_timestamp if batch.has_delete_horizon else None
        if not batch.has_delete_horizon:  # a delete horizon stands in the place of the base timestamp (KIP-534)
            ours["base_timestamp"] = batch.base_timestamp
    differing = next((name for name, value in ours.items() if java.get(name) != value), None)
    if TIMESTAMP_TYPES.get(text_of(java, "timestamp_type")) != batch.timestamp_type:
        differing = "timestamp_type"
    return "" if differing is None else f"batch at byte {batch.position}: another {differing}"


def _wrong_records(line: Line, data: bytes) -> str:
    wanted = [_stored(record) for record in list_of(line, "expect")]
    for kind, given in (("bytes", data), ("a memoryview", memoryview(bytearray(data)))):
        found = read_record_set(given)
        if len(found) != len(wanted):
            return f"{len(found)} records from {kind}, Kafka has {len(wanted)}"
        for ours, theirs in zip(found, wanted, strict=True):
            if ours != theirs:
                return f"the record at offset {theirs[0]} from {kind} differs: {ours!r:.200}"
    return ""


def _wrong_markers(line: Line, batches: list[Batch]) -> str:
    for record in list_of(line, "expect"):
        if "control_type" in record:
            control = read_control(batches[number_of(record, "batch")])
            wanted = (record["control_type"], record.get("coordinator_epoch"))
            if control is None or (control.type.name, control.coordinator_epoch) != wanted:
                return f"the marker at offset {record['offset']} is {control}"
    return ""


def _stored(record: Line) -> tuple[object, ...]:
    """A record as `StoredRecord` has it, which compares as the tuple that it is."""
    headers = record.get("headers")
    if not isinstance(headers, list):
        raise CorpusError(f"'headers' should be a list, not {headers!r:.60}")
    values: Line = {
        **record,
        "timestamp_type": TIMESTAMP_TYPES.get(text_of(record, "timestamp_type")),
        "key": _raw(record.get("key")),
        "value": _raw(record.get("value")),
        "headers": tuple((name, _raw(value)) for name, value in headers),
    }
    return tuple(values[name] for name in StoredRecord._fields)


def _raw(text: object) -> bytes | None:
    return None if text is None else b64decode(str(text))


def _refused(line: Line, data: bytes) -> str:
    """What lies in front of the damage is delivered, and nothing of the damaged batch."""
    try:
        read_record_set(data)
    except CorruptRecordError:
        pass
    else:
        return "kwire reads what Kafka refuses"
    batches = _batches_in_front(data)
    decoded = decode_available(batches)
    java = [record for record in list_of(line, "expect_before_error") if number_of(record, "batch") < decoded.taken]
    reached = max((number_of(record, "batch") for record in list_of(line, "expect_before_error")), default=0)
    if reached > decoded.taken:
        return f"kwire delivers {decoded.taken} batches in front of the damage, Kafka reaches batch {reached}"
    columns = decoded.columns
    found = list(zip(columns.offsets.tolist(), columns.keys(), columns.values(), strict=True))
    if found != [(record["offset"], _raw(record["key"]), _raw(record["value"])) for record in java]:
        return f"other records than Kafka's in front of the damage: {len(found)}, Kafka has {len(java)}"
    return _crashes_without_checksums(data)


def _crashes_without_checksums(data: bytes) -> str:
    """Whatever the damage makes of the bytes, it is records or CorruptRecordError."""
    try:
        read_record_set(data, check_crcs=False)
    except CorruptRecordError:
        return ""
    except Exception as error:  # noqa: BLE001 - any other exception is the finding
        return f"with checksums off: {type(error).__name__}: {error}"
    return ""


def _batches_in_front(data: bytes) -> list[Batch]:
    batches: list[Batch] = []
    with suppress(CorruptRecordError):
        batches.extend(iter_batches(data))  # keeps those that came before the error
    return batches
