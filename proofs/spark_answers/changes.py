"""Topics that change while they are read: each source runs the same scenario on topics of its own, and what both see is
compared. For `scripts/prove spark-answers`.

A scenario makes topics, fills, cuts, grows, removes them, and runs a query in between, over one checkpoint. What a run
came to is its batches, where each began and ended, and their rows, or what it failed of.
"""

from __future__ import annotations

import json
from functools import partial
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from proofs.spark_answers.scenario import Scenario, ScenarioRun

ROUNDS_OF_STRESS = 8
LOST = {"failOnDataLoss": "false"}


def topics_come_and_go(run: ScenarioRun) -> None:
    run.make("a", 2, 20)
    run.to_end({**run.pattern, **LOST})
    run.make("b", 3, 30)
    run.to_end({**run.pattern, **LOST})
    run.topics.remove(run.name("a"))
    run.fill("b", 3, 9, first=30)
    run.to_end({**run.pattern, **LOST})


def a_topic_is_gone(run: ScenarioRun) -> None:
    run.make("a", 2, 20)
    run.make("b", 1, 5)
    run.to_end(run.pattern)
    run.topics.remove(run.name("a"))
    run.fill("b", 1, 5, first=5)
    run.to_end(run.pattern)


def a_topic_is_another(run: ScenarioRun, records: int, options: dict[str, str], *, by_pattern: bool) -> None:
    """Its name is the same: with fewer records than were read of it, and with more."""
    given = {**(run.pattern if by_pattern else run.of("a")), **options}
    run.make("a", 1, 20)
    run.to_end(given)
    run.topics.remove(run.name("a"))
    run.make("a", 1, records)
    run.to_end(given)
    run.fill("a", 1, 30, first=records)
    run.to_end(given)


def a_topic_is_another_within_a_run(run: ScenarioRun, partitions: int, records: int, options: dict[str, str]) -> None:
    """What there was when the run began is all it reads, and is not there any more."""
    run.make("a", 3, 21)

    def replace() -> None:
        run.topics.remove(run.name("a"))
        run.make("a", partitions, records)

    run.to_end({**run.of("a"), **options, "maxOffsetsPerTrigger": "6"}, behind_first=replace)


def partitions_are_added(run: ScenarioRun) -> None:
    """Empty at first."""
    run.make("a", 1, 20)
    run.to_end(run.of("a"))
    run.topics.grow(run.name("a"), 3)
    run.to_end(run.of("a"))
    run.fill("a", 3, 30, first=20)
    run.to_end({**run.of("a"), "maxOffsetsPerTrigger": "7"})


def partitions_are_added_behind_a_batch_that_failed(
    run: ScenarioRun, *, is_first: bool, knows_checkpoint: bool
) -> None:
    """SPARK-53560: the batch is planned and not through, and is planned again as it was."""
    run.make("a", 1, 20)
    if not is_first:
        run.to_end(run.of("a"), knows_checkpoint=knows_checkpoint)
        run.fill("a", 1, 20, first=20)
    run.to_end(run.of("a"), first_fails=True, knows_checkpoint=knows_checkpoint)
    run.topics.grow(run.name("a"), 3)
    run.fill("a", 3, 30, first=40)
    run.to_end(run.of("a"), knows_checkpoint=knows_checkpoint)
    run.to_end(run.of("a"), knows_checkpoint=knows_checkpoint)


def retention_between_batches(run: ScenarioRun, options: dict[str, str]) -> None:
    run.make("a", 2, 40)
    run.to_end({**run.of("a"), **options})
    run.fill("a", 2, 40, first=40)
    run.topics.cut(run.name("a"), 0, 30)
    run.to_end({**run.of("a"), **options})


def retention_between_planning_and_reading(run: ScenarioRun, cut: int, options: dict[str, str]) -> None:
    """A batch of ten records: some of them go, or all of them, or more than it has. It was planned by a query that is
    over, for Spark's own source has fetched ahead what a running one reads next."""
    run.make("a", 1, 40)
    limits = {**run.of("a"), **options, "maxOffsetsPerTrigger": "10"}
    run.to_end(limits, first_fails=True)
    run.topics.cut(run.name("a"), 0, cut)
    run.to_end(limits)


def retention_behind_a_planned_frame(run: ScenarioRun, start: int | str, cut: int, options: dict[str, str]) -> None:
    """Late binding: `earliest` means what it means when the query runs; a number stays one."""
    run.make("a", 1, 40)
    name = run.name("a")
    starts = start if isinstance(start, str) else json.dumps({name: {"0": start}})
    ends = json.dumps({name: {"0": 35}})
    given = {**run.of("a"), **options, "startingOffsets": starts, "endingOffsets": ends}
    run.batch(given, lambda: run.topics.cut(name, 0, cut))


