"""What the application has collected of fetches: Java's `FetchMetricsManager`, as far as records are concerned.

Counted by the application thread, once for each partition of a poll. What the network thread knows alone, it leaves in
dictionaries that it replaces the values of.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from kwire.metrics.names import Values
from kwire.metrics.window import Window, WindowSetting
from kwire.model import TopicPartition

NO_REPLICA = -1
UNKNOWN = -1


class AnswerCounts:
    """What was collected of the answer to one fetch. Written by the application thread, once it is in the buffer.

    Attributes:
        left: How many of its partitions are not collected to the end.
        topics: Records and bytes of each topic.
    """

    __slots__ = ("left", "topics")

    def __init__(self) -> None:
        self.left = 0
        self.topics: dict[str, list[float]] = {}


class LogSpan(NamedTuple):
    """Where a partition's log began and ended, when a fetch was answered; -1 where that is not known."""

    start: int = UNKNOWN
    end: int = UNKNOWN


NO_LOG = LogSpan()


class _Answers:
    """What fetches brought of one topic, or of all."""

    __slots__ = ("bytes", "records")

    def __init__(self, setting: WindowSetting) -> None:
        self.records = Window(setting)
        self.bytes = Window(setting)

    def add(self, records: float, size_bytes: int, now_ms: float) -> None:
        self.records.record(records, now_ms)
        self.bytes.record(size_bytes, now_ms)

    def values(self, now_ms: float) -> Values:
        yield from self.bytes.measure(now_ms).avg_max("fetch-size")
        yield "records-per-request-avg", self.records.measure(now_ms).average


class _Topic:
    """What was collected of one topic."""

    __slots__ = ("answers", "bytes", "records")

    def __init__(self, setting: WindowSetting) -> None:
        self.records = Window(setting)
        self.bytes = Window(setting)
        self.answers = _Answers(setting)

    def values(self, now_ms: float) -> Values:
        yield from self.answers.values(now_ms)
        yield from _consumed([self], now_ms)


def _consumed(topics: Sequence[_Topic], now_ms: float) -> Values:
    """The rates and totals of these topics together."""
    for name, windows in (
        ("bytes-consumed", [topic.bytes for topic in topics]),
        ("records-consumed", [topic.records for topic in topics]),
    ):
        measured = [window.measure(now_ms) for window in windows]
        yield f"{name}-rate", sum(each.total_per_s for each in measured)
        yield f"{name}-total", round(sum(each.total for each in measured))


class _Place(NamedTuple):
    """Where the network thread is in a partition that has nothing new."""

    lag: int
    lead: int
    at_ms: float


class _LagAndLead(NamedTuple):
    """How far one partition is from the ends of its log."""

    lag: float
    lag_avg: float
    lag_max: float
    lead: float
    lead_avg: float
    lead_min: float


class _PartitionWindows:
    """Where the application is in one partition."""

    __slots__ = ("at_ms", "lag", "lags", "lead", "leads")

    def __init__(self, setting: WindowSetting) -> None:
        self.at_ms = 0.0
        self.lag = self.lead = 0
        self.lags = Window(setting)
        self.leads = Window(setting)


