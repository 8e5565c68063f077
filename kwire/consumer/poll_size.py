"""How many records a poll returns at most. Pure: time comes in as an argument."""

from __future__ import annotations

import math

from kwire.config.consumer_config import DEFAULT_MAX_POLL_RECORDS

# A poll costs as much as a hundred records. With this many at a time, its share is too small to see.
LOOP_RECORDS = 10_000
# A loop that takes longer for what it got than this has enough at a time: other partitions, newer records and a
# rebalance wait until it is through with them.
QUICK_MS = 50.0


class PollSize:
    """Decides how many records each poll may return.

    A poll of the program returns up to `max_records`, or `max_poll_records` without it. A `for` loop does not see its
    polls, so they may grow: while the loop is quick and its polls are full, each may return twice as many records as
    the one before, up to `LOOP_RECORDS`. They do not grow where `max_poll_records` is below its default.

    Args:
        max_poll_records: The setting.
        grows: Whether the polls of a loop grow. Not with deserializers: a poll runs them for all that it returns, and
            nobody knows before how long that takes. One that gets slow would keep the member away from its group.

    Attributes:
        max_records: How many records the present poll returns at most.
    """

    def __init__(self, max_poll_records: int, *, grows: bool) -> None:
        self.max_records = self._usual = max_poll_records
        is_bound = not grows or max_poll_records < DEFAULT_MAX_POLL_RECORDS
        self._max_of_loop = max_poll_records if is_bound else max(max_poll_records, LOOP_RECORDS)
        self._quick_until_ms = -math.inf
        self._returned = 0

    def begin(self, max_records: int | None) -> None:
        """A poll of the program begins."""
        self.max_records = self._usual if max_records is None else max_records
        self._quick_until_ms = -math.inf

    def begin_for_loop(self, now_ms: float, *, is_through: bool) -> None:
        """A loop's poll begins; `is_through` says that it has seen all of the last one."""
        if not is_through or now_ms >= self._quick_until_ms:
            self.max_records = self._usual
        elif self._returned >= self.max_records:
            self.max_records = min(2 * self.max_records, self._max_of_loop)
        else:  # there was no more, or it took too many bytes
            self.max_records = max(self.max_records // 2, self._usual)
        self._quick_until_ms = now_ms + QUICK_MS
        self._returned = 0

    def returned(self, records: int) -> None:
        """The poll returns this many records."""
        self._returned = records