def a_union_with_itself(run: ScenarioRun) -> None:
    """SPARK-22956: two sources of one query, of which one has nothing new."""
    run.make("a", 2, 20)

    def both(frame: DataFrame) -> DataFrame:
        return frame.union(frame)

    run.to_end(run.of("a"), shape=both)
    run.to_end(run.of("a"), shape=both)
    run.fill("a", 2, 20, first=20)
    run.to_end(run.of("a"), shape=both)


def a_join_with_itself(run: ScenarioRun) -> None:
    run.make("a", 2, 20)

    def same(frame: DataFrame) -> DataFrame:
        left, right = frame.alias("l"), frame.selectExpr("value AS v").alias("r")
        return left.join(right, on=left["value"] == right["v"]).select("l.topic", "l.partition", "l.offset")

    run.to_end(run.of("a"), shape=same)
    run.fill("a", 2, 20, first=20)
    run.to_end(run.of("a"), shape=same)


def empty_partitions(run: ScenarioRun) -> None:
    run.topics.make("a", 5)
    run.to_end(run.of("a"))
    run.fill("a", 2, 10, first=0)
    run.to_end({**run.of("a"), "maxOffsetsPerTrigger": "3"})
    run.to_end({**run.of("a"), "minPartitions": "9"})


def a_live_query_sees_all_of_it(run: ScenarioRun) -> None:
    a = run.name("a")
    run.make("a", 1, 20)

    def grow() -> None:
        run.topics.grow(a, 2)
        run.fill("a", 2, 20, first=20)

    def remove() -> None:
        run.topics.remove(run.name("b"))
        run.fill("a", 2, 10, first=60)

    run.live(
        {**run.pattern, **LOST, "kafka.metadata.max.age.ms": "500"},
        lambda: None,
        lambda: run.make("b", 2, 10),
        grow,
        lambda: run.topics.cut(a, 0, 25),
        lambda: run.fill("a", 2, 20, first=40),
        remove,
    )


def stress(run: ScenarioRun, seed: int) -> None:
    """Topics and partitions come and go at random between runs, and records are written and cut."""
    chance, sizes, written = Random(seed), dict[str, int](), 0
    for number in range(ROUNDS_OF_STRESS):
        for _ in range(3):
            written = step_of_stress(run, chance, sizes, written)
        most = chance.choice([{}, {"maxOffsetsPerTrigger": "13"}, {"minPartitions": "7"}])
        run.note([number, sizes])
        run.to_end({**run.pattern, **LOST, **most})


def step_of_stress(run: ScenarioRun, chance: Random, sizes: dict[str, int], written: int) -> int:
    """How many records there are afterwards."""
    kind = chance.choice(["make", "grow", "fill", "fill", "cut", "remove"]) if len(sizes) > 1 else "make"
    topic = chance.choice(sorted(sizes)) if sizes else ""
    if kind == "make":
        topic = f"t{written}-{len(sizes)}"
        sizes[topic] = chance.randint(1, 3)
        run.topics.make(topic, sizes[topic])
    elif kind == "grow":
        sizes[topic] += 1
        run.topics.grow(run.name(topic), sizes[topic])
    elif kind == "remove":
        del sizes[topic]
        run.topics.remove(run.name(topic))
        return written
    elif kind == "cut":
        ends = run.topics.written(run.name(topic), sizes[topic]).ends
        run.topics.cut(run.name(topic), 0, chance.randint(0, ends[0]))
        return written
    more = chance.randint(1, 25)
    run.fill(topic, sizes[topic], more, first=written)
    return written + more


def scenarios() -> dict[str, Scenario]:
    found: dict[str, Scenario] = {
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
        found |= {
            f"{name}, failOnDataLoss {loss}": scenario for name, scenario in _of_loss({"failOnDataLoss": loss}).items()
        }
    for seed in (1, 2):
        found[f"stress {seed}"] = partial(stress, seed=seed)
    return found


def _of_loss(options: dict[str, str]) -> dict[str, Scenario]:
    between = partial(retention_between_planning_and_reading, options=options)
    behind = partial(retention_behind_a_planned_frame, options=options)
    return {
        "retention between batches": partial(retention_between_batches, options=options),
        **{
            f"a topic of {records} takes the place of one of 20{', by a pattern' * by_pattern}": partial(
                a_topic_is_another, records=records, options=options, by_pattern=by_pattern
            )
            for records, by_pattern in ((5, False), (30, False), (5, True))
        },
        "partitions go within a run": partial(
            a_topic_is_another_within_a_run, partitions=2, records=14, options=options
        ),
        "records go within a run": partial(a_topic_is_another_within_a_run, partitions=3, records=12, options=options),
        **{f"retention to {cut} before 0 to 10 are read": partial(between, cut=cut) for cut in (5, 10, 25)},
        **{f"retention to {cut} before a frame is read": partial(behind, start=10, cut=cut) for cut in (15, 20, 35)},
        "retention before a frame from earliest is read": partial(behind, start="earliest", cut=15),
    }
