"""The values users hold: partitions, offsets, records. Immutable, comparable, picklable, no behaviour beyond that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias
from uuid import UUID

from kwire.root_errors import InvalidArgumentError

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # type checkers bring it along

    # Without deserializers keys and values are bytes, as in the log.
    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

NO_LEADER_EPOCH = -1
MAX_OFFSET = 2**63 - 1
NO_TIMESTAMP = -1
ZERO_UUID = UUID(int=0)
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__share_group_state", "__transaction_state"})
"""Kafka's own, by the names that brokers know them by (`Topic.INTERNAL_TOPICS` of Java)."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Partitions: TypeAlias = frozenset[TopicPartition]


class TimestampType(Enum):
    """What a record's timestamp means; names are Java's."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Cursor(Enum):
    """Which of a consumer's cursors a record came from (`enable_parallel_rebalance`)."""

    MAIN = "main"
    """The one that is always there; after a crash it reads what is new."""
    CHILD = "child"
    """One that catches up with the lag a crash has left."""


class Header(NamedTuple):
    """One record header. Keys may repeat."""

    key: str
    value: bytes | None


class Record(NamedTuple, Generic[K, V]):
    """One record. A tuple, because making millions of them has to stay in C.

    `timestamp` is in milliseconds since the epoch, or -1. `serialized_*_size` count bytes on the wire, -1 for null.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: K | None
    value: V | None
    headers: tuple[Header, ...]
    leader_epoch: int | None
    serialized_key_size: int
    serialized_value_size: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition in one, as other calls take them."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset: the next record to read, with the leader epoch of the one before it (KIP-320)."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.offset, "__index__") or isinstance(self.offset, bool):
            raise InvalidArgumentError(f"an offset must be a whole number, not {self.offset!r}")
        if self.offset < 0:
            raise InvalidArgumentError(f"an offset cannot be negative: {self.offset}")


Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
"""What a commit says."""


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """Answer of `offsets_for_times`: the first offset whose timestamp (ms) is at or after the one asked for."""

    offset: int
    timestamp: int
    leader_epoch: int | None = None


class LogEnds(NamedTuple):
    """The high watermark of a partition, where its log ends, and its last stable offset, where the first open
    transaction begins, or else the log ends. Both as its leader has told them."""

    high_watermark: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True)
class Node:
    """A broker's address. Until a bootstrap server has said who it is, its id is negative."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host and not self.host.startswith("[") else self.host
        address = f"{host}:{self.port}"
        return address if self.id < 0 else f"{address} (id {self.id})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """What metadata says of one partition. Replica lists hold broker ids; `leader` is None while there is none.

    `topic_id` tells a topic from another one that had its name before; all zeros from brokers before 2.8 (KIP-516).
    """

    topic: str
    partition: int
    leader: Node | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    topic_id: UUID = ZERO_UUID


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression in the syntax of RE2/J that the broker matches topics with; for `subscribe` (KIP-848).

    Needs `group_protocol="consumer"`. A compiled `re.Pattern` is matched by kwire itself and works everywhere.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not self.pattern:
            raise InvalidArgumentError("a subscription pattern cannot be empty")

    def __str__(self) -> str:
        return self.pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadata:
    """Who this consumer is in its group; what a transactional producer needs to commit on its behalf."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpProgress:
    """The catching up of one partition.

    Attributes:
        ranges: The offsets that are not done, in order; none overlap. Done means processed and committed, or about to
            be committed.
        done: How many offsets of the lag have been returned, since this consumer began with it.
        left: How many have not. Both count offsets; a compacted topic has fewer records.
        rate_per_s: Offsets a second, over the last ten seconds.
        left_s: How long it takes at that rate, in seconds; None while nothing moves.
    """

    topic_partition: TopicPartition
    ranges: tuple[range, ...]
    done: int
    left: int
    rate_per_s: float
    left_s: float | None

    @property
    def share(self) -> float:
        """How much of it is done, 0 to 1."""
        return self.done / (self.done + self.left) if self.done + self.left else 1.0


def leader_epoch_or_none(leader_epoch: int) -> int | None:
    """Kafka writes "no epoch" as -1, the public classes as None."""
    return leader_epoch if leader_epoch > NO_LEADER_EPOCH else None


def leader_epoch_number(leader_epoch: int | None) -> int:
    """The inverse of `leader_epoch_or_none`: -1 for None, as Kafka and other clients' classes have it."""
    return NO_LEADER_EPOCH if leader_epoch is None else leader_epoch
