"""How far a query is, from what Spark reports of its batches."""

from __future__ import annotations

import json

import pytest

from kwire.model import TopicPartition
from kwire.offset_set import OffsetSet
from kwire.spark.fresh_first import Coverage
from kwire.spark.pipeline.progress import StreamBatch, StreamProgress, batch_from, metrics_line

P0, P1 = (TopicPartition("orders", number) for number in range(2))


def batch(
    number: int, rows: int, covered: int, log_end: int, *, took_ms: int = 1_000, ended_ms: int = 0
) -> StreamBatch:
    return StreamBatch(number, ended_ms, took_ms, rows, {P0: Coverage(covered)}, {P0: log_end})


def test_spark_s_report_of_a_batch_is_read() -> None:
    found = batch_from(
        {
            "batchId": 7,
            "timestamp": "2026-11-22T10:00:00.500Z",
            "numInputRows": 130,
            "durationMs": {"triggerExecution": 1_500, "addBatch": 900},
            "sources": [
                {
                    "startOffset": {"orders": {"0": 500, "1": 8}},
                    "endOffset": {"orders": {"0": {"head": 900, "gaps": [[510, 800]]}, "1": 28}},
                    "latestOffset": {"orders": {"0": 950, "1": 28}},
                }
            ],
        }
    )
    assert (found.number, found.rows, found.took_ms, found.ended_ms) == (7, 130, 1_500, 1_795_341_602_000)
    assert found.covered == {P0: Coverage(900, gaps=OffsetSet((range(510, 800),))), P1: Coverage(28)}
    assert (found.backfill, found.lag, found.lags()) == (290, 340, {P0: 340, P1: 0})


def test_offsets_may_be_text_and_missing() -> None:
    source = {"endOffset": '{"orders": {"0": 5}}', "latestOffset": None}
    found = batch_from({"batchId": 0, "timestamp": "2026-11-22T10:00:00Z", "numInputRows": 5, "sources": [source]})
    assert (found.covered, found.log_ends, found.lag, found.lags()) == ({P0: Coverage(5)}, {}, None, {})


def test_the_lag_of_a_batch_that_is_read_again_is_not_known() -> None:
    """Spark does not ask where the log ends, and the batch was told to be up to date."""
    progress = StreamProgress()
    again = batch(0, rows=100, covered=100, log_end=600, ended_ms=1_000)._replace(log_ends={})
    figures = progress.add(again)
    assert (figures.lag, figures.left_s) == (None, None)
    assert '"lag": null, "backfill": 0, "seconds_left": null, "lags": {}' in metrics_line(again, figures)
    figures = progress.add(batch(1, rows=100, covered=200, log_end=700, ended_ms=2_000))
    assert (figures.lag, figures.left_s) == (500, 5.0)
    figures = progress.add(batch(2, rows=100, covered=300, log_end=700, ended_ms=3_000))
    assert (figures.lag, figures.left_s) == (400, 4.0)


def test_the_first_batch_goes_by_its_own_rate() -> None:
    figures = StreamProgress().add(batch(0, rows=100, covered=100, log_end=600))
    assert (figures.rows, figures.rate, figures.lag, figures.left_s) == (100, 100.0, 500, 5.0)


def test_time_left_counts_in_what_comes_meanwhile() -> None:
    progress = StreamProgress()
    progress.add(batch(0, rows=100, covered=100, log_end=600, ended_ms=1_000))
    figures = progress.add(batch(1, rows=100, covered=200, log_end=650, ended_ms=2_000))
    assert (figures.lag, figures.left_s) == (450, 9.0)  # 100 a second, of which 50 come in again


def test_a_query_that_does_not_catch_up_has_no_time_left() -> None:
    progress = StreamProgress()
    progress.add(batch(0, rows=100, covered=100, log_end=600, ended_ms=1_000))
    assert progress.add(batch(1, rows=100, covered=200, log_end=900, ended_ms=2_000)).left_s is None


def test_a_query_that_is_up_to_date_has_nothing_left() -> None:
    assert StreamProgress().add(batch(0, rows=0, covered=100, log_end=100)).left_s == 0.0


def test_rates_are_those_of_late() -> None:
    progress = StreamProgress(window=2)
    progress.add(batch(0, rows=1_000_000, covered=0, log_end=0))
    progress.add(batch(1, rows=10, covered=0, log_end=0))
    figures = progress.add(batch(2, rows=30, covered=0, log_end=0))
    assert (figures.rate, figures.rows) == (20.0, 1_000_040)


def test_a_batch_as_a_line_for_machines() -> None:
    one = StreamBatch(
        3, 5_000, 2_000, 100, {P0: Coverage(900, gaps=OffsetSet((range(400),))), P1: Coverage(5)}, {P0: 950, P1: 5}
    )
    assert json.loads(metrics_line(one, StreamProgress().add(one))) == {
        "batch": 3,
        "ended_ms": 5_000,
        "took_ms": 2_000,
        "rows": 100,
        "rows_total": 100,
        "rows_per_second": 50.0,
        "lag": 450,
        "backfill": 400,
        "seconds_left": 9.0,
        "lags": {"orders-0": 450, "orders-1": 0},
    }


def test_a_source_that_reports_something_else_is_told() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        batch_from({"batchId": 0, "timestamp": "2026-11-22T10:00:00Z", "numInputRows": 5, "sources": []})