class ConsumedMetrics:
    """Counts what polls collect.

    Attributes:
        assigned: What `keep_only` was told last.
    """

    def __init__(self, setting: WindowSetting) -> None:
        self._setting = setting
        self._answers = _Answers(setting)
        self._topics: dict[str, _Topic] = {}
        self._partitions: dict[TopicPartition, _PartitionWindows] = {}
        self.assigned: Container[TopicPartition] = ()
        self._idle: dict[TopicPartition, _Place] = {}
        self._replicas: dict[TopicPartition, tuple[int, float]] = {}

    # --- application thread: keep it cheap, it is on the way of every poll -----------------------------------

    def collected(
        self, tp: TopicPartition, records: int, size_bytes: float, answer: AnswerCounts, now_ms: float
    ) -> None:
        """This many records of an answer were collected. Their size may be a share of a batch's, so no whole number."""
        topic = self._topics.get(tp.topic) or self._new_topic(tp.topic)
        topic.records.record(records, now_ms)
        topic.bytes.record(size_bytes, now_ms)
        counts = answer.topics.get(tp.topic)
        if counts is None:
            answer.topics[tp.topic] = [records, size_bytes]
        else:
            counts[0] += records
            counts[1] += size_bytes

    def moved(self, tp: TopicPartition, position: int, log: LogSpan, now_ms: float) -> None:
        """A partition was collected up to this position."""
        found = self._partitions.get(tp) or self._new_partition(tp)
        start, end = log
        lag, lead = end - position, position - start
        if lag < 0:  # what lies in front of the position may be newer than the answer
            lag = 0
        found.lag, found.lead, found.at_ms = lag, lead, now_ms
        found.lags.record(lag, now_ms)
        found.leads.record(lead, now_ms)

    def finished(self, answer: AnswerCounts, now_ms: float) -> None:
        """One of the answer's partitions is collected to the end."""
        answer.left -= 1
        if answer.left:
            return
        all_records = all_bytes = 0.0
        for topic, (records, size_bytes) in answer.topics.items():
            self._topics[topic].answers.add(records, round(size_bytes), now_ms)
            all_records += records
            all_bytes += size_bytes
        self._answers.add(all_records, round(all_bytes), now_ms)

    def _new_topic(self, topic: str) -> _Topic:
        found = self._topics[topic] = _Topic(self._setting)
        return found

    def _new_partition(self, tp: TopicPartition) -> _PartitionWindows:
        found = self._partitions[tp] = _PartitionWindows(self._setting)
        return found

    def keep_only(self, assigned: Container[TopicPartition]) -> None:
        """Forget the partitions that are not assigned any more: a poll may have collected one after `forget`, while it
        was given up."""
        self.assigned = assigned
        # The network thread may forget some at the same time.
        self._partitions = {tp: found for tp, found in list(self._partitions.items()) if tp in assigned}

    # --- network thread -------------------------------------------------------------------------------------

    def at_end(self, tp: TopicPartition, position: int, log: LogSpan, now_ms: float) -> None:
        """A fetch from this position was answered, and brought no records."""
        if log.end != UNKNOWN:
            self._idle[tp] = _Place(max(0, log.end - position), max(0, position - log.start), now_ms)

    def follows(self, tp: TopicPartition, replica: int | None, until_ms: float = 0.0) -> None:
        """A partition is read from this follower until then (KIP-392), or from its leader."""
        self._replicas[tp] = (NO_REPLICA if replica is None else replica), until_ms

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that are not assigned any more: should they come back, what was known is out of date."""
        for tp in partitions:
            self._partitions.pop(tp, None)
            self._idle.pop(tp, None)
            self._replicas.pop(tp, None)

    # --- who asks -------------------------------------------------------------------------------------------

    def values(self, assigned: Iterable[TopicPartition], now_ms: float) -> Values:
        """The metrics of the consumer as a whole."""
        yield from self._answers.values(now_ms)
        yield from _consumed(list(self._topics.values()), now_ms)
        known = [found for tp in assigned if (found := self._lag_and_lead(tp, now_ms)) is not None]
        # A partition that nothing was heard of lately has no extremes, so these two leave it out.
        yield "records-lag-max", max((each.lag_max for each in known if each.lag_max >= 0), default=math.nan)
        yield "records-lead-min", min((each.lead_min for each in known if each.lead_min >= 0), default=math.nan)

    @property
    def topics(self) -> Sequence[str]:
        """The topics that anything was consumed of."""
        return list(self._topics)

    def topic_values(self, topic: str, now_ms: float) -> Values:
        """The metrics of one of these topics."""
        return self._topics[topic].values(now_ms)

    def partition_values(self, tp: TopicPartition, now_ms: float) -> Values:
        """The metrics of one partition."""
        replica, until_ms = self._replicas.get(tp, (NO_REPLICA, 0.0))
        yield "preferred-read-replica", replica if now_ms < until_ms else NO_REPLICA
        found = self._lag_and_lead(tp, now_ms)
        if found is not None:
            yield "records-lag", found.lag
            yield "records-lag-avg", found.lag_avg
            yield "records-lag-max", found.lag_max
            yield "records-lead", found.lead
            yield "records-lead-avg", found.lead_avg
            yield "records-lead-min", found.lead_min

    def _lag_and_lead(self, tp: TopicPartition, now_ms: float) -> _LagAndLead | None:
        """None: no fetch has told anything of it."""
        found, idle = self._partitions.get(tp), self._idle.get(tp)
        if found is None:
            return None if idle is None else _LagAndLead(idle.lag, idle.lag, idle.lag, idle.lead, idle.lead, idle.lead)
        lags, leads = found.lags.measure(now_ms), found.leads.measure(now_ms)
        lag, lead = (found.lag, found.lead) if idle is None or idle.at_ms < found.at_ms else (idle.lag, idle.lead)
        return _LagAndLead(lag, lags.average, lags.greatest, lead, leads.average, leads.least)
