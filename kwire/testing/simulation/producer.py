"""The producer of a world: it writes records straight into the logs, some in transactions, half of which are aborted.

A record is in the ledger as sent from the moment on that the members may read it: at once, or, for readers of committed
records, when its transaction is committed.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import trio

from kwire.model import Header, TopicPartition
from kwire.testing.cluster.batches import NewRecord, build_batch
from kwire.testing.cluster.state import ClusterState
from kwire.testing.cluster.topics import Partition
from kwire.testing.invariants.ledger import Event, Hidden, Sent
from kwire.testing.simulation.handling import VALUE
from kwire.testing.simulation.scenario import Scenario

# Far from the producer ids that the cluster assigns.
FIRST_PRODUCER_ID = 1_000_000
BACKLOG_BATCHES = 60
MAX_IN_BURST = 6
# The longest time between two batches of a transaction.
PAUSE_SECONDS = 0.3


class SimulatedProducer:
    """Writes the records of a world, some of them in transactions.

    Args:
        write: takes events for the ledger.
    """

    def __init__(
        self, scenario: Scenario, cluster: ClusterState, write: Callable[[Event], None], now_ms: Callable[[], float]
    ) -> None:
        self._habits = scenario.habits
        self._handling = scenario.handling
        self._user_faults = scenario.user_faults
        self.is_calm = False
        """Whether all records that were sent can be read."""
        self._records_per_second = scenario.records_per_second
        self._cluster = cluster
        self._write = write
        self._now_ms = now_ms
        self._rng = random.Random(f"records {scenario.seed}")
        self._transaction_rng = random.Random(f"transactions {scenario.seed}")
        self._shape_rng = random.Random(f"shapes {scenario.seed}")
        self._sent = 0
        self._transactions = 0

    async def run(self) -> None:
        """Send until cancelled; open transactions are ended then."""
        async with trio.open_nursery() as transactions:
            while True:
                batch = self._rng.randint(1, 20)
                await trio.sleep(self._rng.expovariate(self._records_per_second / batch))
                name = self._rng.choice(list(self._cluster.topics))
                at = TopicPartition(name, self._rng.randrange(len(self._cluster.topics[name].partitions)))
                if self._transaction_rng.random() < self._habits.transactions:
                    transactions.start_soon(self._transact, at, batch)
                else:
                    self.send(at, batch)
                    if self._rng.random() < self._habits.bursts:
                        self._send_batches(at, self._rng.randint(2, MAX_IN_BURST), batch)
                    if self._shape_rng.random() < self._habits.floods:
                        self._flood(at.topic)

    def send_everywhere(self, count: int) -> None:
        """Send this many records to each partition."""
        for name, topic in self._cluster.topics.items():
            for index in range(len(topic.partitions)):
                self.send(TopicPartition(name, index), count)

    def _flood(self, topic: str) -> None:
        """A lag of several partitions that takes a consumer several fetches, however soon it polls again."""
        for index in range(len(self._cluster.topics[topic].partitions)):
            self._send_batches(TopicPartition(topic, index), BACKLOG_BATCHES, 5)

    def send_backlog(self, at: TopicPartition) -> None:
        """More than a small buffer holds, in small batches."""
        self._send_batches(at, BACKLOG_BATCHES, 5)

    async def send_last(self, at: TopicPartition) -> None:
        """Behind its records the partition ends with a marker, where there are transactions."""
        if self._habits.transactions:
            await self._transact(at, 3)

    def _send_batches(self, at: TopicPartition, batches: int, count: int) -> None:
        for _ in range(batches):
            self.send(at, count)

    def send(self, at: TopicPartition, count: int) -> list[str]:
        """One batch, if the partition has a leader: if not, a producer's send would fail, and nothing is promised. The
        values that were sent."""
        found = self._cluster.partition(*at)
        if found is None or found.leader < 0:
            return []
        values = self._new_values(count)
        base = self._cluster.produce(at.topic, at.partition, self._records(values), codec=self._codec())
        self._note(at, dict(enumerate(values, base)))
        return values

    def _new_values(self, count: int) -> list[str]:
        values = [f"{VALUE}{number}" for number in range(self._sent, self._sent + count)]
        self._sent += count
        return values

    def _records(self, values: list[str]) -> list[NewRecord]:
        key_of = self._handling.key_of if self._handling is not None else _no_key
        if self._user_faults is None:
            return [NewRecord(value.encode(), key_of(value), self._headers()) for value in values]
        payloads = [self._user_faults.payload(value, key_of(value), may_be_bad=not self.is_calm) for value in values]
        return [NewRecord(value, key, self._headers()) for value, key in payloads]

    def _headers(self) -> tuple[Header, ...]:
        """So that records are of all sizes; nobody looks at it."""
        if not self._habits.most_header_bytes:
            return ()
        return (Header("size", self._shape_rng.randbytes(self._shape_rng.randint(0, self._habits.most_header_bytes))),)

    def _codec(self) -> int:
        return self._shape_rng.choice(self._habits.codecs)

    def _note(self, at: TopicPartition, values: dict[int, str]) -> None:
        for offset, value in values.items():
            self._write(Sent(at_ms=self._now_ms(), partition=at, offset=offset, value=value))

    # --- transactions ---------------------------------------------------------------------------------------

    async def _transact(self, at: TopicPartition, count: int) -> None:
        found = self._cluster.partition(*at)
        if found is None or found.leader < 0:
            return
        self._transactions += 1
        producer_id = FIRST_PRODUCER_ID + self._transactions
        committed = self._transaction_rng.random() < 0.5
        values: dict[int, str] = {}
        try:
            for _ in range(self._transaction_rng.randint(1, 3)):
                written = self._append(found, producer_id, len(values), count)
                values |= written
                if not self._habits.read_committed:
                    self._note(at, written)
                await trio.sleep(self._transaction_rng.uniform(0.0, PAUSE_SECONDS))
        finally:
            marker = self._end(found, producer_id, committed=committed)
            hidden = [marker] if committed or not self._habits.read_committed else [*values, marker]
            self._write(Hidden(at_ms=self._now_ms(), partition=at, offsets=tuple(hidden)))
            if self._habits.read_committed and committed:
                start = found.log.log_start_offset  # what has been deleted meanwhile will not be read
                self._note(at, {offset: value for offset, value in values.items() if offset >= start})

    def _append(self, found: Partition, producer_id: int, sequence: int, count: int) -> dict[int, str]:
        values = self._new_values(count)
        now_ms = self._cluster.wall_clock_ms()
        batch = build_batch(
            self._records(values),
            timestamp_ms=now_ms,
            codec=self._codec(),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        result = found.log.append(batch, found.leader_epoch, now_ms)
        self._cluster.changed.notify(found.key)
        return dict(enumerate(values, result.base_offset))

    def _end(self, found: Partition, producer_id: int, *, committed: bool) -> int:
        """Write the marker. Returns its offset."""
        marker = found.log.end_transaction(
            producer_id, 0, found.leader_epoch, self._cluster.wall_clock_ms(), committed=committed
        )
        self._cluster.changed.notify(found.key)
        return marker


def _no_key(_value: str) -> None:
    """Nor does it need one."""
