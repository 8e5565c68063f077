"""Damaged record sets: a reader finds out about every one of them, and gets what lies in front."""

from __future__ import annotations

import random

import pytest

from kwire.errors import CorruptRecordError
from kwire.protocol.record_batch import Batch, iter_batches
from kwire.protocol.records import decode_available
from kwire.testing.cluster.batches import build_batch, placed, transaction_marker
from kwire.testing.simulation.damage import damaged

MARKER = transaction_marker(1, 0, committed=True, coordinator_epoch=0, timestamp_ms=0)
BUDGET_BYTES = 1_000_000


def batches(codec: int = 0) -> list[bytes]:
    return [placed(build_batch([b"value%d" % n] * 3, timestamp_ms=0, codec=codec), 3 * n, 0) for n in range(4)]


def read(records: bytes) -> tuple[int, bool]:
    """How many records a reader gets, and whether it is told of damage behind them."""
    sound: list[Batch] = []
    is_damaged = False
    try:
        sound.extend(iter_batches(records))  # it keeps those that come in front of an error
    except CorruptRecordError:
        is_damaged = True
    decoded = decode_available(sound, check_crcs=True, budget_bytes=BUDGET_BYTES)
    return len(decoded.columns), is_damaged or decoded.error is not None


@pytest.mark.parametrize("codec", [0, 1], ids=["plain", "compressed"])
def test_whatever_is_damaged_shows(codec: int) -> None:
    records = b"".join(batches(codec))
    assert read(records) == (12, False)
    counts = set()
    for seed in range(60):
        count, is_damaged = read(damaged(records, random.Random(seed)))
        assert is_damaged
        counts.add(count)
    assert {0, 3, 6, 9} <= counts, "any of them may be the damaged one"


def test_markers_and_nothing_at_all_are_left_alone() -> None:
    assert damaged(MARKER, random.Random(1)) == MARKER
    assert damaged(b"", random.Random(1)) == b""
