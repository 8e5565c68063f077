"""Which batches of a transactional log are visible (KIP-98)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.fetching import transactions
from kwire.fetching.transactions import visible_batches
from kwire.protocol.record_batch import Batch
from kwire.protocol.record_batch_columns import read_batches
from kwire.protocol.record_control import ControlRecord, read_control

if TYPE_CHECKING:
    from tests.record_batches import ABORT, COMMIT, batch, marker, transactional
else:
    from record_batches import ABORT, COMMIT, batch, marker, transactional

pytestmark = pytest.mark.usefixtures("few_and_many_batches")


def visible(*log: bytes, aborted: list[tuple[int, int]], read_committed: bool = True) -> list[int]:
    """The base offsets of the visible batches."""
    batches, _ = read_batches(b"".join(log), check_crcs=True)
    seen, damage = visible_batches(batches, aborted, read_committed=read_committed)
    assert damage is None
    return [each.base_offset for each in seen]


def test_markers_are_never_visible() -> None:
    log = (transactional(0, producer_id=7), marker(1, COMMIT, producer_id=7), batch(2), marker(3, ABORT, producer_id=7))
    assert visible(*log, aborted=[]) == [0, 2]
    assert visible(*log, aborted=[], read_committed=False) == [0, 2]


def test_an_aborted_transaction_ends_at_its_marker() -> None:
    log = (transactional(0, producer_id=7), marker(1, ABORT, producer_id=7), transactional(2, producer_id=7))
    assert visible(*log, aborted=[(7, 0)]) == [2]


def test_the_marker_of_another_producer_ends_nothing() -> None:
    log = (
        transactional(0, producer_id=7),
        marker(1, ABORT, producer_id=8),
        marker(2, COMMIT, producer_id=7),
        transactional(3, producer_id=7),
    )
    assert visible(*log, aborted=[(7, 0)]) == []


def test_only_markers_that_may_end_an_aborted_transaction_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes 10 us. Of transactions of a few records they took two thirds of the whole time."""
    read: list[int] = []

    def noted(batch: Batch) -> ControlRecord | None:
        read.append(batch.base_offset)
        return read_control(batch)

    monkeypatch.setattr(transactions, "read_control", noted)
    log = (
        transactional(0, producer_id=7),
        transactional(1, producer_id=8),
        marker(2, COMMIT, producer_id=8),
        marker(3, ABORT, producer_id=7),
        transactional(4, producer_id=7),
        marker(5, COMMIT, producer_id=7),
    )
    assert visible(*log, aborted=[(7, 0)]) == [1, 4]
    assert read == [3]


def test_records_without_a_transaction_stay_visible_between_aborted_ones() -> None:
    log = (transactional(0, producer_id=7), batch(1, producer_id=7), batch(2), transactional(3, producer_id=8))
    assert visible(*log, aborted=[(7, 0)]) == [1, 2, 3]


def test_a_producer_may_abort_twice_and_the_order_of_the_list_does_not_matter() -> None:
    log = (
        transactional(0, producer_id=7),
        marker(1, ABORT, producer_id=7),
        transactional(2, producer_id=7),
        marker(3, COMMIT, producer_id=7),
        transactional(4, producer_id=7),
        marker(5, ABORT, producer_id=7),
    )
    assert visible(*log, aborted=[(7, 4), (7, 0)]) == [2]


def test_a_transaction_that_began_before_the_fetch_is_left_out_from_its_first_batch() -> None:
    log = (transactional(10, producer_id=7), transactional(11, producer_id=7))
    assert visible(*log, aborted=[(7, 3)]) == []
