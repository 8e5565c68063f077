"""Which batches of a fetch are visible: no control batches, and under read_committed no aborted ones.

KIP-98: the answer lists aborted transactions as (producer id, first offset); each ends at the abort marker of its
producer. Batches come in offset order, so one pass with the set of producers that are in an aborted transaction does
it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kwire.errors import CorruptRecordError
from kwire.protocol.record_batch import CONTROL_BIT, TRANSACTIONAL_BIT
from kwire.protocol.record_batch_columns import choose, numbers_of, without_control_batches
from kwire.protocol.records import ControlType, read_control

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kwire.protocol.record_batch import Batch


def visible_batches(
    batches: Sequence[Batch], aborted: Collection[tuple[int, int]], *, read_committed: bool
) -> tuple[Sequence[Batch], CorruptRecordError | None]:
    """The batches to decode, in order, and the damage of the marker behind them, if there is a damaged one."""
    if not (read_committed and aborted):
        return without_control_batches(batches), None
    return _committed(batches, aborted)


def _committed(
    batches: Sequence[Batch], aborted: Iterable[tuple[int, int]]
) -> tuple[Sequence[Batch], CorruptRecordError | None]:
    starting = deque(sorted(aborted, key=lambda transaction: transaction[1]))
    aborting: set[int] = set()
    visible: list[int] = []
    fields = ("attributes", "producer_id", "base_offset", "last_offset_delta")
    headers = zip(*(numbers_of(batches, field) for field in fields), strict=True)
    for index, (attributes, producer_id, base_offset, last_offset_delta) in enumerate(headers):
        while starting and starting[0][1] <= base_offset + last_offset_delta:
            aborting.add(starting.popleft()[0])
        if attributes & CONTROL_BIT:
            if producer_id not in aborting:  # as a rule: it ends a transaction that is not aborted
                continue
            try:
                is_abort = _is_abort(batches[index])
            except CorruptRecordError as damage:
                return choose(batches, visible), damage
            if is_abort:
                aborting.discard(producer_id)
        elif not (attributes & TRANSACTIONAL_BIT and producer_id in aborting):
            visible.append(index)
    return choose(batches, visible), None


def _is_abort(batch: Batch) -> bool:
    control = read_control(batch)
    return control is not None and control.type is ControlType.ABORT
