"""What may be made of a source's rows, and where a query may begin: each source runs the same scenario on topics of its
own, and what both come to is compared. For `scripts/prove spark-answers`."""

from __future__ import annotations

import json
from functools import partial
from itertools import product
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql import functions as sf

from proofs.spark.topics import FIRST_MS, STEP_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from proofs.spark_answers.scenario import Scenario, ScenarioRun

PLACE = ("topic", "partition", "offset")
ASIDE = {"asyncProgressTrackingEnabled": "true", "asyncProgressTrackingCheckpointIntervalMs": "200"}
# What Spark 2.4 wrote beside the offsets of a batch. It knew fewer settings than later ones do.
CONF_OF_2_4 = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
    "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion": "2",
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    "spark.sql.streaming.aggregation.stateFormatVersion": "2",
    "spark.sql.shuffle.partitions": "3",
}


# --- queries with state -------------------------------------------------------------------------------------------


def windows_behind_a_watermark(run: ScenarioRun, mode: str) -> None:
    """The second run goes on with the first one's state; then records come that are too late."""
    run.make("a", 2, 90)

    def count() -> None:
        rows = run.stream({**run.of("a"), "maxOffsetsPerTrigger": "40"}).withWatermark("timestamp", "20 seconds")
        windows = rows.groupBy(sf.window("timestamp", "30 seconds"), "partition").agg(sf.count("*"), sf.max("offset"))
        run.query(windows, mode=mode)

    count()
    run.fill("a", 2, 90, first=90)
    count()
    run.fill("a", 2, 30, first=0)
    count()


def duplicates_behind_a_watermark(run: ScenarioRun) -> None:
    run.make("a", 2, 60)
    for first in (40, 100, 0):
        rows = run.stream({**run.of("a"), "maxOffsetsPerTrigger": "50"}).withWatermark("timestamp", "1 minute")
        run.query(rows.dropDuplicates(["timestamp", "value"]).select(*PLACE))
        run.fill("a", 2, 60, first=first)


# --- several sources ----------------------------------------------------------------------------------------------


def two_topics(run: ScenarioRun, trigger: str) -> None:
    """Each with a limit of its own; the third run has nothing new in one, and the fourth in neither."""
    run.make("a", 2, 20)
    run.make("b", 3, 30)
    for topic in ("a", "b", "", ""):
        small = run.stream({**run.of("a"), "maxOffsetsPerTrigger": "7"})
        large = run.stream({**run.of("b"), "maxOffsetsPerTrigger": "11"}, index=1)
        run.query(small.union(large).select(*PLACE), trigger=trigger)
        if topic:
            run.fill(topic, 2, 10, first=100)


def spark_s_own_beside_it(run: ScenarioRun, *, is_first: bool) -> None:
    """One query has rows of both."""
    run.make("a", 2, 20)
    run.make("b", 2, 20)
    for first in (20, 40):
        options = {"maxOffsetsPerTrigger": "9"}
        ours = run.stream({**run.of("a"), **options}, index=0 if is_first else 1)
        theirs = run.stream({**run.of("b"), **options}, source="kafka", index=1 if is_first else 0)
        one, other = (ours, theirs) if is_first else (theirs, ours)
        run.query(one.union(other).select(*PLACE))
        run.fill("a", 2, 10, first=first)
        run.fill("b", 2, 30, first=first)


def spark_s_own_joined_with_it(run: ScenarioRun) -> None:
    """Streams of both, and tables of both."""
    run.make("a", 2, 20)
    run.make("b", 2, 30)
    ours, theirs = (alias_of(rows, name) for rows, name in _of_both(run))
    same = (sf.col("l.offset") == sf.col("r.offset")) & (sf.col("l.partition") == sf.col("r.partition"))
    run.query(ours.join(theirs, on=same).select("l.partition", "l.offset", "r.topic"))
    left = alias_of(run.table({"subscribe": run.name("a")}), "l")
    right = alias_of(run.table({"subscribe": run.name("b")}, source="kafka"), "r")
    run.note(sorted(map(str, left.join(right, on=same).select("l.partition", "l.offset", "r.topic").collect())))


def _of_both(run: ScenarioRun) -> tuple[tuple[DataFrame, str], tuple[DataFrame, str]]:
    return (run.stream(run.of("a")), "l"), (run.stream(run.of("b"), source="kafka", index=1), "r")


def alias_of(rows: DataFrame, name: str) -> DataFrame:
    return rows.select(*PLACE).alias(name)


def records_come_while_a_batch_is_read(run: ScenarioRun) -> None:
    """SPARK-25495: what tasks have fetched ahead is none of their batch, and is none of the next one but once."""
    run.make("a", 2, 20)
    coming = iter(range(20, 1_000, 10))
    for _ in range(3):
        run.to_end(
            {**run.of("a"), "maxOffsetsPerTrigger": "15"},
            meanwhile=lambda: run.fill("a", 2, 10, first=next(coming)),
        )


# --- progress that is written on the side -------------------------------------------------------------------------


def progress_on_the_side(run: ScenarioRun) -> None:
    """Spark has it for few sinks; topics are one."""
    run.make("a", 2, 15)
    out = run.topics.make("out", 1)
    for first in (15, 30):
        rows = run.stream({**run.of("a"), "maxOffsetsPerTrigger": "5"})
        run.into(out, rows.selectExpr("concat(partition, '-', offset) AS value"), ASIDE)
        run.fill("a", 2, 15, first=first)


