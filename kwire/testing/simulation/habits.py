"""Habits: what the members of a world do with their consumers besides polling, and its producer with logs besides
sending.

Drawn apart from the scenario, so that a seed's faults stay what they are when habits are added.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from kwire.protocol.deflation import CODECS, LZ4, NONE

# Sought offsets and open transactions mean nothing in a log that was cut; a topic's growth shows when metadata is asked
# for again.
CUTS_LOGS = "unclean-election"
NEEDS_METADATA = "topic-grows"
# Every new answer about metadata has all partitions looked at again: a mistake made over one would not show for long.
HIDDEN_BY_METADATA = "refused-fetches"
# What is damaged shall have something sound in front of it and behind it, in one answer.
NEEDS_BATCHES = "damaged-batches"
# Members lose their place for a good reason.
MOVES_POSITIONS = frozenset({CUTS_LOGS, "records-deleted", "refused-positions"})
# Worlds of smaller seeds were there before members could delay what is asked back, and stay what they were.
FIRST_WITH_DELAYS = 10_001
# The same of compressed batches, of headers and of floods.
FIRST_WITH_SHAPES = 20_001


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """The habits of members and of the producer.

    Args:
        read_committed: whether members want committed records only.
        transactions: the share of batches that are written in a transaction; every other one of those is aborted.
        seeks: how often a member seeks after a poll, as a share.
        seeks_when_assigned: the same inside the callback, for each partition.
        pauses: how often a member pauses or resumes a partition after a poll.
        bursts: the share of batches that come with several more behind them at once.
        auto_offset_reset: with "latest" the group has a commit of each partition from the start on, so that a member
            that resets a position for no reason leaves out records.
        delays: how often a member delays a partition it is asked for, after each poll; 0: it revokes at once.
        codecs: what batches are compressed by, each by one of these.
        most_header_bytes: a record has a header of random bytes, of any size up to this.
        floods: the share of batches that come with many more behind them, in all partitions of their topic.
    """

    read_committed: bool = False
    transactions: float = 0.0
    seeks: float = 0.0
    seeks_when_assigned: float = 0.0
    pauses: float = 0.0
    bursts: float = 0.0
    auto_offset_reset: str = "earliest"
    delays: float = 0.0
    codecs: Sequence[int] = (NONE,)
    most_header_bytes: int = 0
    floods: float = 0.0
    fetch_buffer_bytes: int = 64 * 1024 * 1024
    max_partition_fetch_bytes: int = 1024 * 1024
    metadata_max_age_ms: int = 10_000

    @property
    def isolation_level(self) -> str:
        return "read_committed" if self.read_committed else "read_uncommitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncHabits:
    """What members do that use an `AsyncConsumer`.

    Args:
        cancels: the share of polls that are cancelled, if they do not end before.
        besides: how many tasks commit and look things up beside the one that polls.
    """

    cancels: float
    besides: int


def draw_async_habits(seed: int) -> AsyncHabits:
    """The habits of `AsyncConsumer`s for a seed."""
    rng = random.Random(f"async habits {seed}")
    return AsyncHabits(cancels=rng.choice((0.05, 0.3, 0.6)), besides=rng.choice((0, 1, 3)))


def draw_habits(seed: int, faults: Collection[str]) -> Habits:
    """The habits for a seed.

    Args:
        faults: what will strike: some habits do not go with some faults.
    """
    rng = random.Random(f"habits {seed}")
    habits = Habits(
        read_committed=rng.random() < 0.4,
        transactions=rng.choice((0.0, 0.3, 0.6)),
        seeks=rng.choice((0.0, 0.02)),
        seeks_when_assigned=rng.choice((0.0, 0.5)),
        pauses=rng.choice((0.0, 0.1)),
        bursts=rng.choice((0.0, 0.2)),
        fetch_buffer_bytes=rng.choice((64 * 1024 * 1024, 3_000)),
        max_partition_fetch_bytes=rng.choice((1024 * 1024, 300)),
        metadata_max_age_ms=rng.choice((10_000, 300_000)),
    )
    habits = replace(_fitting(habits, faults), delays=_draw_delays(seed), auto_offset_reset=_draw_reset(seed, faults))
    return _with_shapes(habits, seed) if seed >= FIRST_WITH_SHAPES else habits


def _draw_delays(seed: int) -> float:
    return random.Random(f"delays {seed}").choice((0.0, 0.5, 0.9, 0.97)) if seed >= FIRST_WITH_DELAYS else 0.0


def _with_shapes(habits: Habits, seed: int) -> Habits:
    """A flood takes several fetches where they are small."""
    rng = random.Random(f"shapes {seed}")
    codecs, most_header_bytes = rng.choice(((NONE,), (LZ4,), CODECS)), rng.choice((0, 30, 3_000))
    habits = replace(habits, codecs=codecs, most_header_bytes=most_header_bytes)
    return replace(habits, floods=0.05, max_partition_fetch_bytes=300) if rng.random() < 0.3 else habits


def _draw_reset(seed: int, faults: Collection[str]) -> str:
    drawn = random.Random(f"reset {seed}").choice(("earliest", "latest"))
    return drawn if MOVES_POSITIONS.isdisjoint(faults) else "earliest"


def _fitting(habits: Habits, faults: Collection[str]) -> Habits:
    if CUTS_LOGS in faults:
        habits = replace(habits, transactions=0.0, seeks=0.0, seeks_when_assigned=0.0)
    if NEEDS_BATCHES in faults:
        habits = replace(habits, bursts=0.3, max_partition_fetch_bytes=1024 * 1024)
    if NEEDS_METADATA in faults:
        return replace(habits, metadata_max_age_ms=10_000)
    return replace(habits, metadata_max_age_ms=300_000) if HIDDEN_BY_METADATA in faults else habits
