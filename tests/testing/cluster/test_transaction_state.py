"""One transactional id through its transactions: epochs, retries, fencing (KIP-98, KIP-360, KIP-890)."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.testing.cluster.transaction import (
    LAST_EPOCH,
    ProducerIdAndEpoch,
    Transaction,
    TransactionRefusedError,
    TransactionStatus,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    NewId = Callable[[], int]

TIMEOUT_MS = 60_000


@pytest.fixture
def new_id() -> NewId:
    ids = count(100)
    return lambda: next(ids)


@pytest.fixture
def transaction(new_id: NewId) -> Transaction:
    """Producer 7 with epoch 0, nothing begun."""
    made = Transaction("t", 7, TIMEOUT_MS)
    made.begin_producer(None, TIMEOUT_MS, 0.0, new_id)
    return made


def who(transaction: Transaction) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(transaction.producer_id, transaction.epoch)


def begin(transaction: Transaction) -> None:
    transaction.add([("topic", 0)], [], 1.0, 1)


def end(
    transaction: Transaction,
    new_id: NewId,
    *,
    committed: bool = True,
    bumps: bool = True,
    by: ProducerIdAndEpoch | None = None,
) -> bool:
    return transaction.prepare_end(
        by or who(transaction), committed=committed, bumps_epochs=bumps, now_ms=2.0, new_id=new_id
    )


def refused(
    transaction: Transaction,
    new_id: NewId,
    *,
    committed: bool = True,
    bumps: bool = True,
    by: ProducerIdAndEpoch | None = None,
) -> ErrorCode:
    with pytest.raises(TransactionRefusedError) as caught:
        end(transaction, new_id, committed=committed, bumps=bumps, by=by)
    return caught.value.code


def test_each_producer_gets_the_next_epoch(transaction: Transaction, new_id: NewId) -> None:
    assert who(transaction) == (7, 0)
    transaction.begin_producer(None, TIMEOUT_MS, 0.0, new_id)
    assert who(transaction) == (7, 1)


def test_a_producer_goes_on_after_an_error_and_may_ask_twice(transaction: Transaction, new_id: NewId) -> None:
    """KIP-360."""
    old = who(transaction)
    for _ in range(2):
        transaction.check_successor(old)
        transaction.begin_producer(old, TIMEOUT_MS, 0.0, new_id)
        assert who(transaction) == (7, 1)


def test_a_producer_that_was_replaced_cannot_go_on(transaction: Transaction, new_id: NewId) -> None:
    old = who(transaction)
    for _ in range(2):
        transaction.begin_producer(None, TIMEOUT_MS, 0.0, new_id)
    with pytest.raises(TransactionRefusedError, match="PRODUCER_FENCED"):
        transaction.begin_producer(old, TIMEOUT_MS, 0.0, new_id)
    with pytest.raises(TransactionRefusedError, match="PRODUCER_FENCED"):
        transaction.check_successor(ProducerIdAndEpoch(99, 0))


def test_epochs_that_run_out_bring_a_new_id(transaction: Transaction, new_id: NewId) -> None:
    transaction.epoch = LAST_EPOCH - 1
    old = who(transaction)
    transaction.begin_producer(old, TIMEOUT_MS, 0.0, new_id)
    assert who(transaction) == (100, 0)
    transaction.check_successor(old)
    transaction.begin_producer(old, TIMEOUT_MS, 0.0, new_id)
    assert who(transaction) == (100, 0), "asked again, it was given yet another"


@pytest.mark.parametrize("committed", [True, False])
def test_an_old_client_keeps_its_epoch(transaction: Transaction, new_id: NewId, committed: bool) -> None:
    begin(transaction)
    assert end(transaction, new_id, committed=committed, bumps=False)
    assert transaction.is_ending
    transaction.complete()
    assert transaction.status.value == ("CompleteCommit" if committed else "CompleteAbort")
    assert who(transaction) == (7, 0)
    assert not end(transaction, new_id, committed=committed, bumps=False), "asked again"
    assert refused(transaction, new_id, committed=not committed, bumps=False) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("committed", [True, False])
def test_a_new_client_gets_an_epoch_for_each_transaction(
    transaction: Transaction, new_id: NewId, committed: bool
) -> None:
    """KIP-890, with a retry of the request whose answer was lost."""
    old = who(transaction)
    begin(transaction)
    assert end(transaction, new_id, committed=committed)
    assert refused(transaction, new_id, committed=committed, by=old) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert refused(transaction, new_id, committed=not committed, by=old) is ErrorCode.INVALID_TXN_STATE
    transaction.complete()
    assert who(transaction) == transaction.after_the_end == (7, 1)
    assert not end(transaction, new_id, committed=committed, by=old)
    assert refused(transaction, new_id, committed=not committed, by=old) is ErrorCode.INVALID_TXN_STATE


def test_a_new_client_may_abort_what_the_coordinator_has_not_heard_of(transaction: Transaction, new_id: NewId) -> None:
    """KIP-890: a Produce may still be on its way; the new epoch keeps it out."""
    assert refused(transaction, new_id, committed=True) is ErrorCode.INVALID_TXN_STATE
    assert end(transaction, new_id, committed=False)
    transaction.complete()
    assert (transaction.status, transaction.epoch) == (TransactionStatus.COMPLETE_ABORT, 1)
    assert end(transaction, new_id, committed=False)
    assert transaction.epoch == 2


def test_an_old_client_may_not(transaction: Transaction, new_id: NewId) -> None:
    assert refused(transaction, new_id, committed=False, bumps=False) is ErrorCode.INVALID_TXN_STATE


def test_the_last_epoch_ends_with_a_new_id(transaction: Transaction, new_id: NewId) -> None:
    transaction.epoch = LAST_EPOCH - 1
    old = who(transaction)
    begin(transaction)
    end(transaction, new_id)
    assert who(transaction) == (7, LAST_EPOCH), "the marker is written in the last epoch"
    assert transaction.after_the_end == (100, 0)
    transaction.complete()
    assert who(transaction) == (100, 0)
    assert not end(transaction, new_id, by=old), "a retry from before the change"


def test_strangers_and_old_producers_cannot_end_a_transaction(transaction: Transaction, new_id: NewId) -> None:
    begin(transaction)
    assert refused(transaction, new_id, by=ProducerIdAndEpoch(8, 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refused(transaction, new_id, by=ProducerIdAndEpoch(7, 3)) is ErrorCode.PRODUCER_FENCED


def test_a_fenced_producer_is_told_so(transaction: Transaction, new_id: NewId) -> None:
    old = who(transaction)
    begin(transaction)
    transaction.prepare_fence(5.0)
    assert transaction.status is TransactionStatus.PREPARE_ABORT
    transaction.complete()
    assert refused(transaction, new_id, by=old) is ErrorCode.PRODUCER_FENCED
    assert refused(transaction, new_id, committed=False, by=old) is ErrorCode.PRODUCER_FENCED


def test_nothing_is_added_while_the_end_is_written(transaction: Transaction, new_id: NewId) -> None:
    begin(transaction)
    end(transaction, new_id, bumps=False)
    with pytest.raises(TransactionRefusedError, match="CONCURRENT_TRANSACTIONS"):
        transaction.check_producer(who(transaction))
    with pytest.raises(TransactionRefusedError, match="CONCURRENT_TRANSACTIONS"):
        transaction.check_successor(None)
