"""The coordinator: markers in every partition, in spite of absent leaders, timeouts, and producers to be fenced."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.testing.cluster.batches import build_batch
from kwire.testing.cluster.settings import BrokerSettings
from kwire.testing.cluster.state import ClusterState
from kwire.testing.cluster.transaction import ProducerIdAndEpoch, TransactionRefusedError, TransactionStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.testing.cluster.log import PartitionLog
    from kwire.testing.cluster.transactions import TransactionCoordinator

NAME = "transfers"
TIMEOUT_MS = 60_000
PLACES = [("topic", 0), ("topic", 1)]


class World:
    """A cluster under a clock that the test sets."""

    def __init__(self, **settings: object) -> None:
        self.now_ms = 0.0
        self.cluster = ClusterState(2, settings=BrokerSettings.of(settings), now_s=lambda: self.now_ms / 1000)
        self.cluster.create_topic("topic", partitions=2)

    @property
    def transactions(self) -> TransactionCoordinator:
        return self.cluster.transactions

    def log(self, index: int) -> PartitionLog:
        return self.cluster.topics["topic"].partitions[index].log

    def init(self, expected: ProducerIdAndEpoch | None = None) -> ProducerIdAndEpoch:
        return self.transactions.init_producer(NAME, TIMEOUT_MS, expected, self.now_ms)

    def write(self, producer: ProducerIdAndEpoch, *indexes: int, sequence: int = 0) -> None:
        self.transactions.add(NAME, producer, self.now_ms, partitions=[("topic", index) for index in indexes])
        batch = build_batch(
            [b"v"],
            timestamp_ms=self.cluster.wall_clock_ms(),
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        for index in indexes:
            self.log(index).append(batch, 0, self.cluster.wall_clock_ms())

    def end(self, producer: ProducerIdAndEpoch, *, committed: bool = True, bumps: bool = True) -> ProducerIdAndEpoch:
        return self.transactions.end(NAME, producer, self.now_ms, committed=committed, bumps_epochs=bumps)

    def status(self) -> TransactionStatus:
        found = self.transactions.find(NAME, self.now_ms)
        assert found is not None
        return found.status


@pytest.fixture
def world() -> World:
    return World()


def refused(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(TransactionRefusedError) as caught:
        call()
    return caught.value.code


@pytest.mark.parametrize("committed", [True, False])
def test_every_partition_gets_its_marker(world: World, committed: bool) -> None:
    producer = world.init()
    world.write(producer, 0, 1)
    assert world.end(producer, committed=committed) == (producer.producer_id, 1)
    for index in (0, 1):
        assert (world.log(index).last_stable_offset, world.log(index).log_end_offset) == (2, 2)
        assert [one.first_offset for one in world.log(index).aborted_between(0, 2)] == ([] if committed else [0])


def test_a_marker_waits_for_its_partitions_leader(world: World) -> None:
    """The other partitions do not wait, the next transaction does."""
    producer = world.init()
    world.write(producer, 0, 1)
    away = world.cluster.topics["topic"].partitions[1].leader
    world.cluster.kill_broker(away)
    after = world.end(producer)
    assert [world.log(index).last_stable_offset for index in (0, 1)] == [2, 0]
    assert world.status() is TransactionStatus.PREPARE_COMMIT

    def add() -> None:
        world.transactions.add(NAME, after, 0.0, partitions=PLACES)

    assert refused(add) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.cluster.start_broker(away)
    assert world.transactions.expire(world.now_ms) == math.inf
    assert world.log(1).last_stable_offset == 2
    assert world.status() is TransactionStatus.COMPLETE_COMMIT
    assert world.log(0).log_end_offset == 2, "a marker was written twice"


def test_markers_may_take_their_time() -> None:
    world = World(transaction_marker_delay_ms=50)
    producer = world.init()
    world.write(producer, 0)
    world.end(producer)
    assert world.log(0).last_stable_offset == 0
    assert world.transactions.expire(49.0) == 50.0
    world.transactions.expire(50.0)
    assert world.log(0).last_stable_offset == 2


def test_a_topic_that_was_deleted_needs_no_marker(world: World) -> None:
    producer = world.init()
    world.write(producer, 0)
    world.cluster.delete_topic("topic")
    world.end(producer)
    assert world.status() is TransactionStatus.COMPLETE_COMMIT


def test_who_comes_next_ends_the_transaction_before(world: World) -> None:
    """KIP-98: the new producer is told to ask again, and then its epoch is beyond the one that aborted."""
    old = world.init()
    world.write(old, 0)
    assert refused(world.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert [one.first_offset for one in world.log(0).aborted_between(0, 9)] == [0]
    new = world.init()
    assert new == (old.producer_id, old.epoch + 2)
    assert refused(lambda: world.end(old)) is ErrorCode.PRODUCER_FENCED
    assert refused(lambda: world.write(old, 0, sequence=1)) is ErrorCode.PRODUCER_FENCED


def test_a_transaction_that_takes_too_long_is_aborted_at_the_next_look(world: World) -> None:
    """Kafka looks every 10 s (transaction.abort.timed.out.transaction.cleanup.interval.ms)."""
    producer = world.init()
    world.now_ms = 1_000.0
    world.write(producer, 0)
    due_ms = world.transactions.expire(world.now_ms)
    assert due_ms == 70_000.0
    world.now_ms = 69_999.0
    assert world.transactions.expire(world.now_ms) == due_ms
    assert world.log(0).last_stable_offset == 0
    world.now_ms = due_ms
    assert world.transactions.expire(world.now_ms) == math.inf
    assert (world.log(0).last_stable_offset, world.status()) == (2, TransactionStatus.COMPLETE_ABORT)
    assert refused(lambda: world.end(producer)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_outside_of_what_the_broker_allows_is_refused(world: World, timeout_ms: int) -> None:
    def init() -> object:
        return world.transactions.init_producer(NAME, timeout_ms, None, 0.0)

    assert refused(init) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_an_id_that_was_never_used_is_not_known(world: World) -> None:
    nobody = ProducerIdAndEpoch(1, 0)
    assert refused(lambda: world.end(nobody)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refused(lambda: world.transactions.verify("", nobody, 0.0)) is ErrorCode.INVALID_REQUEST


def test_an_id_is_forgotten_after_a_week_unless_a_transaction_is_open(world: World) -> None:
    """transactional.id.expiration.ms."""
    producer = world.init()
    week_ms = world.cluster.settings.transactional_id_expiration_ms
    assert world.transactions.find(NAME, week_ms) is not None
    world.write(producer, 0)
    assert world.transactions.find(NAME, 3.0 * week_ms) is not None
    world.end(producer)
    assert world.transactions.find(NAME, week_ms + 1.0) is None


def test_only_what_was_added_passes_the_check(world: World) -> None:
    """KIP-890."""
    producer = world.init()
    verify = world.transactions.verify
    assert refused(lambda: verify(NAME, producer, 0.0, partitions=PLACES)) is ErrorCode.TRANSACTION_ABORTABLE
    world.transactions.add(NAME, producer, 0.0, partitions=PLACES, groups=["g"])
    verify(NAME, producer, 0.0, partitions=PLACES, groups=["g"])
    assert refused(lambda: verify(NAME, producer, 0.0, groups=["other"])) is ErrorCode.TRANSACTION_ABORTABLE


def test_filters_select_transactions(world: World) -> None:
    """KIP-664, KIP-994."""
    producer = world.init()
    world.now_ms = 500.0
    world.write(producer, 0)
    other = world.transactions.init_producer("other", TIMEOUT_MS, None, 0.0)

    def names(*states: str, producer_ids: tuple[int, ...] = (), longer_than_ms: int = -1) -> list[str]:
        found = world.transactions.selected(
            states=states, producer_ids=producer_ids, longer_than_ms=longer_than_ms, now_ms=1_500.0
        )
        return [one.transactional_id for one in found]

    assert names() == [NAME, "other"]
    assert names("Empty") == ["other"]
    assert names(producer_ids=(producer.producer_id,)) == [NAME]
    assert names("Ongoing", producer_ids=(other.producer_id,)) == []
    assert names(longer_than_ms=999) == [NAME]
    assert names(longer_than_ms=1_000) == []
