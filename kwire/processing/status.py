"""What a processor is doing, for those who watch it."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A snapshot. Counts are of records, since the processor was made unless they say otherwise."""

    is_running: bool
    waiting: int
    """Polled, and not begun; now."""
    in_work: int
    """In a worker's hands, or waiting for their next attempt; now."""
    retrying: int
    """Runs that wait for their next attempt; now."""
    handled: int
    """Done, by the handler or by what was done instead when it failed."""
    failed_attempts: int
    skipped: int
    """Given up, and passed by."""
    dead_lettered: int
    """Taken by the function that `on_failure` is."""
    commits: int
    """Commits that a broker has acknowledged."""
    paused: frozenset[TopicPartition]
    """Partitions that are not fetched now, for there is enough of them to do."""
    seconds_since_progress: float
    """Since something was handled, or there was nothing to do."""
    per_second: float
    """Handled, over the last ten seconds."""
    handler_p50_ms: float
    handler_p99_ms: float
    """How long a handler took for a record, or a batch; of several that a worker was given at once, their mean."""
