"""How many records a worker gets at a time, and how many go a second.

Contract: pure, and of the processor's thread; time comes in as an argument. Used by `Dispatcher`.
"""

from __future__ import annotations

from typing import Generic

from kwire.model import K, V
from kwire.processing.options import ProcessorOptions
from kwire.processing.ordered_queues import Ordering
from kwire.processing.rates import Meter, Times, TokenBucket

# Cheap handlers get several records at a time. A run that goes round among all queues is made for up to 5 ms, so that a
# revocation waits for little.
RUN_MS = 5.0
# A run is made for 0.5 ms at least, ten times the cost of a hand-over, even if other workers are idle meanwhile.
_WORTH_MS = 0.5
# Records of other queues must not wait behind slow ones. Slow records of one queue go together, so many that the worker
# need not wait for the owner: they must wait for each other anyway.
_SLOW_MS = 2 * _WORTH_MS
_QUEUE_RUN_MS = 3 * RUN_MS
# A run has no more records than stay in the processor's cache, and are gone before the garbage collector counts them as
# old. If the worker makes the records itself, it has so many that handing over costs little in comparison.
_MAX_RUN = 500
_MAX_RUN_OF_ROWS = 2_000
_FAST_MS = 0.005
_MIN_MS = 1e-6
_NEWEST_WEIGHS = 0.2


class RunSizer(Generic[K, V]):
    """Decides how many records the next run has, from how long records took, and from the rate limit."""

    def __init__(self, options: ProcessorOptions[K, V], now_ms: float) -> None:
        self.meter = Meter(now_ms)
        self.times = Times()
        self._options = options
        self._bucket = TokenBucket(options.rate_limit, now_ms)
        self._ms_each = RUN_MS
        self._has_seen = False

    def run_length(self, now_ms: float, *, waiting: int, idle_workers: int) -> int:
        """How many records the next run may have; none, if the rate has been reached. Slow ones are to be of one queue.

        Args:
            waiting: How many records there are to hand out.
            idle_workers: How many workers are idle.
        """
        available = self._bucket.available(now_ms)
        if available < 1:
            return 0
        if self._options.batch_size is not None:
            return self._options.batch_size
        if self._options.executor is not None:
            return 1
        if self.are_slow and self._options.ordering is not Ordering.NONE:
            return max(1, int(min(_QUEUE_RUN_MS / self._ms_each, available)))
        most = RUN_MS / self._ms_each
        if self._options.ordering is not Ordering.PARTITION:  # records go round among all that have nothing to do
            most = min(most, max(waiting / idle_workers, _WORTH_MS / self._ms_each))
        return max(1, int(min(most, available, self.longest_run)))

    @property
    def longest_run(self) -> int:
        """How many records a run has at most, if they are not of one queue."""
        return _MAX_RUN_OF_ROWS if self.makes_late else _MAX_RUN

    @property
    def makes_late(self) -> bool:
        """Whether workers make the records they handle, one by one. Until then they keep the whole answer that they
        came in, so they must not wait for long."""
        return self._options.can_make_late and self.are_fast

    @property
    def are_fast(self) -> bool:
        """Whether handling a record takes no longer than looking for one whose queue is open."""
        return self._ms_each < _FAST_MS

    @property
    def are_slow(self) -> bool:
        """Whether a run is to have records of one queue alone."""
        return self._ms_each >= _SLOW_MS

    def may_begin(self, now_ms: float) -> bool:
        """Whether the rate allows one more record."""
        return self._bucket.available(now_ms) >= 1

    def take_tokens(self, records: int) -> None:
        """This many records are handed out."""
        self._bucket.take(records)

    def tried(self, items: int, took_ms: float) -> None:
        """A run has come back with this many items, records or batches, tried."""
        if items:
            each_ms = took_ms / items
            weighs = _NEWEST_WEIGHS if self._has_seen else 1.0
            self._ms_each = max(_MIN_MS, self._ms_each + weighs * (each_ms - self._ms_each))
            self._has_seen = True
            self.times.add(each_ms, items)

    @property
    def ready_ms(self) -> float:
        """When the rate allows the next one; never, if it is not the rate that stands in the way."""
        return self._bucket.ready_ms
