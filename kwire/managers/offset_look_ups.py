"""`offsets_for_times`, `beginning_offsets` and `end_offsets`: all partitions or an error."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kwire.events import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, LookUpOffsets, ReplyPart
from kwire.managers.lag_policy import LagPolicy
from kwire.managers.list_offsets import Found, ListOffsetsManager
from kwire.model import OffsetAndTimestamp, TopicPartition
from kwire.subscription.subscription import Subscription


class OffsetLookUps:
    """Asks for the partitions of a call one by one, and answers it when all are there. The end of each assigned
    partition is stored, as in Java: then its lag is known before the first fetch, and while it is paused."""

    def __init__(self, subscription: Subscription, list_offsets: ListOffsetsManager, lags: LagPolicy) -> None:
        self._subscription = subscription
        self._list_offsets = list_offsets
        self._lags = lags

    def look_up(self, event: LookUpOffsets) -> None:
        gathering = _Gathering(event, self._subscription, self._lags)
        if not event.timestamps:
            event.reply.succeed({})
        for tp, timestamp in event.timestamps.items():
            self._list_offsets.ask(tp, timestamp, gathering.part(tp))


class _Gathering:
    """The answers of one call, until all are there."""

    def __init__(self, event: LookUpOffsets, subscription: Subscription, lags: LagPolicy) -> None:
        self._subscription = subscription
        self._lags = lags
        self._event = event
        self._parts: dict[TopicPartition, ReplyPart[Found]] = {}
        self._found: dict[TopicPartition, Found] = {}

    def part(self, tp: TopicPartition) -> ReplyPart[Found]:
        self._parts[tp] = part = ReplyPart[Found](self._event.reply, partial(self._look, tp))
        return part

    def _look(self, tp: TopicPartition) -> None:
        part = self._parts[tp]
        if part.fails_whole():
            return
        found = part.result()
        self._found[tp] = found if found is None else self._widened(tp, found)
        if len(self._found) == len(self._event.timestamps):
            self._event.reply.succeed(self._found)

    def _widened(self, tp: TopicPartition, found: OffsetAndTimestamp) -> OffsetAndTimestamp:
        """The ends of a log as all cursors see them."""
        timestamp = self._event.timestamps[tp]
        if timestamp not in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP):
            return found
        if timestamp == LATEST_TIMESTAMP and (partition := self._subscription.partitions.get(tp)) is not None:
            partition.end_looked_up = found.offset
        return replace(found, offset=self._lags.widened(tp, timestamp, found.offset))
