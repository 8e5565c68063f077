"""Which batches of a fetch are visible: no control batches, and under read_committed no aborted ones.

KIP-98: the answer lists aborted transactions as (producer id, first offset); each ends at the abort marker of its
producer. Batches come in offset order, so one pass with the set of producers that are in an aborted transaction does
it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kwire.protocol.record_batch import CONTROL_BIT
from kwire.protocol.records import ControlType, read_control

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from kwire.protocol.record_batch import Batch


def visible_batches(
    batches: Iterable[Batch], aborted: Collection[tuple[int, int]], *, read_committed: bool
) -> Iterable[Batch]:
    """The batches to decode, in order.

    Raises:
        CorruptRecordError: A marker is damaged. What lies in front of it has been yielded by then.
    """
    if not (read_committed and aborted):
        return [batch for batch in batches if not batch.attributes & CONTROL_BIT]
    return _committed(batches, aborted)


def _committed(batches: Iterable[Batch], aborted: Iterable[tuple[int, int]]) -> Iterator[Batch]:
    starting = deque(sorted(aborted, key=lambda transaction: transaction[1]))
    aborting: set[int] = set()
    for batch in batches:
        while starting and starting[0][1] <= batch.last_offset:
            aborting.add(starting.popleft()[0])
        if batch.is_control:
            if _is_abort(batch):
                aborting.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborting):
            yield batch


def _is_abort(batch: Batch) -> bool:
    control = read_control(batch)
    return control is not None and control.type is ControlType.ABORT
