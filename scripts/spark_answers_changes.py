"""Topics that change while they are read: each source plays the same story on topics of its own, and what both see is
compared. For `scripts/prove spark-answers`.

A story makes topics, fills, cuts, grows, removes them, and runs a query in between, over one checkpoint. What a run
came to is its batches, where each began and ended, and their rows, or what it failed of.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

from pyspark.errors import StreamingQueryException
from spark_answers import REFUSALS, told
from spark_answers_streams import TIMEOUT_S, parsed
from spark_topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    Change: TypeAlias = Callable[[], object]
    Shape: TypeAlias = Callable[[DataFrame], DataFrame]

CONDITION = re.compile(r"KAFKA_DATA_LOSS\.\w+|[A-Z]+(?:_[A-Z]+){3,}")
OF_SPARK_ITSELF = ("PYTHON_", "STREAM_", "FOREACH_")
LOSS = ("KAFKA_DATA_LOSS", "Some data may have been lost", "is out of range for partition")
ROUNDS_OF_STRESS = 8
LOST = {"failOnDataLoss": "false"}


class SinkError(Exception):
    """What a story's sink fails of."""


def as_it_is(frame: DataFrame) -> DataFrame:
    return frame


class Stage:
    """Where one source plays one story.

    Args:
        outcomes: what its runs came to, one after the other.
    """

    def __init__(self, spark: SparkSession, source: str, servers: str) -> None:
        self._spark = spark
        self._source = source
        self._servers = servers
        self._prefix = f"{source}-{uuid4().hex[:8]}"
        self._folder = Path(tempfile.mkdtemp(prefix="kwire-changes-"))
        self.topics = Topics(servers, self._prefix)
        self.outcomes: list[str] = []

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def name(self, topic: str) -> str:
        return f"{self._prefix}-{topic}"

    def make(self, topic: str, partitions: int, records: int, first: int = 0) -> None:
        self.topics.fill(self.topics.make(topic, partitions), partitions, records=records, first=first)

    def fill(self, topic: str, partitions: int, records: int, first: int) -> None:
        self.topics.fill(self.name(topic), partitions, records=records, first=first)

    @property
    def pattern(self) -> dict[str, str]:
        return {"subscribePattern": f"{self._prefix}-.*", "startingOffsets": "earliest"}

    def of(self, topic: str) -> dict[str, str]:
        return {"subscribe": self.name(topic), "startingOffsets": "earliest"}

    # --- queries --------------------------------------------------------------------------------------------------

    def run(
        self,
        options: dict[str, str],
        *,
        shape: Shape = as_it_is,
        first_fails: bool = False,
        knows_checkpoint: bool = True,
    ) -> None:
        """A query to the end of what there is.

        Args:
            shape: what is made of the source's rows.
            knows_checkpoint: whether kwire is told where it is.
            first_fails: whether the sink fails of its first batch, after that was read.
        """
        rows: dict[int, dict[str, list[int]]] = {}

        def take(frame: DataFrame, number: int) -> None:
            rows[number] = offsets_of(frame)
            if first_fails:
                raise SinkError

        checkpoint = str(self._folder / "checkpoint")
        # Spark tells its own source where that is.
        own = {"kwire.checkpointLocation": checkpoint} if self._source == "kwire" and knows_checkpoint else {}
        frame = self._frame({**options, **own}, shape)
        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        failure = ""
        try:
            if not query.awaitTermination(TIMEOUT_S):
                failure = "did not end"
        except StreamingQueryException as error:
            failure = reason(str(error))
        finally:
            query.stop()
        ends = {
            progress["batchId"]: [(parsed(one["startOffset"]), parsed(one["endOffset"])) for one in progress["sources"]]
            for progress in query.recentProgress
            if progress["batchId"] in rows and not failure
        }
        self._note([rows, ends, failure])

    def live(self, options: dict[str, str], *changes: Change) -> None:
        """A query that runs on while topics change; its rows after each. Where batches end is a matter of moments."""
        rows: dict[str, list[int]] = defaultdict(list)

        def take(frame: DataFrame, _number: int) -> None:
            for place, offsets in offsets_of(frame).items():
                rows[place] += offsets

        writer = self._frame(options, as_it_is).writeStream.foreachBatch(take)
        query = writer.option("checkpointLocation", str(self._folder / "live")).start()
        try:
            for change in changes:
                change()
                query.processAllAvailable()
                self._note(rows)
        except REFUSALS as error:
            self._note(reason(str(error)))
        finally:
            query.stop()

    def batch(self, options: dict[str, str], before: Change) -> None:
        """A DataFrame whose query is planned, and then topics change."""
        frame = self._spark.read.format(self._source).option("kafka.bootstrap.servers", self._servers)
        loaded = frame.options(**options).load()
        loaded.rdd.getNumPartitions()
        before()
        try:
            self._note(offsets_of(loaded))
        except REFUSALS as error:
            self._note(reason(str(error)))

    def _frame(self, options: dict[str, str], shape: Shape) -> DataFrame:
        reader = self._spark.readStream.format(self._source).option("kafka.bootstrap.servers", self._servers)
        return shape(reader.options(**options).load())

    def _note(self, outcome: object) -> None:
        self.outcomes.append(json.dumps(outcome, sort_keys=True).replace(self._prefix, "P"))


