"""The producer state of a partition: sequence numbers, epochs, open transactions (KIP-98, KIP-360).

The counterpart of Kafka's ProducerStateManager and ProducerAppendInfo. Contract: pure; `check` raises and changes
nothing, `note` changes and cannot fail. Owned by `log.PartitionLog`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kwire.protocol.error_codes import ErrorCode
from kwire.testing.cluster.validation import RecordsRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.protocol.record_batch import Batch

KEPT_BATCHES = 5
"""How many batches of a producer are remembered to recognize a repeated one; producers have no more in flight."""

LAST_SEQUENCE = 0x7FFFFFFF
NO_EPOCH = -1
NO_SEQUENCE = -1


class WrittenBatch(NamedTuple):
    """A batch that was written, remembered to recognize a repeated one."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class EndedTransaction(NamedTuple):
    """A transaction of a partition, from its first record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    committed: bool


@dataclass(slots=True)
class ProducerStateEntry:
    """The state of one producer in this partition."""

    producer_id: int
    epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    last_timestamp_ms: int = -1
    transaction_start: int | None = None
    batches: deque[WrittenBatch] = field(default_factory=lambda: deque(maxlen=KEPT_BATCHES))

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def take_epoch(self, epoch: int) -> None:
        """Take over an epoch: the sequence numbers of another epoch are forgotten."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


class Producers:
    """All producers of a partition."""

    def __init__(self) -> None:
        self._by_id: dict[int, ProducerStateEntry] = {}

    def __iter__(self) -> Iterator[ProducerStateEntry]:
        return iter(self._by_id.values())

    def find(self, producer_id: int) -> ProducerStateEntry | None:
        """The producer, if it has written to this partition."""
        return self._by_id.get(producer_id)

    @property
    def first_open_offset(self) -> int | None:
        """The offset at which the oldest open transaction began; readers of committed records stop there."""
        return min((one.transaction_start for one in self if one.transaction_start is not None), default=None)

    def repeated(self, batch: Batch) -> WrittenBatch | None:
        """The batch that this one repeats, if it is still remembered."""
        known = self._by_id.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            return None
        wanted = (batch.base_sequence, last_sequence(batch))
        return next((one for one in known.batches if one[:2] == wanted), None)

    def check(self, batch: Batch) -> None:
        """Whether the producer may write this batch next.

        Raises:
            RecordsRefusedError: An old epoch, a gap, or records outside of the producer's open transaction.
        """
        known = self._by_id.get(batch.producer_id)
        if known is None:
            return  # Its records may have been deleted, so any sequence number is good (KIP-360).
        _check_epoch(known, batch.producer_epoch)
        _check_sequence(known, batch)
        if known.transaction_start is not None and not batch.is_transactional:
            raise RecordsRefusedError(
                ErrorCode.INVALID_TXN_STATE, f"producer {batch.producer_id} is in a transaction, these records are not"
            )

    def check_marker(self, producer_id: int, epoch: int) -> None:
        """Whether the coordinator may end this producer's transaction. Raises: RecordsRefusedError, an old epoch."""
        known = self._by_id.get(producer_id)
        if known is not None:
            _check_epoch(known, epoch)

    def note(self, batch: Batch) -> None:
        """Note that the batch was written, at the offsets that it has now."""
        known = self._by_id.setdefault(batch.producer_id, ProducerStateEntry(batch.producer_id))
        known.take_epoch(batch.producer_epoch)
        times = (batch.base_offset, batch.last_offset, batch.max_timestamp)
        known.batches.append(WrittenBatch(batch.base_sequence, last_sequence(batch), *times))
        known.last_timestamp_ms = batch.max_timestamp
        if batch.is_transactional and known.transaction_start is None:
            known.transaction_start = batch.base_offset

    def note_marker(self, marker: Batch, *, committed: bool, coordinator_epoch: int) -> EndedTransaction | None:
        """Note that the marker was written. Returns the transaction that it ended, if the producer wrote anything in
        it."""
        known = self._by_id.setdefault(marker.producer_id, ProducerStateEntry(marker.producer_id))
        known.take_epoch(marker.producer_epoch)
        known.coordinator_epoch = coordinator_epoch
        known.last_timestamp_ms = marker.max_timestamp
        first_offset, known.transaction_start = known.transaction_start, None
        if first_offset is None:
            return None
        return EndedTransaction(marker.producer_id, first_offset, marker.last_offset, committed)


def last_sequence(batch: Batch) -> int:
    """The sequence number of the batch's last record; numbers wrap from 2**31 - 1 to 0."""
    if batch.base_sequence < 0:
        return NO_SEQUENCE
    return (batch.base_sequence + batch.last_offset_delta) & LAST_SEQUENCE


def _check_epoch(known: ProducerStateEntry, epoch: int) -> None:
    if epoch < known.epoch:
        # Not PRODUCER_FENCED: the client may abort and go on (KIP-588).
        raise RecordsRefusedError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"epoch {epoch} of producer {known.producer_id} is older than {known.epoch}, the last one seen",
        )


def _check_sequence(known: ProducerStateEntry, batch: Batch) -> None:
    first = batch.base_sequence
    if batch.producer_epoch != known.epoch:
        in_sequence = first == 0 or known.epoch == NO_EPOCH
        wanted = 0
    else:
        # Behind a marker that brought a new epoch nothing is remembered, and 0 comes next (KIP-890).
        wanted = (known.last_sequence + 1) & LAST_SEQUENCE
        in_sequence = first == wanted
    if not in_sequence:
        raise RecordsRefusedError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"sequence number {first} of producer {known.producer_id} where {wanted} comes next",
        )
