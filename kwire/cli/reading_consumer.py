"""The interface of a consumer that `kwire consume` needs, so that tests can use a fake."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from re import Pattern
from typing import Protocol

from kwire.cli.catching_up import ConsumerWithProgress
from kwire.cli.shown_values import BytesRecord
from kwire.cli.starts import StartingConsumer
from kwire.cli.topic_choice import ListingConsumer
from kwire.metrics import MetricName
from kwire.model import Cursor, OffsetAndMetadata, TopicPartition


class PolledRecords(Protocol):
    """The part of `kwire.Records` that is needed here."""

    def __bool__(self) -> bool: ...

    def partitions(self) -> Collection[TopicPartition]: ...

    def __getitem__(self, partition: TopicPartition, /) -> Sequence[BytesRecord]: ...

    def of(self, cursor: Cursor, /) -> PolledRecords: ...

    def next_offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]: ...


class ReadingConsumer(StartingConsumer, ConsumerWithProgress, ListingConsumer, Protocol):
    """The part of `kwire.Consumer` that reading a topic needs."""

    def assign(self, partitions: Collection[TopicPartition], /) -> None: ...

    def subscribe(self, topics: Collection[str] | Pattern[str], /) -> None: ...

    def assignment(self) -> Collection[TopicPartition]: ...

    def poll(self, timeout: float, /) -> PolledRecords: ...

    def position(self, partition: TopicPartition, /, *, timeout: float) -> int: ...

    def pause(self, partitions: Collection[TopicPartition], /) -> None: ...

    def metrics(self) -> Mapping[MetricName, float]: ...

    def close(self) -> None: ...
