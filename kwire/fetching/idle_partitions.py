"""Which partitions have something to say, and which have been read to their end: where there are many, the former are
fetched by themselves.

A broker looks at every partition of a session for each answer, 2 to 3 us each: with 10,000 of them it takes longer than
reading the records of the ten that have any. So the quiet ones are asked about in a session of their own, which waits
for news most of the time. Pure; used by the fetch manager.
"""

from __future__ import annotations

from kwire.model import TopicPartition

# Where a broker's look at all of them begins to cost as much as a tenth of a large answer.
MANY_PARTITIONS = 500
# Longer than the pauses of a partition that is written to all the time.
COOLS_AFTER_MS = 2_000.0


class IdlePartitions:
    """What answers have said of each partition. One that no answer has spoken of counts as lively, unless it came with
    many others."""

    def __init__(self) -> None:
        self._spoke_ms: dict[TopicPartition, float] = {}  # the oldest first
        self._quiet: set[TopicPartition] = set()

    def is_quiet(self, tp: TopicPartition) -> bool:
        return tp in self._quiet

    def came(self, tp: TopicPartition, *, with_many: bool) -> None:
        """It is fetched from now on, or from elsewhere in its log. With many partitions a new one starts as idle: most
        have no records, and moving the others is cheaper."""
        self.forget(tp)
        if with_many:
            self._quiet.add(tp)

    def heard(self, tp: TopicPartition, *, has_more: bool, now_ms: float) -> None:
        """An answer about it, with records or without.

        Args:
            has_more: Whether it had records in it, or there are some that it had no room for.
        """
        if has_more:
            self._quiet.discard(tp)
            self._spoke_ms.pop(tp, None)
            self._spoke_ms[tp] = now_ms
        elif tp not in self._spoke_ms:
            self._quiet.add(tp)

    def forget(self, tp: TopicPartition) -> None:
        """It is not fetched any more."""
        self._quiet.discard(tp)
        self._spoke_ms.pop(tp, None)

    def cool(self, now_ms: float) -> list[TopicPartition]:
        """Partitions that have become quiet, because nothing has come of them for a while."""
        cooled: list[TopicPartition] = []
        while self._spoke_ms:
            tp, spoke_ms = next(iter(self._spoke_ms.items()))
            if now_ms - spoke_ms < COOLS_AFTER_MS:
                break
            del self._spoke_ms[tp]
            self._quiet.add(tp)
            cooled.append(tp)
        return cooled