def offsets_of(frame: DataFrame) -> dict[str, list[int]]:
    """In order, by topic and partition."""
    found: dict[str, list[int]] = defaultdict(list)
    for row in frame.select("topic", "partition", "offset").collect():
        found[f"{row.topic}-{row.partition}"].append(row.offset)
    return {place: sorted(found[place]) for place in sorted(found)}


def reason(error: str) -> str:
    """The condition that an error names, or what it says in the end."""
    if SinkError.__name__ in error:
        return SinkError.__name__
    if any(words in error for words in LOSS):  # Spark's own does not always say of which kind it is
        return "data loss"
    conditions = [each for each in CONDITION.findall(error) if not each.startswith(OF_SPARK_ITSELF)]
    return conditions[0] if conditions else told(error)


# --- stories ------------------------------------------------------------------------------------------------------


def topics_come_and_go(stage: Stage) -> None:
    stage.make("a", 2, 20)
    stage.run({**stage.pattern, **LOST})
    stage.make("b", 3, 30)
    stage.run({**stage.pattern, **LOST})
    stage.topics.remove(stage.name("a"))
    stage.fill("b", 3, 9, first=30)
    stage.run({**stage.pattern, **LOST})


def a_topic_is_gone(stage: Stage) -> None:
    stage.make("a", 2, 20)
    stage.make("b", 1, 5)
    stage.run(stage.pattern)
    stage.topics.remove(stage.name("a"))
    stage.fill("b", 1, 5, first=5)
    stage.run(stage.pattern)


def a_topic_is_another(stage: Stage, records: int, options: dict[str, str]) -> None:
    """Its name is the same: with fewer records than were read of it, and with more."""
    stage.make("a", 1, 20)
    stage.run({**stage.of("a"), **options})
    stage.topics.remove(stage.name("a"))
    stage.make("a", 1, records)
    stage.run({**stage.of("a"), **options})
    stage.fill("a", 1, 30, first=records)
    stage.run({**stage.of("a"), **options})


def partitions_are_added(stage: Stage) -> None:
    """Empty at first."""
    stage.make("a", 1, 20)
    stage.run(stage.of("a"))
    stage.topics.grow(stage.name("a"), 3)
    stage.run(stage.of("a"))
    stage.fill("a", 3, 30, first=20)
    stage.run({**stage.of("a"), "maxOffsetsPerTrigger": "7"})


