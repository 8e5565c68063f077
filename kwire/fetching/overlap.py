"""Which partitions are asked about in a second request to the same broker, so that it has something to send while the
answer to the first is taken in.

A broker answers one request of a connection at a time. While it sends much, it has to wait until that has been copied
out of the socket, looked at and asked on: with large records that is half of the time. Not where several brokers are
fetched from, for one of them sends while another waits; nor where the application is the slower one, and has records in
stock. Pure; used by the fetch manager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kwire.fetching.buffer import CompletedFetch
    from kwire.model import TopicPartition

# An answer that takes about a millisecond to copy, a few times as long as a request is under way.
MUCH_BYTES = 2 * 1024 * 1024
# The lag has been read, or as good as: one request waits for what comes.
LITTLE_BYTES = 512 * 1024
# So many answers that the application has not come to yet say that it is the slower one.
STOCK_ANSWERS = 2
# A broker that takes no further connection keeps its answer for a while.
GIVEN_UP_MS = 60_000.0


class Overlap:
    """The partitions of the second request; none, as long as answers are small."""

    def __init__(self) -> None:
        self._second: set[TopicPartition] = set()
        self._is_over = False
        self._not_before_ms = 0.0

    def is_second(self, tp: TopicPartition) -> bool:
        return tp in self._second

    def heard_first(
        self, fetches: Sequence[CompletedFetch], *, stock_bytes: int, is_alone: bool, now_ms: float
    ) -> Collection[TopicPartition]:
        """The first request has been answered; answers the partitions to be asked about in the other one now.

        Args:
            fetches: What it has brought.
            stock_bytes: How much there is to collect already.
            is_alone: Whether there is one broker to fetch from, and no other request under way.
        """
        if self._is_over:
            return self._end()
        may_begin = is_alone and not stock_bytes and now_ms >= self._not_before_ms
        if self._second or not may_begin or _size_bytes(fetches) < MUCH_BYTES:
            return ()
        self._second = {fetch.topic_partition for fetch in fetches[1::2]}
        return self._second

    def heard_second(self, fetches: Sequence[CompletedFetch], *, stock_bytes: int) -> None:
        """The second has. That it is over shows in the next answer to the first: until then its partitions would wait
        for a request that is under way without them."""
        size_bytes = _size_bytes(fetches)
        is_of_no_use = size_bytes < LITTLE_BYTES or stock_bytes > STOCK_ANSWERS * size_bytes
        self._is_over = bool(self._second) and is_of_no_use

    def failed(self, now_ms: float) -> Collection[TopicPartition]:
        """The second request has failed: a broker may take one connection and not another."""
        self._not_before_ms = now_ms + GIVEN_UP_MS
        return self._end()

    def forget(self, tp: TopicPartition) -> None:
        """It is not fetched any more."""
        self._second.discard(tp)

    def _end(self) -> Collection[TopicPartition]:
        self._is_over = False
        gone, self._second = self._second, set()
        return gone


def _size_bytes(fetches: Sequence[CompletedFetch]) -> int:
    return sum(len(fetch.records) for fetch in fetches)
