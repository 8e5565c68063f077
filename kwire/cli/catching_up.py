"""Progress of `kwire consume` with `enable_parallel_rebalance`: the lags that are read beside the newest records."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from kwire.clock import monotonic_ms
from kwire.model import TopicPartition

if TYPE_CHECKING:
    from kwire.model import CatchUpProgress

EVERY_MS = 2_000.0


class ConsumerWithProgress(Protocol):
    """The part of `kwire.Consumer` that is needed here."""

    def catch_up_progress(self) -> Mapping[TopicPartition, CatchUpProgress]: ...


class CatchingUp:
    """Watches the lags of a consumer, and prints their progress every two seconds.

    Args:
        say: Called with each line.
    """

    def __init__(self, consumer: ConsumerWithProgress, say: Callable[[str], None] | None = None) -> None:
        self._consumer = consumer
        self._say = say or _to_stderr
        self._due_ms = monotonic_ms() + EVERY_MS

    def has_lag(self, partition: TopicPartition) -> bool:
        """Whether the partition still has unread records before the main cursor."""
        progress = self._consumer.catch_up_progress().get(partition)
        return progress is not None and progress.left > 0

    def tell(self) -> None:
        """Print the progress, if it is due."""
        if monotonic_ms() < self._due_ms:
            return
        self._due_ms = monotonic_ms() + EVERY_MS
        for progress in self._consumer.catch_up_progress().values():
            if progress.left:
                self._say(line(progress))


def line(progress: CatchUpProgress) -> str:
    """One line about a partition: `orders-0: catching up, 4,000 of 50,000 done (8 %), 12,000/s, 4 s left`."""
    total = progress.done + progress.left
    said = f"{progress.topic_partition}: catching up, {progress.done:,} of {total:,} done ({progress.share:.0%})"
    if progress.left_s is None:
        return said
    return f"{said}, {progress.rate_per_s:,.0f}/s, {progress.left_s:,.0f} s left"


def _to_stderr(said: str) -> None:
    print(f"kwire: {said}", file=sys.stderr)
