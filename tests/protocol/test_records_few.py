"""Few records are decoded in another way than many: what comes out is the same, damage included."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from kwire.errors import CorruptRecordError
from kwire.protocol import record_decoding
from kwire.protocol.record_few import MAX_FEW_RECORDS, few_columns
from kwire.protocol.record_payloads import Inflation, places_of
from kwire.protocol.records import Batch, RecordColumns, decode_columns, iter_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.record_batches import batch
else:
    from record_batches import batch

pytestmark = pytest.mark.usefixtures("in_c_and_in_python")

LOG_APPEND_TIME = 0x08
HEADER_BYTES = 61


def facts(columns: RecordColumns) -> list[object]:
    numbers = (columns.offsets, columns.timestamps, columns.timestamp_types, columns.leader_epochs)
    lengths = (columns.key_lengths, columns.value_lengths)
    kinds = [column.dtype for column in (*numbers, *lengths, columns.key_starts, columns.value_starts)]
    told = [column.tolist() for column in (*numbers, *lengths)]
    return [*told, kinds, columns.keys(), columns.values(), columns.headers(), columns.headers_at is None]


def outcome(batches: Sequence[Batch]) -> list[object]:
    try:
        return facts(decode_columns(batches))
    except CorruptRecordError as error:
        return [str(error)]


def both_ways(batches: Sequence[Batch], monkeypatch: pytest.MonkeyPatch) -> tuple[list[object], list[object]]:
    few = outcome(batches)
    with monkeypatch.context() as patch:
        patch.setattr(record_decoding, "_few", lambda *_: None)
        return few, outcome(batches)


def taken(batches: Sequence[Batch]) -> bool:
    """Whether the short way is one for these."""
    return few_columns(batches[0].data, [(each, each.payload_start, each.end) for each in batches]) is not None


def goes_the_short_way(batches: Sequence[Batch]) -> bool:
    buffer, behind = Inflation(batches, limit_bytes=1024, budget_bytes=None).payloads()
    return record_decoding._few(batches, buffer, places_of(batches, behind)) is not None


def varint(number: int) -> bytes:
    raw = number << 1
    return bytes([raw]) if raw < 0x80 else bytes([raw & 0x7F | 0x80, raw >> 7])


def record(body: bytes) -> bytes:
    return varint(len(body)) + body


def with_payload(payload: bytes, count: int, attributes: int = 0) -> list[Batch]:
    """One batch around these bytes, its checksum not to be looked at."""
    head = batch(7, attributes=attributes)[:HEADER_BYTES]
    head = head[:8] + (HEADER_BYTES - 12 + len(payload)).to_bytes(4, "big") + head[12:57] + count.to_bytes(4, "big")
    return list(iter_batches(memoryview(head + payload), check_crcs=False))


@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME])
@pytest.mark.parametrize("size_bytes", [0, 1, 63, 64, 5_000, 2_000_000])
def test_values_of_all_sizes(monkeypatch: pytest.MonkeyPatch, attributes: int, size_bytes: int) -> None:
    values = {5: bytes(size_bytes), 6: b"", 100: b"x"}
    data = batch(5, 6, attributes=attributes, values=values) + batch(100, values=values, epoch=9)
    batches = list(iter_batches(memoryview(data)))
    assert taken(batches)
    few, many = both_ways(batches, monkeypatch)
    assert few == many


@pytest.mark.parametrize(
    "body",
    [
        bytes((0, 0, 0, 1, 1, 0)),  # neither key nor value
        bytes((0, 3, 5, 4, 65, 66, 2, 67, 0)),  # earlier than the batch, and in front of it; a key
        bytes((9, 0x80, 0x01, 0xFE, 0xFF, 0x7F, 1, 0, 0)),  # attributes without a meaning, longer deltas
        bytes((0, 0, 0, 0x81, 0x01, 0x87, 0x02, 0)),  # lengths below -1 are null, too
        bytes((0, 0x80, 0, 0, 1, 1, 0)),  # a padded number
        bytes((0, 0, 0, 1, 1, 2, 2, 65, 2, 66)),  # a header
        bytes((0, 0, 0, 1, 1, 6, 2, 65, 1, 0, 0, 4, 0xC3, 0xBC, 2, 66)),  # three: a null value, an empty name, no ASCII
    ],
)
def test_fields_of_all_kinds(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    batches = with_payload(record(body) * 2, 2)
    assert taken(batches)
    few, many = both_ways(batches, monkeypatch)
    assert few == many
    assert len(few) > 1


@pytest.mark.parametrize(
    "body",
    [
        bytes((0, 0, 0, 1, 1, 0x80, 0x01, *(2, 65, 2, 66) * 64)),  # 64 headers
        bytes((0, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0, 1, 1, 0)),  # 64 bits of time
        bytes((0, 0, 0x80, 0x80, 0x80, 0x80, 0x00, 1, 1, 0)),  # five bytes
    ],
)
def test_what_is_not_ordinary_goes_the_other_way(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    batches = with_payload(record(body), 1)
    assert not taken(batches)
    few, many = both_ways(batches, monkeypatch)
    assert few == many
    assert len(few) > 1


def test_every_damage_of_a_byte_is_told_in_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = record(bytes((0, 2, 0, 4, 65, 66, 6, 67, 68, 69, 0))) + record(
        bytes((0, 0, 2, 1, 2, 70, 2, 2, 65, 2, 66))
    )
    refused = 0
    for place, byte in product(range(len(payload)), (0, 1, 2, 3, 0x0E, 0x7F, 0x80, 0xFF)):
        damaged = with_payload(payload[:place] + bytes([byte]) + payload[place + 1 :], 2)
        few, many = both_ways(damaged, monkeypatch)
        assert few == many, f"byte {place} is {byte}"
        refused += len(few) == 1
    assert refused > len(payload)


def test_few_rows_say_where_they_begin_and_end() -> None:
    batches = list(iter_batches(batch(3, 5, epoch=1) + batch(9, epoch=2)))
    columns = few_columns(batches[0].data, [(each, each.payload_start, each.end) for each in batches])
    assert columns is not None
    assert (columns.first_offset, columns.last_position, columns.slice(0, 2).last_position) == (3, (9, 2), (5, 1))


def test_any_negative_length_is_null_in_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    nulls = with_payload(record(bytes((0, 0, 0, 3, 5, 0))) + record(bytes((0, 0, 2, 1, 3, 0))), 2)
    assert taken(nulls)
    few, many = both_ways(nulls, monkeypatch)
    assert few == many
    assert decode_columns(nulls).key_lengths.tolist() == decode_columns(nulls).value_lengths.tolist() == [-1, -1]


@pytest.mark.parametrize("count", [1, 2, 4, MAX_FEW_RECORDS])
def test_a_count_that_is_wrong_is_told_in_the_same_words(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    payload = record(bytes((0, 0, 0, 1, 1, 0))) * 3
    few, many = both_ways(with_payload(payload, count), monkeypatch)
    assert few == many
    assert len(few) == 1


def test_times_and_offsets_that_wrap_around_go_the_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    (hostile,) = with_payload(record(bytes((0, 2, 2, 1, 1, 0))), 1)
    wrapping = [hostile._replace(base_timestamp=2**63 - 1)]
    assert not taken(wrapping)
    few, many = both_ways(wrapping, monkeypatch)
    assert few == many


def test_more_records_go_the_long_way_however_they_are_batched(monkeypatch: pytest.MonkeyPatch) -> None:
    each_alone = list(iter_batches(b"".join(batch(number) for number in range(3 * MAX_FEW_RECORDS))))
    (together,) = iter_batches(batch(*range(3 * MAX_FEW_RECORDS)))
    assert not goes_the_short_way(each_alone)
    assert not goes_the_short_way([together])
    few, many = both_ways(each_alone, monkeypatch)
    assert few == many
