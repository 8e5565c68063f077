"""How far a streaming query is: rows, rates, lag, time left, from what Spark reports of each batch. Pure."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from kwire.model import TopicPartition
from kwire.spark.fresh_first import Coverages, from_form

# Rates are those of the last this many batches: long enough to be calm, short enough to follow an outage.
WINDOW = 12


class StreamBatch(NamedTuple):
    """What Spark says of one batch.

    Attributes:
        number: of the batch.
        ended_ms: when it was done, in ms since the epoch.
        took_ms: how long it took.
        rows: how many rows it read.
        covered: what has been read after it.
        log_ends: where the logs ended when it began; empty if Spark does not say: of the batch that a query was stopped
            in, which it reads again.
    """

    number: int
    ended_ms: int
    took_ms: int
    rows: int
    covered: Coverages
    log_ends: Mapping[TopicPartition, int]

    @property
    def backfill(self) -> int:
        """What is left to read behind the heads."""
        return sum(each.gaps.size for each in self.covered.values())

    @property
    def lag(self) -> int | None:
        """What is left to read in all; None if Spark does not say where the logs ended."""
        return sum(self.lags().values()) if self.log_ends else None

    def lags(self) -> dict[TopicPartition, int]:
        """What is left to read of each partition; empty as above."""
        if not self.log_ends:
            return {}
        return {tp: each.left(self.log_ends.get(tp, each.head)) for tp, each in self.covered.items()}


def batch_from(progress: Mapping[str, object]) -> StreamBatch:
    """What Spark says in `json.loads(query.lastProgress.json)`, of a query with one source."""
    (source,) = _list(progress["sources"])
    assert isinstance(source, Mapping)
    durations = progress.get("durationMs", {})
    took_ms = int(durations.get("triggerExecution", 0)) if isinstance(durations, Mapping) else 0
    began = datetime.fromisoformat(str(progress["timestamp"]).replace("Z", "+00:00"))
    ends = from_form(_offset(source.get("latestOffset")))
    return StreamBatch(
        number=int(str(progress["batchId"])),
        ended_ms=int(began.timestamp() * 1000) + took_ms,
        took_ms=took_ms,
        rows=int(str(progress["numInputRows"])),
        covered=from_form(_offset(source.get("endOffset"))),
        log_ends={tp: each.head for tp, each in ends.items()},
    )


@dataclass(frozen=True, slots=True)
class Figures:
    """How far it is, for people and for machines.

    Attributes:
        rows: since the pipeline was started.
        rate: rows a second, while batches run.
        lag: offsets left to read, the backfill among them; None if that is not known.
        backfill: offsets left to read behind what is fresh.
        left_s: until the lag is worked off, new records counted in; None if it does not shrink, or is not known.
    """

    batch: int
    rows: int
    rate: float
    lag: int | None
    backfill: int
    left_s: float | None


class StreamProgress:
    """Adds up batches. Feed each of them once, in order."""

    def __init__(self, *, window: int = WINDOW) -> None:
        self._recent: deque[StreamBatch] = deque(maxlen=window)
        self._rows = 0

    def add(self, batch: StreamBatch) -> Figures:
        """How far it is after this batch."""
        self._recent.append(batch)
        self._rows += batch.rows
        took_ms = sum(each.took_ms for each in self._recent)
        return Figures(
            batch=batch.number,
            rows=self._rows,
            rate=1000 * sum(each.rows for each in self._recent) / took_ms if took_ms else 0.0,
            lag=batch.lag,
            backfill=batch.backfill,
            left_s=self._left_s(),
        )

    def _left_s(self) -> float | None:
        """From how fast the lag has shrunk. After one batch there is only its own rate to go by."""
        last = self._recent[-1]
        if not (lag := last.lag):
            return None if lag is None else 0.0
        first, lag_then = next((each, then) for each in self._recent if (then := each.lag) is not None)
        if first is last:
            return lag * last.took_ms / last.rows / 1000 if last.rows else None
        shrunk, took_ms = lag_then - lag, last.ended_ms - first.ended_ms
        return lag * took_ms / shrunk / 1000 if shrunk > 0 and took_ms > 0 else None


def metrics_line(batch: StreamBatch, figures: Figures) -> str:
    """One batch as a line of JSON, with the lag of each partition."""
    lags = {str(tp): lag for tp, lag in sorted(batch.lags().items())}
    told = {
        "batch": batch.number,
        "ended_ms": batch.ended_ms,
        "took_ms": batch.took_ms,
        "rows": batch.rows,
        "rows_total": figures.rows,
        "rows_per_second": round(figures.rate, 1),
        "lag": figures.lag,
        "backfill": figures.backfill,
        "seconds_left": None if figures.left_s is None else round(figures.left_s, 1),
        "lags": lags,
    }
    return json.dumps(told)


def _offset(value: object) -> Mapping[str, object]:
    """An offset in Spark's progress: an object, or the text of one."""
    if isinstance(value, str):
        value = json.loads(value)
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[object]:
    assert isinstance(value, list), value
    return value
