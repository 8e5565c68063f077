"""Which partitions have something to say, and which have been read to their end: where there are many, the former are
fetched by themselves.

A broker looks at every partition of a session for each answer, 2 to 3 us each: with 10,000 of them it takes longer than
reading the records of the ten that have any. So the idle ones are asked about in a session of their own, which waits
for news most of the time. Pure; used by the fetch manager.
"""

from __future__ import annotations

from kwire.model import TopicPartition

# Where a broker's look at all of them begins to cost as much as a tenth of a large answer.
MANY_PARTITIONS = 500
# Longer than the pauses of a partition that is written to all the time.
IDLE_AFTER_MS = 2_000.0


class IdlePartitions:
    """What answers have said of each partition. One that no answer has spoken of counts as active, unless it came with
    many others."""

    def __init__(self) -> None:
        self._active_ms: dict[TopicPartition, float] = {}  # the oldest first
        self._idle: set[TopicPartition] = set()

    def is_idle(self, tp: TopicPartition) -> bool:
        return tp in self._idle

    def added(self, tp: TopicPartition, *, with_many: bool) -> None:
        """It is fetched from now on, or from elsewhere in its log. With many partitions a new one starts as idle: most
        have no records, and moving the others is cheaper."""
        self.forget(tp)
        if with_many:
            self._idle.add(tp)

    def answered(self, tp: TopicPartition, *, has_more: bool, now_ms: float) -> None:
        """An answer about it, with records or without.

        Args:
            has_more: Whether it had records in it, or there are some that it had no room for.
        """
        if has_more:
            self._idle.discard(tp)
            self._active_ms.pop(tp, None)
            self._active_ms[tp] = now_ms
        elif tp not in self._active_ms:
            self._idle.add(tp)

    def forget(self, tp: TopicPartition) -> None:
        """It is not fetched any more."""
        self._idle.discard(tp)
        self._active_ms.pop(tp, None)

    def expire(self, now_ms: float) -> list[TopicPartition]:
        """Partitions that have become idle, because nothing has come of them for a while."""
        expired: list[TopicPartition] = []
        while self._active_ms:
            tp, active_ms = next(iter(self._active_ms.items()))
            if now_ms - active_ms < IDLE_AFTER_MS:
                break
            del self._active_ms[tp]
            self._idle.add(tp)
            expired.append(tp)
        return expired
