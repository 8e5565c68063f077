"""One transactional id: who its producer is, and how far its transaction has come (KIP-98, KIP-360, KIP-890).

The counterpart of Kafka's TransactionMetadata, with transitions that happen at once, because there is no log to wait
for. Contract: pure; a method raises `TransactionRefusedError` and changes nothing, or succeeds. Owned by
`transactions.TransactionCoordinator`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kwire.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NO_PRODUCER_ID = -1
NO_EPOCH = -1
LAST_EPOCH = 0x7FFF


class TransactionRefusedError(Exception):
    """The coordinator does not do this; `code` says why."""

    def __init__(self, code: ErrorCode) -> None:
        self.code = code
        super().__init__(code.name)


class TransactionStatus(Enum):
    """Kafka's states, under the names that ListTransactions shows."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


_ENDING = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)


class ProducerIdAndEpoch(NamedTuple):
    """A producer as requests name it."""

    producer_id: int
    epoch: int


@dataclass(slots=True)
class Transaction:
    """The state of a transactional id.

    Attributes:
        previous_producer_id: Whom a retry may still name after its epochs ran out.
        next_producer_id: Who it will be when the marker is written, because epochs ran out.
        bumps_epochs: Whether the last transaction was ended by a client that gets an epoch for each (KIP-890).
        started_ms: When the transaction began, on the cluster's clock; `started_at_ms` on the wall clock, -1 for none.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    status: TransactionStatus = TransactionStatus.EMPTY
    partitions: dict[tuple[str, int], None] = field(default_factory=dict)
    groups: dict[str, None] = field(default_factory=dict)
    bumps_epochs: bool = False
    started_ms: float = 0.0
    started_at_ms: int = -1
    updated_ms: float = 0.0
    markers_due_ms: float = 0.0

    @property
    def is_ending(self) -> bool:
        """Whether its end is decided, and markers are still to be written."""
        return self.status in _ENDING

    @property
    def is_ongoing(self) -> bool:
        return self.status is TransactionStatus.ONGOING

    @property
    def is_exhausted(self) -> bool:
        """The last epoch is kept for fencing a producer that has the one before."""
        return self.epoch >= LAST_EPOCH - 1

    # --- InitProducerId --------------------------------------------------------------------------------------

    def check_successor(self, expected: ProducerIdAndEpoch | None) -> None:
        """Whether somebody who says it is `expected` may become this id's producer.

        Raises:
            TransactionRefusedError: It is another one, or the transaction's end is being written.
        """
        if expected is not None and self.epoch != NO_EPOCH and not self._knows(expected):
            raise TransactionRefusedError(ErrorCode.PRODUCER_FENCED)
        if self.is_ending:
            raise TransactionRefusedError(ErrorCode.CONCURRENT_TRANSACTIONS)

    def begin_producer(
        self, expected: ProducerIdAndEpoch | None, timeout_ms: int, now_ms: float, new_id: Callable[[], int]
    ) -> None:
        """Give the id's next producer its epoch; no transaction may be under way.

        Raises:
            TransactionRefusedError: The expected epoch is an old one (KIP-360).
        """
        if self.is_exhausted and (expected is None or expected.epoch == self.epoch):
            last_epoch = self.epoch if expected is not None else NO_EPOCH
            self.previous_producer_id, self.producer_id = self.producer_id, new_id()
            self.epoch, self.last_epoch = 0, last_epoch
        elif expected is None:
            self.epoch, self.last_epoch = self.epoch + 1, NO_EPOCH
        elif self.epoch == NO_EPOCH or expected.epoch == self.epoch:
            self.epoch, self.last_epoch = self.epoch + 1, self.epoch
        elif expected.epoch != self.last_epoch:  # else it asks again for what it was given, and gets that
            raise TransactionRefusedError(ErrorCode.PRODUCER_FENCED)
        self.status = TransactionStatus.EMPTY
        self.timeout_ms, self.updated_ms, self.started_at_ms = timeout_ms, now_ms, -1

    def _knows(self, producer: ProducerIdAndEpoch) -> bool:
        """The producer it has, or the one before asking again after its epochs ran out."""
        was_exhausted = producer.producer_id == self.previous_producer_id and producer.epoch >= LAST_EPOCH - 1
        return producer.producer_id == self.producer_id or was_exhausted

    # --- adding ----------------------------------------------------------------------------------------------

    def check_producer(self, producer: ProducerIdAndEpoch) -> None:
        """Whether that is its producer, and no end is being written. Raises: TransactionRefusedError."""
        if producer.producer_id != self.producer_id:
            raise TransactionRefusedError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if producer.epoch != self.epoch:
            raise TransactionRefusedError(ErrorCode.PRODUCER_FENCED)
        if self.is_ending:
            raise TransactionRefusedError(ErrorCode.CONCURRENT_TRANSACTIONS)

    def add(
        self, partitions: Iterable[tuple[str, int]], groups: Iterable[str], now_ms: float, wall_clock_ms: int
    ) -> None:
        """Make these part of the transaction, which begins if it has not."""
        if not self.is_ongoing:
            self.status = TransactionStatus.ONGOING
            self.started_ms, self.started_at_ms = now_ms, wall_clock_ms
        self.partitions.update(dict.fromkeys(partitions))
        self.groups.update(dict.fromkeys(groups))
        self.updated_ms = now_ms

    # --- ending ----------------------------------------------------------------------------------------------

    def prepare_end(
        self,
        producer: ProducerIdAndEpoch,
        *,
        committed: bool,
        bumps_epochs: bool,
        now_ms: float,
        new_id: Callable[[], int],
    ) -> bool:
        """A client ends its transaction: decide that; False when it merely asks again and the end is written already.

        Raises:
            TransactionRefusedError: Not its producer, or there is nothing that could end in that way.
        """
        asks_again = self._asks_again(producer)
        if producer.producer_id != self.producer_id and not asks_again:
            raise TransactionRefusedError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if producer.epoch != self.epoch and not asks_again:
            raise TransactionRefusedError(ErrorCode.PRODUCER_FENCED)
        if self.is_ongoing:
            self._prepare(committed=committed, bumps_epochs=bumps_epochs, now_ms=now_ms, new_id=new_id)
            return True
        ended_so = TransactionStatus.COMPLETE_COMMIT if committed else TransactionStatus.COMPLETE_ABORT
        ending_so = TransactionStatus.PREPARE_COMMIT if committed else TransactionStatus.PREPARE_ABORT
        if self.status is ending_so:
            raise TransactionRefusedError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if self.status is ended_so and (asks_again or not bumps_epochs):
            return False
        if bumps_epochs and not committed and not asks_again and not self.is_ending:
            # KIP-890: an abort ends also what the coordinator has not heard of: a Produce that is still on its way.
            self.started_ms = now_ms
            self._prepare(committed=False, bumps_epochs=True, now_ms=now_ms, new_id=new_id)
            return True
        raise TransactionRefusedError(ErrorCode.INVALID_TXN_STATE)

    def prepare_fence(self, now_ms: float) -> None:
        """Abort what is under way, under an epoch that its producer does not have."""
        self.status = TransactionStatus.PREPARE_ABORT
        self.epoch, self.last_epoch = self.epoch + 1, NO_EPOCH
        self.bumps_epochs = False
        self.updated_ms = now_ms

    def complete(self) -> None:
        """All markers are written."""
        commits = self.status is TransactionStatus.PREPARE_COMMIT
        self.status = TransactionStatus.COMPLETE_COMMIT if commits else TransactionStatus.COMPLETE_ABORT
        self.partitions.clear()
        self.groups.clear()
        if self.next_producer_id != NO_PRODUCER_ID:
            self.previous_producer_id, self.producer_id = self.producer_id, self.next_producer_id
            self.next_producer_id = NO_PRODUCER_ID
            self.last_epoch, self.epoch = self.epoch, 0

    @property
    def after_the_end(self) -> ProducerIdAndEpoch:
        """The producer of the next transaction, as EndTxn answers it."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return ProducerIdAndEpoch(self.producer_id, self.epoch)

    def _prepare(self, *, committed: bool, bumps_epochs: bool, now_ms: float, new_id: Callable[[], int]) -> None:
        self.status = TransactionStatus.PREPARE_COMMIT if committed else TransactionStatus.PREPARE_ABORT
        self.bumps_epochs = bumps_epochs
        self.updated_ms = now_ms
        if bumps_epochs:
            if self.is_exhausted:
                self.next_producer_id = new_id()
            self.epoch, self.last_epoch = self.epoch + 1, self.epoch

    def _asks_again(self, producer: ProducerIdAndEpoch) -> bool:
        """KIP-890: the epoch from before the end, from a client that did not get the answer with the new one."""
        if not self.bumps_epochs or self.is_ongoing or self.status is TransactionStatus.EMPTY:
            return False
        overflowed = producer == (self.previous_producer_id, LAST_EPOCH - 1) and self.epoch == 0
        return overflowed or producer == (self.producer_id, self.epoch - 1)
