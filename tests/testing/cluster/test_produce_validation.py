"""What a broker refuses to append, with which code: Kafka's LogValidator, rule by rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.record_batch import iter_batches
from kwire.protocol.records import Codec, read_records
from kwire.testing.cluster.batches import ChecksummedFields, NewRecord, build_batch, framed, placed, transaction_marker
from kwire.testing.cluster.settings import TopicSettings
from kwire.testing.cluster.validation import RecordsRefusedError, checked, the_batch

NOW_MS = 1_700_000_000_000
GOOD = build_batch([b"one", b"two"], timestamp_ms=NOW_MS)
PLAIN = TopicSettings()


def check(data: bytes, settings: TopicSettings = PLAIN, version: int = 13) -> bytes:
    return checked(the_batch(data, version), settings, NOW_MS)


def refusal(data: bytes, settings: TopicSettings = PLAIN, version: int = 13) -> RecordsRefusedError:
    with pytest.raises(RecordsRefusedError) as caught:
        check(data, settings, version)
    return caught.value


def with_header(**changes: int) -> bytes:
    """GOOD with another header over the same records, and a checksum that fits."""
    batch = next(iter_batches(GOOD))
    return framed(ChecksummedFields.of(batch)._replace(**changes), GOOD[batch.payload_start :])


def test_a_good_batch_is_taken_as_it_is() -> None:
    assert check(GOOD) == GOOD


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="nothing"),
        pytest.param(GOOD + GOOD, ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(GOOD[:-4], ErrorCode.INVALID_RECORD, id="half a batch"),
        pytest.param(GOOD[:16] + b"\x01" + GOOD[17:], ErrorCode.INVALID_RECORD, id="an old format"),
        pytest.param(GOOD[:16] + b"\x07" + GOOD[17:], ErrorCode.CORRUPT_MESSAGE, id="an unknown format"),
        pytest.param(GOOD[:-1] + b"\x55", ErrorCode.CORRUPT_MESSAGE, id="a wrong checksum"),
        pytest.param(placed(GOOD, 5, -1), ErrorCode.INVALID_RECORD, id="offsets that do not begin at 0"),
        pytest.param(with_header(record_count=3), ErrorCode.INVALID_RECORD, id="a count that is not the offsets'"),
        pytest.param(with_header(last_offset_delta=-1, record_count=0), ErrorCode.INVALID_RECORD, id="no records"),
        pytest.param(
            with_header(last_offset_delta=2, record_count=3), ErrorCode.INVALID_RECORD, id="more records than there are"
        ),
        pytest.param(with_header(producer_id=5), ErrorCode.INVALID_RECORD, id="a producer without a sequence"),
        pytest.param(
            transaction_marker(1, 0, committed=True, coordinator_epoch=0, timestamp_ms=NOW_MS),
            ErrorCode.INVALID_RECORD,
            id="a marker",
        ),
    ],
)
def test_a_batch_that_breaks_a_rule_is_refused(data: bytes, code: ErrorCode) -> None:
    assert refusal(data).code is code


def test_zstd_is_for_clients_that_know_it() -> None:
    """KIP-110."""
    packed = build_batch([b"one"], timestamp_ms=NOW_MS, codec=Codec.ZSTD)
    assert refusal(packed, version=6).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert check(packed, version=7) == packed


def test_a_topic_limits_the_size_of_a_batch() -> None:
    assert refusal(GOOD, replace(PLAIN, max_message_bytes=len(GOOD) - 1)).code is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(GOOD, replace(PLAIN, segment_bytes=len(GOOD) - 1)).code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_compacted_topic_names_the_records_without_a_key() -> None:
    """KIP-467."""
    rows = [NewRecord(b"v", b"k"), NewRecord(b"v"), NewRecord(b"v", b""), NewRecord(b"v")]
    refused = refusal(build_batch(rows, timestamp_ms=NOW_MS), replace(PLAIN, cleanup_policy="compact"))
    assert refused.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in refused.record_errors] == [1, 3]
    assert str(refused).endswith("the first is record 1: a compacted topic takes no record without a key")


@pytest.mark.parametrize(("delta_ms", "refused"), [(0, []), (-101, [1]), (51, [1]), (-100, []), (50, [])])
def test_a_topic_limits_how_far_times_may_be_off(delta_ms: int, refused: list[int]) -> None:
    """KIP-937."""
    settings = replace(PLAIN, message_timestamp_before_max_ms=100, message_timestamp_after_max_ms=50)
    data = build_batch([b"now", NewRecord(b"then", timestamp_ms=NOW_MS + delta_ms)], timestamp_ms=NOW_MS)
    if not refused:
        assert check(data, settings) == data
    else:
        found = refusal(data, settings)
        assert found.code is ErrorCode.INVALID_TIMESTAMP
        assert [index for index, _ in found.record_errors] == refused


def test_a_largest_time_that_is_not_true_is_mended() -> None:
    mended = check(with_header(max_timestamp_ms=NOW_MS + 1_000_000))
    assert next(iter_batches(mended)).max_timestamp == NOW_MS


def test_the_append_time_is_that_of_all_records() -> None:
    """KIP-32."""
    data = build_batch([NewRecord(b"old", timestamp_ms=5), b"new"], timestamp_ms=NOW_MS - 10)
    stamped = check(data, replace(PLAIN, message_timestamp_type="LogAppendTime"))
    assert {record.timestamp for record in read_records(stamped)} == {NOW_MS}


def test_the_brokers_timestamp_type_is_not_a_producers_to_say() -> None:
    """KIP-32; where the producer's times count, Kafka silently mends the type."""
    stamped = with_header(attributes=8)
    refused = refusal(stamped, replace(PLAIN, message_timestamp_type="LogAppendTime"))
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [0, 1]
    assert check(stamped) == GOOD


@pytest.mark.parametrize(("name", "codec"), [("gzip", 1), ("zstd", 4), ("uncompressed", 0)])
def test_a_topic_with_a_codec_of_its_own_compresses_anew(name: str, codec: int) -> None:
    data = build_batch([b"a" * 50, b"b" * 50], timestamp_ms=NOW_MS, codec=Codec.LZ4, producer_id=3, base_sequence=9)
    stored = check(data, replace(PLAIN, compression_type=name))
    batch = next(iter_batches(stored))
    assert (batch.codec, batch.producer_id, batch.base_sequence) == (codec, 3, 9)
    assert [record.value for record in read_records(stored)] == [b"a" * 50, b"b" * 50]
