"""TransactionCoordinator: producer ids, transactions and their markers (KIP-98, KIP-360, KIP-447, KIP-890).

One object for the whole cluster, a stand-in for the replicated `__transaction_state` log; handlers ask first whether
their broker is the coordinator. Contract: pure; time comes in. What it changes elsewhere it changes through `cluster`:
markers in partitions' logs, pending offsets of groups. Called by the handlers of transactions and by `Timers`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from kwire.protocol.error_codes import ErrorCode
from kwire.testing.cluster.topics import NO_LEADER
from kwire.testing.cluster.transaction import (
    ProducerIdAndEpoch,
    Transaction,
    TransactionRefusedError,
    TransactionStatus,
)
from kwire.testing.cluster.validation import RecordsRefusedError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kwire.testing.cluster.changes import Changes
    from kwire.testing.cluster.groups.store import GroupStore
    from kwire.testing.cluster.settings import BrokerSettings
    from kwire.testing.cluster.topics import Partition

TopicAndPartition = tuple[str, int]

_MAY_BE_FORGOTTEN = (TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)


class PartitionsAndGroups(Protocol):
    """What transactions are about: partitions and groups. `state.ClusterState` has them."""

    @property
    def settings(self) -> BrokerSettings: ...
    @property
    def groups(self) -> GroupStore: ...
    @property
    def changed(self) -> Changes: ...

    def partition(self, topic: str, number: int) -> Partition | None: ...

    def wall_clock_ms(self) -> int: ...


class TransactionCoordinator:
    """All transactional ids.

    Args:
        cluster: Where markers go, and what it is set to.
    """

    def __init__(self, cluster: PartitionsAndGroups) -> None:
        self._cluster = cluster
        self._settings = cluster.settings
        self._transactions: dict[str, Transaction] = {}
        self._next_producer_id = 0

    def new_producer_id(self) -> int:
        """An id that nobody has had."""
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def find(self, transactional_id: str, now_ms: float) -> Transaction | None:
        """What is known of a transactional id; nothing, when it has not been used for a week."""
        found = self._transactions.get(transactional_id)
        if found is None or found.status not in _MAY_BE_FORGOTTEN:
            return found
        if now_ms - found.updated_ms <= self._settings.transactional_id_expiration_ms:
            return found
        del self._transactions[transactional_id]
        return None

    def all(self) -> list[Transaction]:
        """Every transactional id, in the order of their first use."""
        return list(self._transactions.values())

    # --- what clients ask for --------------------------------------------------------------------------------

    def init_producer(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None, now_ms: float
    ) -> ProducerIdAndEpoch:
        """Make the caller the producer of this id; the one before is fenced.

        Args:
            transactional_id: Not empty.
            timeout_ms: How long its transactions may take.
            expected: Who it says that it is, when it goes on after an error (KIP-360).
            now_ms: The cluster's clock.

        Raises:
            TransactionRefusedError: It was fenced itself, or has to ask again because a transaction has to end first.
        """
        if not 0 < timeout_ms <= self._settings.transaction_max_timeout_ms:
            raise TransactionRefusedError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        found = self.find(transactional_id, now_ms)
        if found is None:
            found = Transaction(transactional_id, self.new_producer_id(), timeout_ms, updated_ms=now_ms)
            self._transactions[transactional_id] = found
        found.check_successor(expected)
        if found.is_ongoing:
            self._fence(found, now_ms)
            raise TransactionRefusedError(ErrorCode.CONCURRENT_TRANSACTIONS)
        found.begin_producer(expected, timeout_ms, now_ms, self.new_producer_id)
        return ProducerIdAndEpoch(found.producer_id, found.epoch)

    def add(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        now_ms: float,
        *,
        partitions: Collection[TopicAndPartition] = (),
        groups: Collection[str] = (),
    ) -> None:
        """Make partitions and groups part of the transaction. Raises: TransactionRefusedError."""
        found = self._known(transactional_id, now_ms)
        found.check_producer(producer)
        found.add(partitions, groups, now_ms, self._cluster.wall_clock_ms())

    def verify(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        now_ms: float,
        *,
        partitions: Collection[TopicAndPartition] = (),
        groups: Collection[str] = (),
    ) -> None:
        """Whether all of these are part of the transaction (KIP-890). Raises: TransactionRefusedError."""
        found = self._known(transactional_id, now_ms)
        found.check_producer(producer)
        if any(one not in found.partitions for one in partitions) or any(one not in found.groups for one in groups):
            raise TransactionRefusedError(ErrorCode.TRANSACTION_ABORTABLE)

    def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, now_ms: float, *, committed: bool, bumps_epochs: bool
    ) -> ProducerIdAndEpoch:
        """Commit or abort; who the producer is from now on.

        Raises:
            TransactionRefusedError: Not its producer, or nothing that could end in that way.
        """
        found = self._known(transactional_id, now_ms)
        if found.prepare_end(
            producer, committed=committed, bumps_epochs=bumps_epochs, now_ms=now_ms, new_id=self.new_producer_id
        ):
            self._end_soon(found, now_ms)
        return found.after_the_end

    def selected(
        self, *, states: Sequence[str], producer_ids: Sequence[int], longer_than_ms: int, now_ms: float
    ) -> list[Transaction]:
        """The transactional ids that pass all filters; an empty one, or a duration below 0, lets all pass (KIP-664)."""
        return [
            one
            for one in self.all()
            if (not states or one.status.value in states)
            and (not producer_ids or one.producer_id in producer_ids)
            and (longer_than_ms < 0 or (one.started_at_ms >= 0 and now_ms - one.started_ms > longer_than_ms))
        ]

    # --- what time brings ------------------------------------------------------------------------------------

    def expire(self, now_ms: float) -> float:
        """Abort transactions that took too long, write markers that are due; when to be called next."""
        return min((self._expire(one, now_ms) for one in self.all()), default=math.inf)

    def _expire(self, transaction: Transaction, now_ms: float) -> float:
        if transaction.is_ongoing:
            due_ms = self._looked_at_ms(transaction.started_ms + transaction.timeout_ms)
            if now_ms < due_ms:
                return due_ms
            self._fence(transaction, now_ms)
        if transaction.is_ending:
            if now_ms < transaction.markers_due_ms:
                return transaction.markers_due_ms
            self._write_markers(transaction)
        return math.inf

    def _looked_at_ms(self, timeout_ms: float) -> float:
        """Kafka looks for transactions that took too long every so often; this is the first such moment behind it."""
        interval_ms = self._settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        return (math.floor(timeout_ms / interval_ms) + 1) * interval_ms

    def _known(self, transactional_id: str, now_ms: float) -> Transaction:
        if not transactional_id:
            raise TransactionRefusedError(ErrorCode.INVALID_REQUEST)
        found = self.find(transactional_id, now_ms)
        if found is None:
            raise TransactionRefusedError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return found

    def _fence(self, transaction: Transaction, now_ms: float) -> None:
        transaction.prepare_fence(now_ms)
        self._end_soon(transaction, now_ms)

    # --- markers ---------------------------------------------------------------------------------------------

    def _end_soon(self, transaction: Transaction, now_ms: float) -> None:
        transaction.markers_due_ms = now_ms + self._settings.transaction_marker_delay_ms
        if now_ms >= transaction.markers_due_ms:
            self._write_markers(transaction)

    def _write_markers(self, transaction: Transaction) -> None:
        """One in each partition; where nobody leads now, it waits, and with it the end of the transaction."""
        committed = transaction.status is TransactionStatus.PREPARE_COMMIT
        for place in tuple(transaction.partitions):
            if self._write_marker(transaction, place, committed):
                del transaction.partitions[place]
        if transaction.groups:
            self._cluster.groups.offsets.end_transaction(transaction.producer_id, committed=committed)
            transaction.groups.clear()
        if not transaction.partitions:
            transaction.complete()

    def _write_marker(self, transaction: Transaction, place: TopicAndPartition, committed: bool) -> bool:
        partition = self._cluster.partition(*place)
        if partition is None:
            return True
        if partition.leader == NO_LEADER:
            return False
        try:
            partition.log.end_transaction(
                transaction.producer_id,
                transaction.epoch,
                partition.leader_epoch,
                self._cluster.wall_clock_ms(),
                committed=committed,
            )
        except RecordsRefusedError:
            return True  # A later epoch has written there: this transaction's records ended long ago.
        self._cluster.changed.notify(partition.key)
        return True


def partitions_of(topics: Iterable[tuple[str, Iterable[int]]]) -> list[TopicAndPartition]:
    """Topics with their partitions, one by one."""
    return [(name, index) for name, indexes in topics for index in indexes]
