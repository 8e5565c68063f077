"""One assigned partition: its state machine, positions, and what holds it."""

from __future__ import annotations

from typing import NamedTuple

from kwire.config import OffsetReset
from kwire.epochs import AssignmentEpoch
from kwire.errors import KafkaError
from kwire.holds import BLOCKS_DELIVERY, BLOCKS_FETCH, Hold, reasons
from kwire.model import ZERO_UUID, LogEnds, OffsetAndMetadata, TopicPartition
from kwire.states.machine import Machine
from kwire.states.partition import PARTITION, STATE_REASONS, PartitionEffect, PartitionEvent, PartitionState

UNKNOWN_OFFSET = -1
NO_TURN = -1
UNLIMITED_BYTES = 2**31 - 1
# The first fetch from a new position is small: the application gets records early, while the next fetch is under way,
# and a reader of single records, or of a short range, fetches little that it drops. With less, the batches of some
# producers do not fit in.
FIRST_FETCH_BYTES = 512 * 1024
_FETCH_GROWTH = 2
_WITH_POSITION = frozenset({PartitionState.AWAIT_VALIDATION, PartitionState.FETCHING})


class LeaderAndEpoch(NamedTuple):
    """Who leads, since which election (KIP-320)."""

    id: int
    epoch: int


class AssignedPartition:
    """Mutable, for the network thread alone; changed through `Subscription`, which keeps track of what changed.

    Two positions: `fetch_offset` is where the next fetch starts, `consumed` what the application is known to have been
    given. Between the two lie the records in the buffer. `fetch_epoch` is the leader epoch of the record in front of
    `fetch_offset`; `leader` says whose log the position is known to be in, or is being looked for in. `topic_id` is the
    one that a leader has served it under; all zeros while none has: then the topic may turn out to be another one.
    """

    __slots__ = (
        "blocked_until_ms",
        "committed_offset",
        "consumed",
        "end_looked_up",
        "epoch",
        "error",
        "fetch_epoch",
        "fetch_max_bytes",
        "fetch_offset",
        "high_watermark",
        "holds",
        "is_sought",
        "last_stable_offset",
        "leader",
        "machine",
        "preferred_replica",
        "preferred_until_ms",
        "released",
        "reset",
        "stop_offset",
        "topic_id",
        "topic_partition",
        "turn",
    )

    def __init__(self, topic_partition: TopicPartition, epoch: AssignmentEpoch) -> None:
        self.topic_partition = topic_partition
        self.epoch = epoch
        self.machine: Machine[PartitionState, PartitionEvent, PartitionEffect] = Machine(PARTITION)
        self.fetch_offset = UNKNOWN_OFFSET
        self.fetch_epoch: int | None = None
        self.leader: LeaderAndEpoch | None = None
        self.topic_id = ZERO_UUID
        self.consumed: OffsetAndMetadata | None = None
        self.reset: OffsetReset | None = None
        self.holds: set[Hold] = set()
        # Its revoked callback has run: nothing more of it is committed.
        self.released = False
        # The user has moved it to where it is, and nothing has been fetched since.
        self.is_sought = False
        # What lies from here on is read by somebody else; None: it is read to the end and beyond.
        self.stop_offset: int | None = None
        # What one fetch may bring of it, where the settings allow more.
        self.fetch_max_bytes = FIRST_FETCH_BYTES
        self.high_watermark = UNKNOWN_OFFSET
        self.last_stable_offset = UNKNOWN_OFFSET
        # What the user was told since the last fetch, in the isolation level in use.
        self.end_looked_up = UNKNOWN_OFFSET
        # After a partition error fetching waits here, so that one bad partition cannot spin the loop.
        self.blocked_until_ms = 0.0
        # Its place among those that are fetched, the lowest first: it goes up when the partition is served.
        self.turn = NO_TURN
        self.preferred_replica: int | None = None
        self.preferred_until_ms = 0.0
        # For those who watch: the last commit that is known of, and what the newest fetch was refused for.
        self.committed_offset: int | None = None
        self.error: KafkaError | None = None

    @property
    def has_position(self) -> bool:
        """Whether it is known how far the application got, be it in a log that has been truncated since."""
        return self.machine.state in _WITH_POSITION

    @property
    def has_valid_position(self) -> bool:
        return self.machine.state is PartitionState.FETCHING

    @property
    def is_ahead(self) -> bool:
        """Whether something in front of the fetch position is not known to be in the application's hands."""
        return self.consumed is not None and self.consumed.offset != self.fetch_offset

    @property
    def blocks_delivery(self) -> bool:
        """Whether what is buffered of it waits."""
        return bool(self.holds) and not self.holds.isdisjoint(BLOCKS_DELIVERY)

    @property
    def blocks_delivery_by_backpressure(self) -> bool:
        """Whether its records wait for nothing else."""
        return self.holds & BLOCKS_DELIVERY == {Hold.BACKPRESSURE}

    @property
    def reasons(self) -> list[str]:
        """Why no record of it comes, in words; none if it is fetched."""
        found = reasons(self.holds)
        if waits_for := STATE_REASONS.get(self.machine.state):
            found.append(waits_for)
        if self.stop_offset is not None and self.fetch_offset >= self.stop_offset:
            found.append(f"all of it is fetched up to offset {self.stop_offset}")
        return found

    def fetchable(self, now_ms: float) -> bool:
        """Whether a fetch may ask for this partition now."""
        if not self.has_valid_position or not self.holds.isdisjoint(BLOCKS_FETCH):
            return False
        return now_ms >= self.blocked_until_ms and (self.stop_offset is None or self.fetch_offset < self.stop_offset)

    def set_position(self, position: OffsetAndMetadata) -> None:
        self.fetch_offset = position.offset
        self.fetch_epoch = position.leader_epoch
        self.leader = None
        self.topic_id = ZERO_UUID
        if self.consumed is None or self.consumed.offset != position.offset:
            self.fetch_max_bytes = FIRST_FETCH_BYTES  # else it is read again: if a batch did not fit, it may now
        self.consumed = OffsetAndMetadata(position.offset, "", position.leader_epoch)
        self.reset = None
        self.blocked_until_ms = 0.0

    def ends_at(self, high_watermark: int, last_stable_offset: int) -> None:
        """As its leader says."""
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.end_looked_up = UNKNOWN_OFFSET

    @property
    def has_open_transaction(self) -> bool:
        """Whether one had not ended at the last fetch, as far as read_committed is told."""
        return 0 <= self.last_stable_offset < self.high_watermark

    def log_ends(self) -> LogEnds | None:
        """Where it ends, as of the last fetch; None while none has told it."""
        if self.high_watermark < 0:
            return None
        return LogEnds(self.high_watermark, self.last_stable_offset)

    def had_records(self) -> None:
        """The next fetch may bring more: also if this one brought none of them, for the first batch may not have
        fitted."""
        self.fetch_max_bytes = min(UNLIMITED_BYTES, self.fetch_max_bytes * _FETCH_GROWTH)

    def end_offset(self, *, read_committed: bool) -> int:
        """The offset behind the last readable record, or -1 while no fetch has told it."""
        return self.last_stable_offset if read_committed else self.high_watermark

    def lag(self, *, read_committed: bool, position: int | None = None) -> int | None:
        """How many offsets the application is behind `end_offset`, or behind a later end that a look-up has found; None
        while there is neither, or while it is not known how far the application got.

        Args:
            position: How far it got, where that is known better than here.
        """
        end = max(self.end_offset(read_committed=read_committed), self.end_looked_up)
        if self.consumed is None or not self.has_position or end < 0:
            return None
        return max(0, end - (self.consumed.offset if position is None else position))

    def has_lag(self, *, read_committed: bool) -> bool:
        """Whether there are records that are not fetched yet, as of the last fetch."""
        return self.fetch_offset < self.end_offset(read_committed=read_committed)

    def __repr__(self) -> str:
        consumed = self.consumed.offset if self.consumed else None
        found = "; ".join(self.reasons)
        return (
            f"<{self.topic_partition} {self.machine.state.name} epoch {self.epoch} "
            f"fetch {self.fetch_offset} consumed {consumed}{': ' if found else ''}{found}>"
        )