def progress_on_the_side_where_it_cannot_be(run: ScenarioRun) -> None:
    """For a sink, a trigger and a query that Spark does not have it for."""
    run.make("a", 2, 15)
    rows = run.stream(run.of("a"))
    run.query(rows, options=ASIDE, trigger="1 second")
    of_any_sink = {**ASIDE, "_asyncProgressTrackingOverrideSinkSupportCheck": "true"}
    run.query(rows, options=of_any_sink)
    run.query(rows.groupBy("topic").count(), mode="complete", options=of_any_sink, trigger="1 second")


# --- checkpoints of earlier versions ------------------------------------------------------------------------------


def checkpoint_of_2_4(run: ScenarioRun, *, is_through: bool) -> None:
    """As Spark 2.4 left it behind its first batch, or in the middle of it."""
    run.make("a", 2, 20)
    name = run.name("a")
    of_batch = {"batchWatermarkMs": 0, "batchTimestampMs": FIRST_MS, "conf": CONF_OF_2_4}
    written = {
        "metadata": json.dumps({"id": str(uuid4())}),
        "sources/0/0": f"\0v1\n{json.dumps({name: {'1': 1, '0': 2}})}",
        "offsets/0": f"v1\n{json.dumps(of_batch)}\n{json.dumps({name: {'1': 4, '0': 5}})}",
    }
    if is_through:
        written["commits/0"] = f"v1\n{json.dumps({'nextBatchWatermarkMs': 0})}"
    _write(run, written)
    run.to_end(run.of("a"))
    run.fill("a", 2, 10, first=20)
    run.to_end({**run.of("a"), "includeHeaders": "true"})


def initial_offsets_of(run: ScenarioRun, first_line: str) -> None:
    """Where the query began stands in a file of Spark 2.1, or of a version to come."""
    run.make("a", 2, 20)
    _write(run, {"sources/0/0": first_line + json.dumps({run.name("a"): {"0": 7, "1": 3}})})
    run.to_end(run.of("a"))


def _write(run: ScenarioRun, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = run.checkpoint / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


# --- where queries begin ------------------------------------------------------------------------------------------

WAYS = ("assign", "subscribe", "subscribePattern")
WRITTEN = 30


def begun(run: ScenarioRun, way: str, options: dict[str, str], partitions: int) -> None:
    """A query that runs on: what it has at first, and when more was written. `a` in options is the topic."""
    run.make("a", partitions, WRITTEN)
    name = run.name("a")
    ways = {"assign": json.dumps({name: list(range(partitions))}), "subscribe": name, "subscribePattern": f"{name}.*"}
    of_topic = {key: value.replace('"a"', json.dumps(name)) for key, value in options.items()}
    # A query that begins at the end has to have asked where that is before there is more.
    run.live({way: ways[way], **of_topic}, lambda: None, lambda: run.fill("a", partitions, 15, first=WRITTEN))


def _starts() -> dict[str, dict[str, str]]:
    middle, late = FIRST_MS + WRITTEN * STEP_MS // 2, FIRST_MS + 10 * WRITTEN * STEP_MS
    each = {"latest": "latest", "earliest": "earliest", "offsets": json.dumps({"a": {"0": -2, "1": -1, "2": 3}})}
    found = {name: {"startingOffsets": value} for name, value in each.items()}
    found["timestamps"] = {"startingOffsetsByTimestamp": json.dumps({"a": {"0": middle, "1": 0, "2": middle - 5000}})}
    found["a timestamp"] = {"startingTimestamp": str(middle)}
    for strategy in ("error", "latest"):
        policy = {"startingOffsetsByTimestampStrategy": strategy}
        timestamps = {"startingOffsetsByTimestamp": json.dumps({"a": {"0": late}})}
        found[f"timestamps behind all, {strategy}"] = {**timestamps, **policy}
        found[f"a timestamp behind all, {strategy}"] = {"startingTimestamp": str(late), **policy}
    return found


def scenarios() -> dict[str, Scenario]:
    found: dict[str, Scenario] = {
        "windows behind a watermark, append": partial(windows_behind_a_watermark, mode="append"),
        "windows behind a watermark, update": partial(windows_behind_a_watermark, mode="update"),
        "windows behind a watermark, complete": partial(windows_behind_a_watermark, mode="complete"),
        "duplicates behind a watermark": duplicates_behind_a_watermark,
        "two topics, available now": partial(two_topics, trigger="availableNow"),
        "two topics, once": partial(two_topics, trigger="once"),
        "Spark's own beside it, second": partial(spark_s_own_beside_it, is_first=True),
        "Spark's own beside it, first": partial(spark_s_own_beside_it, is_first=False),
        "Spark's own joined with it": spark_s_own_joined_with_it,
        "records come while a batch is read": records_come_while_a_batch_is_read,
        "progress on the side": progress_on_the_side,
        "progress on the side where it cannot be": progress_on_the_side_where_it_cannot_be,
        "a checkpoint of Spark 2.4, behind its batch": partial(checkpoint_of_2_4, is_through=True),
        "a checkpoint of Spark 2.4, within its batch": partial(checkpoint_of_2_4, is_through=False),
        "initial offsets of Spark 2.1": partial(initial_offsets_of, first_line="0"),
        "initial offsets of a version to come": partial(initial_offsets_of, first_line="\0v99\n"),
    }
    for (name, options), way, loss in product(_starts().items(), WAYS, ("true", "false")):
        given = {**options, "failOnDataLoss": loss}
        # Of several partitions, which one Spark names first in its error depends on how it hashes.
        partitions = 1 if "behind all" in name else 3
        found[f"{way} from {name}, failOnDataLoss {loss}"] = partial(
            begun, way=way, options=given, partitions=partitions
        )
    return found