def partitions_are_added_behind_a_batch_that_failed(stage: Stage, *, is_first: bool, knows_checkpoint: bool) -> None:
    """SPARK-53560: the batch is planned and not through, and is planned again as it was."""
    stage.make("a", 1, 20)
    if not is_first:
        stage.run(stage.of("a"), knows_checkpoint=knows_checkpoint)
        stage.fill("a", 1, 20, first=20)
    stage.run(stage.of("a"), first_fails=True, knows_checkpoint=knows_checkpoint)
    stage.topics.grow(stage.name("a"), 3)
    stage.fill("a", 3, 30, first=40)
    stage.run(stage.of("a"), knows_checkpoint=knows_checkpoint)
    stage.run(stage.of("a"), knows_checkpoint=knows_checkpoint)


def retention_between_batches(stage: Stage, options: dict[str, str]) -> None:
    stage.make("a", 2, 40)
    stage.run({**stage.of("a"), **options})
    stage.fill("a", 2, 40, first=40)
    stage.topics.cut(stage.name("a"), 0, 30)
    stage.run({**stage.of("a"), **options})


def retention_between_planning_and_reading(stage: Stage, cut: int, options: dict[str, str]) -> None:
    """A batch of ten records: some of them go, or all of them, or more than it has. It was planned by a query that is
    over, for Spark's own source has fetched ahead what a running one reads next."""
    stage.make("a", 1, 40)
    limits = {**stage.of("a"), **options, "maxOffsetsPerTrigger": "10"}
    stage.run(limits, first_fails=True)
    stage.topics.cut(stage.name("a"), 0, cut)
    stage.run(limits)


def retention_behind_a_planned_frame(stage: Stage, start: int | str, cut: int, options: dict[str, str]) -> None:
    """Late binding: `earliest` means what it means when the query runs; a number stays one."""
    stage.make("a", 1, 40)
    name = stage.name("a")
    starts = start if isinstance(start, str) else json.dumps({name: {"0": start}})
    ends = json.dumps({name: {"0": 35}})
    given = {**stage.of("a"), **options, "startingOffsets": starts, "endingOffsets": ends}
    stage.batch(given, lambda: stage.topics.cut(name, 0, cut))


def a_union_with_itself(stage: Stage) -> None:
    """SPARK-22956: two sources of one query, of which one has nothing new."""
    stage.make("a", 2, 20)

    def both(frame: DataFrame) -> DataFrame:
        return frame.union(frame)

    stage.run(stage.of("a"), shape=both)
    stage.run(stage.of("a"), shape=both)
    stage.fill("a", 2, 20, first=20)
    stage.run(stage.of("a"), shape=both)


def a_join_with_itself(stage: Stage) -> None:
    stage.make("a", 2, 20)

    def same(frame: DataFrame) -> DataFrame:
        left, right = frame.alias("l"), frame.selectExpr("value AS v").alias("r")
        return left.join(right, on=left["value"] == right["v"]).select("l.topic", "l.partition", "l.offset")

    stage.run(stage.of("a"), shape=same)
    stage.fill("a", 2, 20, first=20)
    stage.run(stage.of("a"), shape=same)


def empty_partitions(stage: Stage) -> None:
    stage.topics.make("a", 5)
    stage.run(stage.of("a"))
    stage.fill("a", 2, 10, first=0)
    stage.run({**stage.of("a"), "maxOffsetsPerTrigger": "3"})
    stage.run({**stage.of("a"), "minPartitions": "9"})


def a_live_query_sees_all_of_it(stage: Stage) -> None:
    a = stage.name("a")
    stage.make("a", 1, 20)

    def grow() -> None:
        stage.topics.grow(a, 2)
        stage.fill("a", 2, 20, first=20)

    def remove() -> None:
        stage.topics.remove(stage.name("b"))
        stage.fill("a", 2, 10, first=60)

    stage.live(
        {**stage.pattern, **LOST, "kafka.metadata.max.age.ms": "500"},
        lambda: None,
        lambda: stage.make("b", 2, 10),
        grow,
        lambda: stage.topics.cut(a, 0, 25),
        lambda: stage.fill("a", 2, 20, first=40),
        remove,
    )


