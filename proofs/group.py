"""The parts that proofs about groups share: steady traffic, members that poll on threads of their own, and a ledger.

The traffic is librdkafka's. Members do what a plain application does: poll, note each record, poll again. The ledger
knows what was acknowledged and what was seen by whom, so that a proof can ask it for losses, duplicates and silences.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from contextlib import contextmanager
from enum import Enum
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kwire import Consumer, RebalanceConsumer, RebalanceListener, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from kwire.config import Settings

TIMEOUT_S = 30.0
POLL_S = 0.1
INTERVAL_S = 0.02  # between two records of a partition


class Group(Enum):
    """The ways in which a group may share its partitions out."""

    RANGE = "range"
    COOPERATIVE_STICKY = "cooperative-sticky"
    CONSUMER = "consumer"

    @property
    def settings(self) -> Settings:
        if self is Group.CONSUMER:
            return {"group_protocol": "consumer"}
        return {"group_protocol": "classic", "partition_assignment_strategy": self.value}


def make_topic(
    bootstrap_servers: str,
    name: str,
    partitions: int,
    replication_factor: int = 1,
    settings: Mapping[str, str] | None = None,
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    topic = NewTopic(name, partitions, replication_factor, config=dict(settings or {}))
    admin.create_topics([topic])[name].result(TIMEOUT_S)


def partitions_of(topic: str, count: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in range(count))


class Ledger:
    """What each member polled, and when. Any thread may write; it is read after the end of a phase."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: Counter[TopicPartition] = Counter()
        self._seen: defaultdict[TopicPartition, Counter[int]] = defaultdict(Counter)
        self._arrivals_s: defaultdict[TopicPartition, list[float]] = defaultdict(list)

    def acknowledged(self, tp: TopicPartition, offset: int) -> None:
        with self._lock:
            self._ends[tp] = max(self._ends[tp], offset + 1)

    def saw(self, records: Iterable[tuple[TopicPartition, int]], now_s: float) -> None:
        with self._lock:
            for tp, offset in records:
                self._seen[tp][offset] += 1
                # Two members may note in another order than they looked at the clock.
                insort(self._arrivals_s[tp], now_s)

    # --- questions ------------------------------------------------------------------------------------------

    @property
    def produced(self) -> int:
        with self._lock:
            return sum(self._ends.values())

    def missing(self) -> list[tuple[TopicPartition, int]]:
        """What was acknowledged and nobody has seen (yet)."""
        with self._lock:
            return [
                (tp, offset) for tp, end in self._ends.items() for offset in range(end) if not self._seen[tp][offset]
            ]

    def duplicates(self) -> list[tuple[TopicPartition, int]]:
        """What was seen more than once."""
        with self._lock:
            return [(tp, offset) for tp, counts in self._seen.items() for offset, seen in counts.items() if seen > 1]

    def last_seen_s(self, tp: TopicPartition) -> float:
        with self._lock:
            times_s = self._arrivals_s[tp]
            return times_s[-1] if times_s else float("-inf")

    def silence_s(self, tp: TopicPartition, since_s: float, until_s: float, *, was_read: bool = True) -> float:
        """The longest time without a record of this partition between two moments. If it was read before the first,
        a silence that began by then counts from its own beginning."""
        with self._lock:
            times_s = self._arrivals_s[tp]
            first, behind = bisect_left(times_s, since_s), bisect_right(times_s, until_s)
            began_s = times_s[first - 1] if was_read and first else since_s
            within_s = [began_s, *times_s[first:behind], until_s]
        return max(later - earlier for earlier, later in pairwise(within_s))


class Traffic(threading.Thread):
    """Writes a record to each of these partitions, again and again, until it is stopped."""

    def __init__(self, bootstrap_servers: str, ledger: Ledger, partitions: Collection[TopicPartition]) -> None:
        super().__init__(name="traffic")
        settings: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._producer = Producer({**settings, "acks": "all", "enable.idempotence": True, "linger.ms": 0})
        self._ledger = ledger
        self._partitions = sorted(partitions)
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(INTERVAL_S):
            for tp in self._partitions:
                self._producer.produce(
                    tp.topic, b"%d" % time.monotonic_ns(), partition=tp.partition, on_delivery=partial(self._note, tp)
                )
            self._producer.poll(0)

    def _note(self, tp: TopicPartition, error: KafkaError | None, message: Message[bytes, bytes]) -> None:
        if error is not None:
            raise KafkaException(error)
        # A batch that was sent again, because its first answer was lost, may be acknowledged without its offset. Later
        # ones have theirs, and all in front of an end have to be seen.
        if (offset := message.offset()) is not None and offset >= 0:
            self._ledger.acknowledged(tp, offset)

    def stop(self) -> None:
        """Returns when all that was written is acknowledged."""
        self._stopped.set()
        self.join()
        if left := self._producer.flush(TIMEOUT_S):
            raise TimeoutError(f"{left} records not acknowledged within {TIMEOUT_S} s")


class Member(threading.Thread, RebalanceListener):
    """One kwire consumer that polls on a thread of its own; its listener writes down what it is told."""

    def __init__(self, ledger: Ledger, topics: Collection[str], name: str, **settings: object) -> None:
        threading.Thread.__init__(self, name=name)
        self.owned: frozenset[TopicPartition] = frozenset()
        self.told: list[tuple[float, str, frozenset[TopicPartition]]] = []
        self.generation_id = -1
        self.topics = frozenset(topics)
        self.error: BaseException | None = None
        self._ledger = ledger
        self._stopped = threading.Event()
        self._consumer: Consumer[bytes, bytes] = Consumer(config={"client_id": name, **settings})

    def run(self) -> None:
        try:
            with self._consumer as consumer:
                subscribed: frozenset[str] = frozenset()
                while not self._stopped.is_set():
                    if subscribed != self.topics:
                        subscribed = self.topics
                        consumer.subscribe(subscribed, listener=self)
                    records = consumer.poll(POLL_S)
                    seen = [(TopicPartition(record.topic, record.partition), record.offset) for record in records]
                    self._ledger.saw(seen, time.monotonic())
                    self.generation_id = consumer.group_metadata().generation_id
        except BaseException as error:  # noqa: BLE001  a thread has nobody to raise to: the proof looks here
            self.error = error
        self.owned = frozenset()

    def stop(self) -> None:
        """Leave the group, and return when that is done."""
        self._stopped.set()
        self.join()

    # --- the listener ---------------------------------------------------------------------------------------

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self._tell("assigned", partitions)
        self.owned |= frozenset(partitions)

    def on_partitions_revoked(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self._tell("revoked", partitions)
        self.owned -= frozenset(partitions)

    def on_partitions_lost(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self._tell("lost", partitions)
        self.owned -= frozenset(partitions)

    def _tell(self, what: str, partitions: Collection[TopicPartition]) -> None:
        self.told.append((time.monotonic(), what, frozenset(partitions)))


def shared_out(members: Collection[Member], partitions: Collection[TopicPartition]) -> bool:
    """Whether each of these partitions has exactly one owner among the members, and each member a share of them."""
    owned = [member.owned for member in members]
    return all(owned) and sorted(chain.from_iterable(owned)) == sorted(partitions)


def wait_until(condition: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> bool:
    """Whether it came true in time."""
    until_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until_s:
            return False
        time.sleep(0.005)
    return True


@contextmanager
def running(*threads: Traffic | Member) -> Iterator[None]:
    """Starts them, and stops what still runs at the end."""
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            if thread.is_alive():
                thread.stop()
