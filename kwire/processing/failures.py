"""Decides what becomes of a record that has failed: it is tried again, given up, or the processor stops.

Contract: it decides and logs; `Dispatcher` does what is decided.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kwire.clock import NEVER_MS, Backoff
from kwire.errors import ProcessingError, RecordDeserializationError, WorkerError
from kwire.logs import part_logger
from kwire.offset_set import OffsetSet
from kwire.processing.policies import Retry
from kwire.processing.sources import Source, partition_of

log = part_logger("processing")

# A record that was in work when the workers broke down is tried again so often: it may be what breaks them.
MAX_BREAKDOWNS = 3
# One failure in this time is logged as a warning, the others at the level INFO.
WARNED_EVERY_MS = 10_000.0
# The records of a key, or of a compacted topic, lie far apart.
MAX_SHOWN_RANGES = 10
_AFTER_BREAKDOWN = Backoff(100.0, 1_000.0)


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The record is tried again after this time."""

    delay_ms: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The record has failed for good with this error: it is skipped, or the dead-letter function gets it."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Stop:
    """The processor stops with this error."""

    error: ProcessingError


Verdict: TypeAlias = TryAgain | GiveUp | Stop


class Failures:
    """Judges failures, and logs them.

    Args:
        stops: Whether the processor stops when a record has failed for good.
    """

    def __init__(self, retry: Retry, *, stops: bool) -> None:
        self._retry = retry
        self._stops = stops
        self._warn_at_ms = -NEVER_MS

    def of_handler(
        self, source: Source, offsets: Sequence[int], attempts: int, error: BaseException, now_ms: float
    ) -> Verdict:
        """The handler has failed over this record, or this list of them, this many times, now with this error."""
        delay_ms = self._retry.delay_ms(attempts, error)
        if delay_ms is not None:
            log.log(self._level(now_ms), "%s: attempt %d failed: %r", place(source, offsets), attempts, error)
            return TryAgain(delay_ms)
        if isinstance(error, Exception) and not self._stops:
            return GiveUp(error)
        if isinstance(error, RecordDeserializationError):
            return _stop(ProcessingError(partition_of(source), offsets[0], 0, str(error)), error)
        reason = f"{error!r}{_whole_list(offsets)}"
        return _stop(ProcessingError(partition_of(source), offsets[0], attempts, reason), error)

    def of_workers(
        self, source: Source, offsets: Sequence[int], breakdowns: int, error: BaseException, reason: str, now_ms: float
    ) -> Verdict:
        """The workers, or the dead-letter function, have broken down over this record, or this list, this many times.
        That is no fault of the record: it is tried again, and at last the processor stops."""
        log.log(self._level(now_ms), "%s: in work when this happened: %s", place(source, offsets), reason)
        if breakdowns >= MAX_BREAKDOWNS:
            reason += _whole_list(offsets)
            return _stop(WorkerError(partition_of(source), offsets[0], breakdowns, reason), error)
        return TryAgain(_AFTER_BREAKDOWN.delay_ms(breakdowns))

    def _level(self, now_ms: float) -> int:
        if now_ms < self._warn_at_ms:
            return logging.INFO
        self._warn_at_ms = now_ms + WARNED_EVERY_MS
        return logging.WARNING


def place(source: Source, offsets: Sequence[int]) -> str:
    """`orders-0 offset 7`, or of a list of records `orders-0 offsets 7-9, 12`."""
    return f"{source} {'offset' if len(offsets) == 1 else 'offsets'} {_shown(offsets)}"


def _whole_list(offsets: Sequence[int]) -> str:
    return "" if len(offsets) == 1 else f"; its list has offsets {_shown(offsets)}"


def _shown(offsets: Sequence[int]) -> str:
    ranges = OffsetSet(range(offset, offset + 1) for offset in offsets)
    shown = [str(each[0]) if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in ranges[:MAX_SHOWN_RANGES]]
    more = f", ... {offsets[-1]} ({len(offsets)} in all)" if len(ranges) > MAX_SHOWN_RANGES else ""
    return ", ".join(shown) + more


def _stop(error: ProcessingError, cause: BaseException) -> Stop:
    error.__cause__ = cause
    return Stop(error)
