"""Which leader epoch wrote which part of a log (KIP-101): the answers to OffsetForLeaderEpoch and diverging fetches.

Contract: pure; epochs and their start offsets only grow. Owned by `log.PartitionLog`.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

UNDEFINED = -1


class EpochEnd(NamedTuple):
    """The largest epoch up to the one asked for, and the offset behind its last record; both -1 if unknown."""

    leader_epoch: int
    end_offset: int


class LeaderEpochs:
    """The epochs that a log knows."""

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []

    def begin(self, epoch: int, start_offset: int) -> None:
        """Begin an epoch at this offset. An epoch that is not later than the last one changes nothing."""
        if self._epochs and epoch <= self._epochs[-1]:
            return
        while self._starts and self._starts[-1] >= start_offset:
            # An epoch without records is replaced by the next one.
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)

    def at(self, offset: int) -> int:
        """The epoch in which that offset was, or would be, written."""
        nth = bisect_right(self._starts, offset)
        return self._epochs[nth - 1] if nth else UNDEFINED

    def end(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Where an epoch ended, as Kafka's LeaderEpochFileCache answers it."""
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return EpochEnd(UNDEFINED, UNDEFINED)
        nth = bisect_right(self._epochs, epoch)
        if nth == len(self._epochs):
            return EpochEnd(epoch, log_end_offset)
        if nth == 0:
            return EpochEnd(epoch, self._starts[0])
        return EpochEnd(self._epochs[nth - 1], self._starts[nth])

    def truncate_end(self, offset: int) -> None:
        """The log now ends at this offset."""
        while self._starts and self._starts[-1] >= offset:
            self._epochs.pop()
            self._starts.pop()

    def truncate_start(self, offset: int) -> None:
        """The log now begins at this offset, and so does the epoch of its first record."""
        nth = bisect_right(self._starts, offset) - 1
        if nth >= 0:
            del self._epochs[:nth], self._starts[:nth]
            self._starts[0] = offset
