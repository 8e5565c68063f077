"""Lag of streaming queries, partition by partition: what Spark's own source reports only as a minimum and a maximum.

spark.streams.addListener(LagListener(lambda name, lags: print(name, sum(lags.values()))))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    SourceProgress,
    StreamingQueryListener,
)

from kwire.model import TopicPartition
from kwire.spark.callbacks import CallbackError, answering_the_jvm
from kwire.spark.fresh_first import Coverages, from_form
from kwire.unfinished import unfinished

Report = Callable[[str, Mapping[TopicPartition, int]], object]


class LagListener(StreamingQueryListener):
    """Tells how far each partition is behind, after each batch.

    Args:
        report: Called with the query's name (its id, if it has none) and the offsets that are not read yet. What it
            raises, Spark logs.
    """

    def __init__(self, report: Report) -> None:
        self._report = report

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A batch is through."""
        progress = event.progress
        with answering_the_jvm("the report of a LagListener"):
            if problem := unfinished(self._report(progress.name or str(progress.id), lags(progress.sources))):
                raise CallbackError(f"the report of a LagListener: {problem}")

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Nothing more will be known."""


def lags(sources: Iterable[SourceProgress]) -> dict[TopicPartition, int]:
    """How many offsets of each partition the sources have not read, as of their last batch. Sources of other kinds, and
    those that do not know how much there is, are left out. Of several that read one partition, the one that is furthest
    behind counts."""
    behind: dict[TopicPartition, int] = {}
    for source in sources:
        end, latest = _covered(source.endOffset), _covered(source.latestOffset)
        for tp in latest.keys() & end.keys():
            behind[tp] = max(behind.get(tp, 0), end[tp].left(latest[tp].head))
    return behind


def _covered(text: str | None) -> Coverages:
    """With the gaps of a fresh-first query."""
    try:
        return from_form(json.loads(text or "{}"))
    except (AttributeError, ValueError):
        return {}