def stress(stage: Stage, seed: int) -> None:
    """Topics and partitions come and go at random between runs, and records are written and cut."""
    chance, sizes, written = Random(seed), dict[str, int](), 0
    for number in range(ROUNDS_OF_STRESS):
        for _ in range(3):
            written = step_of_stress(stage, chance, sizes, written)
        most = chance.choice([{}, {"maxOffsetsPerTrigger": "13"}, {"minPartitions": "7"}])
        stage.outcomes.append(f"round {number}: {sizes}")
        stage.run({**stage.pattern, **LOST, **most})


def step_of_stress(stage: Stage, chance: Random, sizes: dict[str, int], written: int) -> int:
    """How many records there are afterwards."""
    kind = chance.choice(["make", "grow", "fill", "fill", "cut", "remove"]) if len(sizes) > 1 else "make"
    topic = chance.choice(sorted(sizes)) if sizes else ""
    if kind == "make":
        topic = f"t{written}-{len(sizes)}"
        sizes[topic] = chance.randint(1, 3)
        stage.topics.make(topic, sizes[topic])
    elif kind == "grow":
        sizes[topic] += 1
        stage.topics.grow(stage.name(topic), sizes[topic])
    elif kind == "remove":
        del sizes[topic]
        stage.topics.remove(stage.name(topic))
        return written
    elif kind == "cut":
        ends = stage.topics.written(stage.name(topic), sizes[topic]).ends
        stage.topics.cut(stage.name(topic), 0, chance.randint(0, ends[0]))
        return written
    more = chance.randint(1, 25)
    stage.fill(topic, sizes[topic], more, first=written)
    return written + more


Story: TypeAlias = "Callable[[Stage], None]"


def stories() -> dict[str, Story]:
    found: dict[str, Story] = {
        "topics come and go": topics_come_and_go,
        "a topic is gone": a_topic_is_gone,
        "partitions are added": partitions_are_added,
        "a union with itself": a_union_with_itself,
        "a join with itself": a_join_with_itself,
        "empty partitions": empty_partitions,
        "a live query": a_live_query_sees_all_of_it,
    }
    for is_first, knows in ((True, True), (True, False), (False, False)):
        which = f"{'the first' if is_first else 'a later'} batch that failed"
        found[f"partitions are added behind {which}, {'with' if knows else 'without'} an initial file"] = partial(
            partitions_are_added_behind_a_batch_that_failed, is_first=is_first, knows_checkpoint=knows
        )
    for loss in ("true", "false"):
        found |= {f"{name}, failOnDataLoss {loss}": story for name, story in _of_loss({"failOnDataLoss": loss}).items()}
    for seed in (1, 2):
        found[f"stress {seed}"] = partial(stress, seed=seed)
    return found


def _of_loss(options: dict[str, str]) -> dict[str, Story]:
    between = partial(retention_between_planning_and_reading, options=options)
    behind = partial(retention_behind_a_planned_frame, options=options)
    return {
        "retention between batches": partial(retention_between_batches, options=options),
        **{
            f"a topic of {records} takes the place of one of 20": partial(
                a_topic_is_another, records=records, options=options
            )
            for records in (5, 30)
        },
        **{f"retention to {cut} before 0 to 10 are read": partial(between, cut=cut) for cut in (5, 10, 25)},
        **{f"retention to {cut} before a frame is read": partial(behind, start=10, cut=cut) for cut in (15, 20, 35)},
        "retention before a frame from earliest is read": partial(behind, start="earliest", cut=15),
    }


def played(spark: SparkSession, source: str, story: Story, servers: str) -> list[str]:
    """What its runs came to."""
    stage = Stage(spark, source, servers)
    try:
        story(stage)
    finally:
        stage.close()
    return stage.outcomes


def stories_that_differ(theirs: list[str], ours: list[str]) -> Iterator[str]:
    for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
        if one != other:
            yield f"run {number}: {one[:600]} and {other[:600]}"
