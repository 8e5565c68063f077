"""What a broker checks before it appends records that came from a client: Kafka's LogValidator and its forerunners.

Contract: pure; answers the batch with the times that belong in the log, or raises `RecordsRefusedError` with the code
that Kafka answers. Called by the Produce handler (`the_batch`) and by `log` (`checked`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastcrc.crc32 import iscsi as crc32c

from kwire.errors import CorruptRecordError
from kwire.protocol.deflation import ZSTD
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.record_batch import Batch, iter_batches
from kwire.testing.cluster.batches import CRC_COVERS_FROM, ChecksummedFields, compress, framed, with_times

if TYPE_CHECKING:
    from kwire.protocol.record_batch import Buffer
    from kwire.protocol.records import RecordColumns
    from kwire.testing.cluster.settings import TopicSettings

ZSTD_FROM = 7
"""The first version of Produce that may bring zstd (KIP-110)."""

NO_TIMESTAMP = -1
_CODEC_MASK = 0x07
_CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": ZSTD}


class RecordsRefusedError(Exception):
    """These records are not appended.

    Attributes:
        code: What the producer is told.
        message: Why, in words.
        record_errors: The records at fault, by their place in the batch, if it is single records (KIP-467).
        is_told: Whether the producer is told the message, too. Kafka tells few.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        record_errors: tuple[tuple[int, str], ...] = (),
        *,
        is_told: bool = False,
    ) -> None:
        self.code = code
        self.message = message
        self.record_errors = record_errors
        self.is_told = is_told
        why = f": {record_errors[0][1]}" if record_errors else ""
        super().__init__(f"{code.name}: {message}{why}")


def the_batch(records: Buffer | None, version: int) -> Batch:
    """The one batch that a Produce request of that version may bring for a partition.

    Raises:
        RecordsRefusedError: There is none, there are more, or it is of a kind that the version does not have.
    """
    try:
        batches = list(iter_batches(bytes(records or b""), check_crcs=False))
    except CorruptRecordError as error:
        raise RecordsRefusedError(ErrorCode.CORRUPT_MESSAGE, error.problem) from error
    if len(batches) != 1:
        raise RecordsRefusedError(
            ErrorCode.INVALID_RECORD, f"a partition's records in Produce v{version} are one batch, not {len(batches)}"
        )
    if batches[0].magic != 2:
        raise RecordsRefusedError(
            ErrorCode.INVALID_RECORD, f"Produce v{version} takes format 2, not {batches[0].magic}"
        )
    if batches[0].codec == ZSTD and version < ZSTD_FROM:
        raise RecordsRefusedError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce v{version} does not know zstd")
    return batches[0]


def checked(batch: Batch, settings: TopicSettings, now_ms: int) -> bytes:
    """The batch, as it goes into the log but for its place there.

    Args:
        batch: From a client.
        settings: The topic's.
        now_ms: The wall clock.

    Raises:
        RecordsRefusedError: It breaks one of Kafka's or of the topic's rules.
    """
    _check_frame(batch, settings)
    _check_header(batch)
    columns = _decoded(batch)
    _check_records(batch, columns, settings, now_ms)
    if settings.message_timestamp_type == "LogAppendTime":
        data = with_times(batch, now_ms, appended=True)
    else:
        # What a producer writes there is not believed: searches by time depend on it.
        largest_ms = max(columns.timestamps.tolist(), default=NO_TIMESTAMP)
        same = largest_ms == batch.max_timestamp and not batch.is_log_append_time
        data = bytes(batch.data[batch.position : batch.end]) if same else with_times(batch, largest_ms, appended=False)
    return _compressed_anew(data, settings)


