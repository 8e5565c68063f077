"""Which topics the patterns of a group match (KIP-848). Like Kafka, not looked up with every heartbeat.

They are all looked up together, at most every ten seconds: when a pattern is new, topics are new, or it is long ago.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.testing.cluster.groups.topic_patterns import compile_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from kwire.testing.cluster.groups.consumer_world import TopicFacts

MIN_INTERVAL_MS = 10_000


class ResolvedPatterns:
    """What is known of the patterns that members subscribe to."""

    def __init__(self) -> None:
        self._matched: dict[str, frozenset[str]] = {}
        self._known: frozenset[UUID] = frozenset()
        self._looked_at_ms = 0.0

    def topics(self, pattern: str) -> frozenset[str]:
        """The topics that it matched; none while it was not looked up."""
        return self._matched.get(pattern, frozenset())

    def is_resolved(self, pattern: str) -> bool:
        return pattern in self._matched

    def keep(self, patterns: Iterable[str]) -> None:
        """Forget those that nobody subscribes to any more."""
        self._matched = {pattern: self._matched[pattern] for pattern in patterns if pattern in self._matched}

    def look_up(
        self, patterns: Iterable[str], topics: Mapping[str, TopicFacts], *, now_ms: float, max_age_ms: int
    ) -> bool:
        """Look all of them up if it is time to; whether any matches other topics than before."""
        wanted = tuple(patterns)
        if not wanted or not self._is_time(wanted, topics, now_ms, max_age_ms):
            return False
        before = {pattern: self.topics(pattern) for pattern in wanted}
        self._matched = {pattern: _matching(pattern, topics) for pattern in wanted}
        self._known = frozenset(topic.topic_id for topic in topics.values())
        self._looked_at_ms = now_ms
        return self._matched != before

    def _is_time(
        self, wanted: tuple[str, ...], topics: Mapping[str, TopicFacts], now_ms: float, max_age_ms: int
    ) -> bool:
        age_ms = now_ms - self._looked_at_ms
        if not self._matched:
            return True
        if age_ms <= MIN_INTERVAL_MS:
            return False
        is_new = any(pattern not in self._matched for pattern in wanted)
        return is_new or age_ms > max_age_ms or any(topic.topic_id not in self._known for topic in topics.values())


def _matching(pattern: str, topics: Mapping[str, TopicFacts]) -> frozenset[str]:
    compiled = compile_pattern(pattern)
    return frozenset(name for name in topics if compiled.fullmatch(name))
