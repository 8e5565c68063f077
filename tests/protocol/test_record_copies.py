"""Fields copied out of a buffer are what lies there, whatever their sizes, and however many are copied at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.protocol.record_copies import Fields, are_same, copy_in_stretches, copy_spans, same_number

Field = bytes | None


def laid_out(fields: list[Field], gap: bytes = b"--") -> tuple[bytes, np.ndarray, np.ndarray]:
    """A buffer with all fields in order, and where each starts and how long it is."""
    buffer, starts, lengths = bytearray(), [], []
    for field in fields:
        buffer += gap
        starts.append(len(buffer))
        lengths.append(-1 if field is None else len(field))
        buffer += field or b""
    return bytes(buffer) + gap, np.array(starts, dtype=np.int64), np.array(lengths, dtype=np.int64)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@given(fields=st.lists(st.none() | st.binary(max_size=40), max_size=60))
def test_each_field_comes_back(kind: type[bytes], fields: list[Field]) -> None:
    buffer, starts, lengths = laid_out(fields)
    assert copy_spans(kind(buffer), starts, lengths) == fields


@pytest.mark.parametrize("size", [0, 1, 100, 1_000, 5_000])
@pytest.mark.parametrize("rows", [1, 17, 3_000])
def test_fields_of_one_size_come_back_from_several_stretches(size: int, rows: int) -> None:
    fields: list[Field] = [row.to_bytes(4, "big").ljust(size, b".")[:size] for row in range(rows)]
    buffer, starts, lengths = laid_out(fields)
    assert copy_spans(memoryview(buffer), starts, lengths) == fields


@pytest.mark.parametrize("sizes", [(3, 700), (3, 5_000), (30, 31)])
@pytest.mark.parametrize("null_every", [0, 1, 3])
def test_keys_and_values_are_copied_together(sizes: tuple[int, int], null_every: int) -> None:
    key_bytes, value_bytes = sizes
    pairs: list[Field] = []
    for row in range(2_000):
        is_null = null_every and row % null_every == 0
        pairs += [None if is_null else b"k" * (key_bytes + row % 2), b"v" * (value_bytes + row % 3)]
    buffer, starts, lengths = laid_out(pairs)
    view = memoryview(buffer)
    keys, values = (Fields(view, starts[nth::2], lengths[nth::2], same_number(lengths[nth::2])) for nth in (0, 1))
    copied = list(copy_in_stretches(view, keys, values))
    assert [key for part, _ in copied for key in part] == pairs[0::2]
    assert [value for _, part in copied for value in part] == pairs[1::2]
    assert all(len(some_keys) == len(some_values) for some_keys, some_values in copied)


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        ([b"shop-7"] * 30, True),
        ([b""] * 30, True),
        ([None] * 30, True),
        ([b"shop-7"] * 29 + [b"shop-8"], False),
        ([b"shop-7"] * 29 + [b"shop"], False),
        ([b"", None], False),
        ([b"x" * 65] * 3, False),
    ],
    ids=["all", "empty", "null", "other-bytes", "other-length", "empty-and-null", "too-long-to-look"],
)
def test_equal_fields_are_seen_without_copies(fields: list[Field], same: bool) -> None:
    assert are_same(*laid_out(fields)) is same
