"""Headers as columns: of many batches the same is found, decoded and refused as of one after the other."""

from __future__ import annotations

import struct
import zlib
from random import Random
from typing import TYPE_CHECKING, Any

import cramjam
import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire import speedups
from kwire.errors import CorruptRecordError
from kwire.fetching.transactions import visible_batches
from kwire.protocol import inflation_in_c, record_batch_columns, record_payloads
from kwire.protocol.record_batch import Batch, find_batches, iter_batches
from kwire.protocol.record_batch_columns import MANY_BATCHES, BatchColumns, choose, column, payload_bytes, read_batches
from kwire.protocol.record_payloads import inflation_of
from kwire.protocol.records import Codec, Decoded, decode_available
from kwire.testing.cluster.batches import build_batch, compress, placed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    from kwire.protocol.compression import Bytes
    from kwire.protocol.compression_buffer import InflationBuffer
    from tests.record_batches import ABORT, COMMIT, CONTROL, TRANSACTIONAL, batch, damaged, marker, misframed
else:
    from record_batches import ABORT, COMMIT, CONTROL, TRANSACTIONAL, batch, damaged, marker, misframed

pytestmark = pytest.mark.usefixtures("in_c_and_in_python")

BUDGET_BYTES = 1024


@pytest.fixture(scope="module", autouse=True)
def few_are_many() -> Iterator[None]:
    """Two batches are kept as columns already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_batch_columns, "MANY_BATCHES", 1)
        yield


# --- record sets ------------------------------------------------------------------------------------------------------


def with_checksum(data: bytes) -> bytes:
    checksum: int = google_crc32c.value(data[21:])
    return data[:17] + struct.pack(">I", checksum) + data[21:]


def packed(plain: bytes, payload: bytes | None = None) -> bytes:
    """The same batch, compressed."""
    payload = compress(Codec.LZ4, plain[61:]) if payload is None else payload
    covered = struct.pack(">h", Codec.LZ4) + plain[23:61] + payload
    return with_checksum(plain[:8] + struct.pack(">i", len(covered) + 9) + plain[12:17] + bytes(4) + covered)


def appended(plain: bytes) -> bytes:
    """The same batch, with the time of the broker."""
    return with_checksum(plain[:21] + struct.pack(">h", 0x08) + plain[23:35] + struct.pack(">q", 17) + plain[43:])


def claiming(plain: bytes, count: int) -> bytes:
    """The same batch, with another number of records in its header."""
    return with_checksum(plain[:57] + struct.pack(">i", count) + plain[61:])


def message(offset: int, value: bytes) -> bytes:
    """Of magic 1."""
    body = b"\1\0" + struct.pack(">qii", 5, -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def one(kind: str, offset: int, size: int) -> bytes:
    plain = batch(offset, offset + 1, values={offset: bytes(size)}, end=offset + 2)
    makers = {
        "plain": lambda: plain,
        "large": lambda: batch(offset, values={offset: bytes(700 + size)}),
        "packed": lambda: packed(plain),
        "packed otherwise": lambda: packed(plain, bytes(cramjam.lz4.compress(plain[61:]))),
        "packed badly": lambda: packed(plain, compress(Codec.LZ4, plain[61:])[:-5]),
        "appended": lambda: appended(plain),
        "emptied": lambda: batch(end=offset + 2),
        "commit": lambda: marker(offset, COMMIT, producer_id=7),
        "of a transaction": lambda: batch(offset, offset + 1, producer_id=7, attributes=TRANSACTIONAL),
        "old": lambda: message(offset, bytes(size)),
        "damaged": lambda: damaged(plain),
        "misframed": lambda: misframed(plain),
        "one record short": lambda: claiming(plain, 3),
        "no number of records": lambda: claiming(plain, -1),
    }
    return makers[kind]()


ORDINARY = ("plain", "large", "packed", "packed", "packed", "appended", "emptied", "commit", "of a transaction")
ODD = ("old", "damaged", "packed otherwise", "packed badly", "misframed", "one record short", "no number of records")
kinds = st.lists(st.tuples(st.sampled_from(ORDINARY * 3 + ODD), st.integers(0, 100)), min_size=1, max_size=12)


def record_set(parts: Sequence[tuple[str, int]]) -> bytes:
    return b"".join(one(kind, 10 * nth, size) for nth, (kind, size) in enumerate(parts))


def one_by_one(data: bytes, *, check_crcs: bool = True) -> tuple[list[Batch], CorruptRecordError | None]:
    found: list[Batch] = []
    try:
        for each in iter_batches(data, check_crcs=check_crcs):
            found.append(each)  # noqa: PERF402  what was appended stays, though the next one raises
    except CorruptRecordError as error:
        return found, error
    return found, None


# --- the same ---------------------------------------------------------------------------------------------------------


@given(kinds, st.integers(0, 200), st.booleans())
def test_the_same_batches_and_the_same_damage_are_found(
    parts: list[tuple[str, int]], cut: int, check_crcs: bool
) -> None:
    data = record_set(parts)
    data = data[: len(data) - cut]
    expected, damage = one_by_one(data, check_crcs=check_crcs)
    found, error = read_batches(data, check_crcs=check_crcs)
    assert list(found) == expected
    assert (type(error), str(error)) == (type(damage), str(damage))
    for field in Batch._fields[1:]:
        assert column(found, field).tolist() == [getattr(each, field) for each in expected]
    assert payload_bytes(found) == payload_bytes(expected) == sum(each.size_bytes - 61 for each in expected)


@given(kinds, st.sampled_from([None, BUDGET_BYTES]))
def test_the_same_records_are_decoded(parts: list[tuple[str, int]], budget_bytes: int | None) -> None:
    data = record_set(parts)
    found, expected = read_batches(data, check_crcs=True)[0], one_by_one(data)[0]
    assert told(decode_available(found, budget_bytes=budget_bytes)) == told(
        decode_available(expected, budget_bytes=budget_bytes)
    )


@given(kinds, st.integers(1, 8 * BUDGET_BYTES))
def test_what_is_inflated_together_is_what_is_inflated_one_by_one(
    parts: list[tuple[str, int]], budget_bytes: int
) -> None:
    batches = read_batches(record_set(parts), check_crcs=True)[0]
    together, alone = (inflated(batches, budget_bytes, from_so_many_on=many) for many in (1, len(batches) + 1))
    assert together == alone
    assert inflated(batches, budget_bytes, from_so_many_on=1, is_begun=True) == alone


@pytest.mark.parametrize(("size_bytes", "together"), [(100_000, 1), (1_000, 0)])
def test_few_payloads_are_inflated_together_where_they_are_large(
    monkeypatch: pytest.MonkeyPatch, size_bytes: int, together: int
) -> None:
    values = [Random(nth).randbytes(size_bytes) for nth in range(2)]
    batches = [build_batch([value], timestamp_ms=1, codec=Codec.LZ4) for value in values]
    asked: list[memoryview] = []

    def noted(module: ModuleType, target: InflationBuffer, data: Bytes, payloads: memoryview, **limits: int) -> object:
        asked.append(payloads)
        return inflation_in_c.inflation_in_c(module, target, data, payloads, **limits)

    monkeypatch.setattr(record_payloads, "inflation_in_c", noted)
    found = read_batches(placed(batches[0], 0, 0) + placed(batches[1], 1, 0), check_crcs=True)[0]
    assert decode_available(found, budget_bytes=1 << 20).columns.values() == values
    assert len(asked) == (together if speedups.module is not None else 0)


@pytest.mark.parametrize("many", [1, 10])
def test_an_emptied_batch_has_no_payload_whatever_its_codec(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr(record_payloads, "MANY_PAYLOADS", many)
    emptied = packed(batch(end=12), b"")
    batches = read_batches(one("packed", 0, 5) + emptied + one("packed", 20, 5), check_crcs=True)[0]
    decoded = decode_available(batches, budget_bytes=BUDGET_BYTES)
    assert (decoded.columns.offsets.tolist(), decoded.error) == ([0, 1, 20, 21], None)


def inflated(
    batches: Sequence[Batch], budget_bytes: int, *, from_so_many_on: int, is_begun: bool = False
) -> tuple[Any, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_payloads, "MANY_PAYLOADS", from_so_many_on)
        patch.setattr(record_payloads, "MIN_AHEAD_BYTES", 1)
        patch.setattr(inflation_in_c, "PROCESSORS", 2)
        inflation = inflation_of(batches, budget_bytes=budget_bytes) if is_begun else None
        if inflation is not None:
            inflation.begin()
        return told(decode_available(batches, budget_bytes=budget_bytes, inflation=inflation))


def told(decoded: Decoded) -> tuple[Any, ...]:
    columns = decoded.columns
    arrays = (columns.offsets, columns.timestamps, columns.timestamp_types, columns.leader_epochs)
    numbers = [each.tolist() for each in arrays]
    records = (numbers, columns.keys(), columns.values(), columns.headers())
    return records, decoded.taken, str(decoded.error), decoded.rest


@given(kinds, st.sampled_from([[], [(7, 0)], [(7, 30)], [(8, 0), (7, 20)]]), st.booleans())
def test_the_same_batches_are_visible(
    parts: list[tuple[str, int]], aborted: list[tuple[int, int]], read_committed: bool
) -> None:
    data = record_set(parts) + marker(200, ABORT, producer_id=7) + batch(201)
    found, expected = read_batches(data, check_crcs=True)[0], one_by_one(data)[0]
    seen, damage = visible_batches(found, aborted, read_committed=read_committed)
    assert damage is None
    assert list(seen) == list(visible_batches(expected, aborted, read_committed=read_committed)[0])


def test_what_lies_in_front_of_a_damaged_marker_is_visible() -> None:
    keyless = batch(1, key=b"", producer_id=7, attributes=TRANSACTIONAL | CONTROL)
    data = batch(0) + keyless + batch(2)
    for batches in (read_batches(data, check_crcs=True)[0], one_by_one(data)[0]):
        visible, damage = visible_batches(batches, [(7, 0)], read_committed=True)
        assert [each.base_offset for each in visible] == [0]
        assert damage is not None
        assert damage.offset == 1


# --- columns ----------------------------------------------------------------------------------------------------------


def test_batches_are_made_where_they_are_asked_for() -> None:
    data = batch(0, 1) + batch(5) + batch(7)
    batches, _ = read_batches(memoryview(data), check_crcs=True)
    assert isinstance(batches, BatchColumns)
    assert [each.base_offset for each in batches] == [0, 5, 7]
    assert (batches[-1].base_offset, batches[1].record_count, batches[1].producer_id) == (7, 1, -1)
    assert [each.base_offset for each in batches[1:]] == [5, 7]
    assert [each.base_offset for each in choose(batches, [0, 2])] == [0, 7]
    assert list(choose(batches, [])) == []
    with pytest.raises(IndexError):
        batches[3]


def test_few_batches_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_batch_columns, "MANY_BATCHES", MANY_BATCHES)
    few, many = batch(0) * (MANY_BATCHES - 1), batch(0) * MANY_BATCHES
    assert isinstance(read_batches(few, check_crcs=True)[0], list)
    assert isinstance(read_batches(many, check_crcs=True)[0], BatchColumns)


@pytest.mark.parametrize("data", [b"", bytes(7), bytes(11), bytes(12), b"\xff" * 12, b"\xff" * 400])
def test_what_is_no_batch_makes_no_columns(data: bytes) -> None:
    found, error = read_batches(data, check_crcs=True)
    expected, damage = one_by_one(data)
    assert (list(found), str(error)) == (expected, str(damage))


def test_offsets_that_leave_64_bits_are_no_columns() -> None:
    """Numbers of Python do not wrap around; those of numpy do."""
    data = batch(0) + with_checksum(struct.pack(">q", 2**63 - 1) + batch(0)[8:])
    found, _ = read_batches(data, check_crcs=True)
    assert [each.next_offset for each in found] == [1, 2**63]


def test_batches_are_found_up_to_one_of_another_kind() -> None:
    good = batch(0)
    ends = [0, len(good)]
    for behind in (b"", message(2, b"x"), damaged(good), misframed(good), good[:-1], good[:60]):
        assert list(find_batches(good + good + behind)) == ends
    assert list(find_batches(good + damaged(good) + good, check_crcs=False)) == [0, len(good), 2 * len(good)]
    assert list(find_batches(good + batch(end=1))) == ends
    assert list(find_batches(b"")) == []