def _check_frame(batch: Batch, settings: TopicSettings) -> None:
    if batch.base_offset != 0:
        raise RecordsRefusedError(ErrorCode.INVALID_RECORD, f"its base offset is {batch.base_offset}, not 0")
    if batch.size_bytes > settings.max_message_bytes:
        raise RecordsRefusedError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"its {batch.size_bytes} bytes are more than max.message.bytes, {settings.max_message_bytes}",
        )
    if crc32c(memoryview(batch.data)[batch.position + CRC_COVERS_FROM : batch.end]) != batch.crc:
        raise RecordsRefusedError(ErrorCode.CORRUPT_MESSAGE, "its checksum is wrong")
    if batch.size_bytes > settings.segment_bytes:
        raise RecordsRefusedError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"its {batch.size_bytes} bytes are more than segment.bytes, {settings.segment_bytes}",
        )


def _check_header(batch: Batch) -> None:
    problem = None
    if batch.record_count <= 0 or batch.last_offset_delta + 1 != batch.record_count:
        problem = f"it claims {batch.record_count} records over {batch.last_offset_delta + 1} offsets"
    elif batch.is_control:
        problem = "clients do not write control records"
    elif batch.producer_id >= 0 and batch.base_sequence < 0:
        problem = f"producer {batch.producer_id} gives the sequence number {batch.base_sequence}"
    if problem is not None:
        raise RecordsRefusedError(ErrorCode.INVALID_RECORD, problem)


def _decoded(batch: Batch) -> RecordColumns:
    # numpy is loaded with the first records, not with the cluster.
    from kwire.protocol.record_decoding import decode_columns

    try:
        return decode_columns([batch])
    except CorruptRecordError as error:
        raise RecordsRefusedError(ErrorCode.INVALID_RECORD, error.problem) from error


def _check_records(batch: Batch, columns: RecordColumns, settings: TopicSettings, now_ms: int) -> None:
    """Rules for single records; each that breaks one is named (KIP-467)."""
    if settings.is_compacted:
        without_key = [index for index, length in enumerate(columns.key_lengths.tolist()) if length < 0]
        _refuse(ErrorCode.INVALID_RECORD, without_key, "a compacted topic takes no record without a key")
    if settings.message_timestamp_type == "CreateTime":
        earliest_ms = now_ms - settings.message_timestamp_before_max_ms
        latest_ms = now_ms + settings.message_timestamp_after_max_ms
        times = columns.timestamps.tolist()
        outside = [
            index
            for index, time_ms in enumerate(times)
            if time_ms != NO_TIMESTAMP and not earliest_ms <= time_ms <= latest_ms
        ]
        _refuse(ErrorCode.INVALID_TIMESTAMP, outside, f"its timestamp is not within {earliest_ms} to {latest_ms}")
    elif batch.is_log_append_time:
        every = list(range(len(columns)))
        _refuse(ErrorCode.INVALID_TIMESTAMP, every, "producers do not say LogAppendTime")
    deltas = (columns.offsets - batch.base_offset).tolist()
    if deltas != list(range(len(deltas))):
        raise RecordsRefusedError(ErrorCode.INVALID_RECORD, "its records are not numbered 0, 1, 2...")


def _refuse(code: ErrorCode, indexes: list[int], problem: str) -> None:
    if indexes:
        message = f"one or more records have been rejected: {len(indexes)} in all, the first is record {indexes[0]}"
        raise RecordsRefusedError(code, message, tuple((index, problem) for index in indexes), is_told=True)


def _compressed_anew(data: bytes, settings: TopicSettings) -> bytes:
    """The same records under the topic's codec, if it has one of its own (`compression.type`)."""
    if settings.compression_type == "producer":
        return data
    batch = next(iter_batches(data, check_crcs=False))
    codec = _CODECS[settings.compression_type]
    if batch.codec == codec:
        return data
    from kwire.protocol.compression import DEFAULT_LIMIT_BYTES
    from kwire.protocol.record_payloads import inflate_payload

    fields = ChecksummedFields.of(batch)._replace(attributes=batch.attributes & ~_CODEC_MASK | codec)
    return framed(fields, compress(codec, bytes(inflate_payload(batch, DEFAULT_LIMIT_BYTES))))
