"""What the scenarios of the fault rows share: how a story becomes a test, and who reads in it.

`KWIRE_SEED=7 pytest tests/testing/simulation -k test_row` tells the stories in another order of things.
"""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pytest

from kwire.consumer.listener import RebalanceConsumer, RebalanceListener
from kwire.errors import KafkaError
from kwire.model import TopicPartition
from kwire.testing.cluster.releases import LATEST
from kwire.testing.simulation.script import BytesConsumer, Script, TimeToRecover, play

TOPIC = "t"
GROUP = "scripted"
T0, T1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
BOTH = frozenset({T0, T1})
# One virtual second of a consumer at rest takes two fetches of each broker; what turns for nothing takes hundreds.
FETCHES_PER_SECOND = 12

SEED = int(os.environ.get("KWIRE_SEED", "1"))

both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def scripted(
    *,
    brokers: int = 3,
    settings: Mapping[str, object] | None = None,
    release: str = LATEST.name,
    racks: Sequence[str] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A story as a test: its first argument is the `Script`, the others are pytest's."""

    def decorate(story: Callable[..., None]) -> Callable[..., None]:
        def test(recoveries: Callable[[Sequence[TimeToRecover]], None], **arguments: object) -> None:
            told = play(
                partial(story, **arguments), brokers=brokers, settings=settings, release=release, racks=racks, seed=SEED
            )
            recoveries(told.recoveries)

        first = inspect.Parameter("recoveries", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        others = list(inspect.signature(story).parameters.values())[1:]
        test.__signature__ = inspect.Signature([first, *others])  # type: ignore[attr-defined]  # pytest reads it
        test.__name__, test.__doc__, test.__module__ = story.__name__, story.__doc__, story.__module__
        return test

    return decorate


class Change(NamedTuple):
    """What a listener heard."""

    at_ms: float
    kind: str
    partitions: frozenset[TopicPartition]


class Listening(RebalanceListener):
    """A listener that writes down what it hears."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.changes: list[Change] = []

    @property
    def owned(self) -> frozenset[TopicPartition]:
        owned: frozenset[TopicPartition] = frozenset()
        for change in self.changes:
            owned = owned | change.partitions if change.kind == "assigned" else owned - change.partitions
        return owned

    def kinds(self) -> list[str]:
        """What was heard, where it was about any partitions."""
        return [change.kind for change in self.changes if change.partitions]

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self._hear("assigned", partitions)

    def on_partitions_revoked(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self._hear("revoked", partitions)

    def on_partitions_lost(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self._hear("lost", partitions)

    def _hear(self, kind: str, partitions: Collection[TopicPartition]) -> None:
        self.changes.append(Change(self.script.now_ms(), kind, frozenset(partitions)))


def reading(script: Script, partitions: int = 1, **settings: object) -> tuple[BytesConsumer, Listening]:
    """A consumer of the topic, which has one record in each partition, all of them read; and its listener."""
    if TOPIC not in script.cluster.topics:
        script.cluster.create_topic(TOPIC, partitions, len(script.cluster.brokers))
    listening = Listening(script)
    consumer = script.consumer(**settings)
    consumer.subscribe([TOPIC], listener=listening)
    script.read(consumer, [value for number in range(partitions) for value in script.send(TOPIC, 1, number)])
    return consumer, listening


class Reader(Listening):
    """A member that lives beside the story: polls, takes its time over what it gets, commits it.

    Attributes:
        processing_ms: How long it takes over what a poll has returned.
        values: What it has processed, in order.
        committed: What it has been told is committed.
        errors: What its calls have raised.
        processed_before: How many values had been processed at each of its `changes`.
    """

    def __init__(self, script: Script, *topics: str, **settings: object) -> None:
        super().__init__(script)
        self.process = script.process()
        self.processing_ms = 1.0
        self.values: list[bytes] = []
        self.committed: list[bytes] = []
        self.errors: list[KafkaError] = []
        self.processed_before: list[int] = []
        self.close_took_ms = 0.0
        self.consumer: BytesConsumer
        self._topics = topics or (TOPIC,)
        self._settings = settings
        self._stops = False
        script.start(self.process, self._live)
        script.at_end(self.stop)

    def stop(self) -> None:
        """Close the consumer, and wait until it is."""
        self._stops = True
        self.process.thaw()
        self.script.until(lambda: self.process.is_killed or self.process.has_ended)

    def kill(self) -> None:
        self.script.kill(self.process)

    def _live(self) -> None:
        consumer = self.consumer = self.script.consumer_in(self.process, **self._settings)
        consumer.subscribe(self._topics, listener=self)
        while not self._stops:
            try:
                self._poll_once(consumer)
            except KafkaError as error:
                self.errors.append(error)
                self.script.sleep(100.0)
        self.close_took_ms = self.script.took_ms(consumer.close)

    def _hear(self, kind: str, partitions: Collection[TopicPartition]) -> None:
        super()._hear(kind, partitions)
        self.processed_before.append(len(self.values))

    def _poll_once(self, consumer: BytesConsumer) -> None:
        records = consumer.poll(0.2)
        if records:
            values = [record.value or b"" for record in records]
            self.values += values
            self.script.sleep(self.processing_ms)
            consumer.commit_sync(timeout=5.0)
            self.committed += values


def partitions(count: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(TOPIC, number) for number in range(count))


def share_all(readers: Sequence[Reader], all_partitions: frozenset[TopicPartition]) -> bool:
    """Whether each partition has one owner, and each reader some."""
    owned = [tp for reader in readers for tp in reader.owned]
    return len(owned) == len(all_partitions) and set(owned) == all_partitions and all(each.owned for each in readers)


def group_of_two(script: Script, count: int = 2, **settings: object) -> tuple[Reader, Reader]:
    """Two members who share the topic's partitions."""
    script.cluster.create_topic(TOPIC, count, 3)
    pair = Reader(script, **settings), Reader(script, **settings)
    script.until(lambda: share_all(pair, partitions(count)))
    return pair


def acknowledged_once(readers: Sequence[Reader]) -> bool:
    """Whether nothing came again that somebody had been told is committed."""
    return max(Counter(value for reader in readers for value in reader.committed).values(), default=0) <= 1


def committed_by_another(script: Script, protocol: str) -> list[bytes]:
    """What a new member of the group has to begin with: its policy would be the end of the log."""
    consumer, _ = reading(script, group_protocol=protocol)
    consumer.commit_sync()
    consumer.close()
    return script.send(TOPIC, 3)


def poll_until(
    script: Script, consumer: BytesConsumer, condition: Callable[[], object], within_ms: float = 60_000.0
) -> None:
    """Poll, whatever comes, until it is true."""

    def polled() -> object:
        consumer.poll(0.05)
        return condition()

    script.until(polled, within_ms)


def send_to_each(script: Script, partitions: int = 3) -> list[bytes]:
    return [value for number in range(partitions) for value in script.send(TOPIC, 1, number)]


def gather(script: Script, consumer: BytesConsumer, for_ms: float) -> tuple[list[bytes], list[KafkaError]]:
    """What comes and what is raised in that time."""
    values: list[bytes] = []
    errors: list[KafkaError] = []
    end_ms = script.now_ms() + for_ms
    while script.now_ms() < end_ms:
        try:
            values += [record.value or b"" for record in consumer.poll(0.1)]
        except KafkaError as error:
            errors.append(error)
            script.sleep(100.0)
    return values, errors


def everywhere(_client: str, _host: str) -> bool:
    """Between all clients and all brokers."""
    return True
