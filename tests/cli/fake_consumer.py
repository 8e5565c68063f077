"""`kwire consume` run in this process, with a fake for Kafka."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

import kwire.cli
from kwire.cli.shown_values import BytesRecord
from kwire.errors import IllegalStateError
from kwire.metrics import MetricName
from kwire.model import (
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    Record,
    TimestampType,
    TopicPartition,
)

TOPIC = "orders"
P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)

# No test needs more; a command that goes on forever fails instead.
MAX_POLLS = 100


class FakeRecords:
    """What a poll found."""

    def __init__(
        self, batches: dict[TopicPartition, list[BytesRecord]], next_offsets: dict[TopicPartition, int]
    ) -> None:
        self._batches = batches
        self._next_offsets = next_offsets

    def __bool__(self) -> bool:
        return bool(self._batches)

    def partitions(self) -> Collection[TopicPartition]:
        return self._batches.keys()

    def __getitem__(self, partition: TopicPartition, /) -> Sequence[BytesRecord]:
        return self._batches[partition]

    def next_offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return {partition: OffsetAndMetadata(offset) for partition, offset in self._next_offsets.items()}


@dataclass
class FakeConsumer:
    """A consumer of `kwire.Consumer`'s manners over logs in memory, with a group of one.

    `logs` hold values, None for an offset without a record; record n has timestamp 1000 * n. `on_poll` happens first in
    each poll. Positions move when the caller comes back; `close` commits them in a group, as auto-commit does.
    """

    logs: dict[TopicPartition, list[bytes | None]]
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    max_poll_records: int = 4
    on_poll: list[Callable[[], None]] = field(default_factory=list)
    settings: Mapping[str, object] = field(default_factory=dict)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    paused: set[TopicPartition] = field(default_factory=set)
    polls: int = 0
    closed: bool = False

    def partitions_for(self, topic: str, /, *, timeout: float | None = None) -> Sequence[PartitionInfo]:
        return [
            PartitionInfo(
                topic=topic,
                partition=partition.partition,
                leader=None,
                leader_epoch=None,
                replicas=(),
                in_sync_replicas=(),
            )
            for partition in self.logs
            if partition.topic == topic
        ]

    def list_topics(self, *, timeout: float | None = None) -> dict[str, Sequence[PartitionInfo]]:
        return {partition.topic: self.partitions_for(partition.topic) for partition in self.logs}

    def assign(self, partitions: Collection[TopicPartition], /) -> None:
        assert not self.in_group
        self.positions = {partition: self.reset(partition) for partition in partitions}

    def subscribe(self, topics: Collection[str] | re.Pattern[str], /) -> None:
        assert self.in_group
        pattern = topics if isinstance(topics, re.Pattern) else re.compile(f"^(?:{'|'.join(topics)})$")
        mine = [partition for partition in self.logs if pattern.search(partition.topic)]
        self.positions = {partition: self.committed.get(partition, self.reset(partition)) for partition in mine}

    def assignment(self) -> Collection[TopicPartition]:
        return frozenset(self.positions)

    def seek(self, partition: TopicPartition, offset: int, /) -> None:
        if partition not in self.positions:
            raise IllegalStateError(f"{partition} is not assigned")
        self.positions[partition] = offset

    def seek_to_beginning(self, partitions: Collection[TopicPartition], /) -> None:
        self.positions |= self.beginning_offsets(partitions)

    def seek_to_end(self, partitions: Collection[TopicPartition], /) -> None:
        self.positions |= self.end_offsets(partitions)

    def beginning_offsets(self, partitions: Collection[TopicPartition], /) -> dict[TopicPartition, int]:
        return {partition: self.begins.get(partition, 0) for partition in partitions}

    def end_offsets(self, partitions: Collection[TopicPartition], /) -> dict[TopicPartition, int]:
        return {partition: len(self.logs[partition]) for partition in partitions}

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], /
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        offsets = {partition: -(-timestamp // 1000) for partition, timestamp in timestamps.items()}
        return {
            partition: OffsetAndTimestamp(offset, offset * 1000) if offset < len(self.logs[partition]) else None
            for partition, offset in offsets.items()
        }

    def metrics(self) -> dict[MetricName, float]:
        name = MetricName(name="connection-count", group="consumer-metrics", tags=(("client-id", "me"),))
        return {name: float(self.polls)}

    def poll(self, timeout: float, /) -> FakeRecords:
        self.polls += 1
        assert self.polls < MAX_POLLS, "the command does not stop"
        if self.on_poll:
            self.on_poll.pop(0)()
        batches: dict[TopicPartition, list[BytesRecord]] = {}
        next_offsets: dict[TopicPartition, int] = {}
        for partition in self.positions.keys() - self.paused:
            offsets = range(self.positions[partition], len(self.logs[partition]))
            found = [self.record(partition, offset) for offset in offsets if self.logs[partition][offset] is not None]
            if found := found[: self.max_poll_records]:
                batches[partition] = found
                next_offsets[partition] = self.positions[partition] = found[-1].offset + 1
        if not batches:
            self.positions |= self.end_offsets(self.positions.keys() - self.paused)
        return FakeRecords(batches, next_offsets)

    def position(self, partition: TopicPartition, /, *, timeout: float) -> int:
        return self.positions[partition]

    def pause(self, partitions: Collection[TopicPartition], /) -> None:
        self.paused |= set(partitions)

    def close(self) -> None:
        self.closed = True
        if self.in_group:
            self.committed = dict(self.positions)

    @property
    def in_group(self) -> bool:
        return self.settings.get("group_id") is not None

    def reset(self, partition: TopicPartition) -> int:
        return len(self.logs[partition]) if str(self.settings["auto_offset_reset"]) == "latest" else 0

    def record(self, partition: TopicPartition, offset: int) -> BytesRecord:
        value = self.logs[partition][offset]
        key = b"key-%d" % offset
        kind = TimestampType.CREATE_TIME
        return Record(*partition, offset, offset * 1000, kind, key, value, (), None, len(key), len(value or b""))


@dataclass
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@dataclass
class Command:
    """Runs `kwire` with these arguments in this process."""

    capture: pytest.CaptureFixture[bytes]
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *arguments: object) -> Outcome:
        self.monkeypatch.setattr("sys.argv", ["kwire", *map(str, arguments)])
        with pytest.raises(SystemExit) as exited:
            kwire.cli.main()
        captured = self.capture.readouterr()
        assert isinstance(exited.value.code, int)
        return Outcome(exited.value.code, captured.out.decode(), captured.err.decode())


@dataclass
class CommandLine:
    """Runs `kwire consume` with a fake for Kafka."""

    kafka: FakeConsumer
    capture: pytest.CaptureFixture[bytes]
    command: Command

    def __call__(self, *arguments: str, topic: str | None = TOPIC) -> Outcome:
        named = [] if topic is None else [topic]
        return self.command("consume", *named, "-b", "localhost:1", *arguments)


def values(letter: str, count: int, begin: int = 0) -> list[bytes | None]:
    return [f"{letter}{number}".encode() for number in range(begin, begin + count)]


def names(letter: str, *numbers: int) -> list[str]:
    return [f"{letter}{number}" for number in numbers]
