"""`scripts/prove spark-answers`: kwire's source and Spark's own give the same answers to the same options, in one
session.

Every read of the matrix is made from both, and schema, number of tasks and rows (in order, inside each partition) are
compared; wrong options have to be refused by both in the same words; streams have to cut the same batches; and a
checkpoint that one source has left is taken up by the other, and given back, with each record once.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from kwire.testing.kafka import KafkaCluster
from proofs.spark.topics import RECORDS, Topics
from proofs.spark_answers import changes, queries
from proofs.spark_answers.answers import Answer, answer, differences, load, plain_rows, rows_that_differ, wrong_answers
from proofs.spark_answers.cases import Case, Set, batch_cases, make_set, wrong_cases, wrong_streams
from proofs.spark_answers.scenario import outcomes_of, runs_that_differ
from proofs.spark_answers.streams import Stream, compare, refused_stream, run
from tools.spark_sessions import spark_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from proofs.spark_answers.scenario import Scenario
    from proofs.spark_answers.streams import Batch

PARTS = ("batch", "again", "wrong", "streams", "crossing", "changes", "queries")
ROUNDS_OF_CROSSING = 4


class Trial:
    """Both sources on one broker.

    Args:
        other: the source that is compared with `kafka`.
        only: a part of the names of cases; the others are left out.
    """

    def __init__(self, spark: SparkSession, servers: str, other: str, only: str) -> None:
        self._spark = spark
        self._servers = servers
        self._other = other
        self._only = only
        self._topics = Topics(servers, f"answers-{uuid4().hex[:6]}")
        self._set: Set | None = None
        self.compared = Counter[str]()
        self.rows = 0

    @property
    def topics(self) -> Set:
        if self._set is None:
            self._set = make_set(self._topics)
        return self._set

    def _chosen(self, cases: list[Case]) -> list[Case]:
        return [case for case in cases if self._only in case.name]

    def batch(self) -> Iterator[str]:
        for case in self._chosen(batch_cases(self.topics)):
            theirs, ours = self._both(case)
            self.compared["batch"] += 1
            self.rows += sum(map(len, (theirs.rows or {}).values()))
            yield from (f"{case.name}: {line}" for line in differences(theirs, ours))

    def again(self) -> Iterator[str]:
        """A DataFrame that is used again, when more was written and when the first records are gone: each time it has
        what is there."""
        name = self._topics.make("again", 2)
        self._topics.fill(name, 2)
        case = Case(name="again", options={"subscribe": name})
        frames = [load(self._spark, source, case, self._servers) for source in ("kafka", self._other)]
        for what in ("at first", "when more was written", "when the first are gone"):
            theirs, ours = (plain_rows(frame) for frame in frames)
            self.compared["used again"] += 1
            yield from (f"{what}: {line}" for line in rows_that_differ(theirs, ours))
            self._topics.fill(name, 2, first=RECORDS)
            if what != "at first":
                self._topics.cut(name, 0, 30)

    def wrong(self) -> Iterator[str]:
        for case in self._chosen(wrong_cases(self.topics)):
            self.compared["wrong"] += 1
            yield from (f"{case.name}: {line}" for line in wrong_answers(*self._both(case), case.words))
        for case in self._chosen(wrong_streams(self.topics)):
            self.compared["wrong streams"] += 1
            theirs = refused_stream(self._spark, "kafka", case, self._servers)
            ours = refused_stream(self._spark, self._other, case, self._servers)
            yield from (f"stream, {case.name}: {line}" for line in wrong_answers(theirs, ours))

    def _both(self, case: Case) -> tuple[Answer, Answer]:
        theirs = answer(self._spark, "kafka", case, self._servers)
        return theirs, answer(self._spark, self._other, case, self._servers)

    def streams(self) -> Iterator[str]:
        for stream in streams(self.topics):
            if self._only in stream.name:
                print(f"stream: {stream.name}", file=sys.stderr, flush=True)
                theirs, found = compare(self._spark, self._other, stream, self._servers)
                self.compared["streams"] += 1
                self.compared["batches of streams"] += len(theirs)
                yield from (f"stream, {stream.name}: {line}" for line in found)

    def crossing(self) -> Iterator[str]:
        """Each round one source goes on where the other one stopped, and more is written."""
        for first in ("kafka", self._other):
            name = self._topics.make(f"crossing-{uuid4().hex[:4]}", 3)
            directory = Path(tempfile.mkdtemp(prefix="kwire-crossing-"))
            stream = Stream(
                name="crossing",
                options={"subscribe": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"},
            )
            batches: list[Batch] = []
            try:
                for number in range(ROUNDS_OF_CROSSING):
                    self._topics.fill(name, 3, records=RECORDS, first=number * RECORDS)
                    source = first if number % 2 == 0 else _the_other(first, self._other)
                    print(f"crossing from {first}: {source} goes on", file=sys.stderr, flush=True)
                    batches += run(self._spark, source, stream, self._servers, directory)
            finally:
                shutil.rmtree(directory, ignore_errors=True)
            self.compared["crossings"] += 1
            yield from (
                f"crossing from {first}: {line}" for line in not_once(batches, wanted=ROUNDS_OF_CROSSING * RECORDS)
            )

    def changes(self) -> Iterator[str]:
        """Topics that change while they are read."""
        yield from self._differences(changes.scenarios())

    def queries(self) -> Iterator[str]:
        """What may be made of the rows, and where it may begin."""
        yield from self._differences(queries.scenarios())

    def _differences(self, scenarios: Mapping[str, Scenario]) -> Iterator[str]:
        for name, scenario in scenarios.items():
            if self._only in name:
                print(f"scenario: {name}", file=sys.stderr, flush=True)
                theirs, ours = (
                    outcomes_of(self._spark, each, scenario, self._servers) for each in ("kafka", self._other)
                )
                self.compared["scenarios"] += 1
                self.compared["runs of scenarios"] += len(theirs)
                yield from (f"{name}: {line}" for line in runs_that_differ(theirs, ours))


def _the_other(source: str, other: str) -> str:
    return other if source == "kafka" else "kafka"


def not_once(batches: list[Batch], *, wanted: int) -> Iterator[str]:
    """A record that came not at all, or twice; a batch that does not begin where the one before it ended."""
    seen = Counter((place, row[4]) for batch in batches for place, rows in batch.rows.items() for row in rows)
    twice = [key for key, count in seen.items() if count > 1]
    if len(seen) != wanted or twice:
        yield f"{len(seen)} records of {wanted}, {len(twice)} more than once"
    for number, (before, behind) in enumerate(pairwise(batches)):
        if before.end != behind.start:
            yield f"batch {number} ends at {before.end}, and the next one begins at {behind.start}"


def streams(found: Set) -> list[Stream]:
    """Those that are compared batch by batch."""
    plain = {"subscribe": found.codecs["zstd"].name, "startingOffsets": "earliest"}
    uneven = {"subscribe": found.uneven.name, "startingOffsets": "earliest"}
    committed = {"kafka.isolation.level": "read_committed", "startingOffsets": "earliest"}
    half = found.codecs["zstd"].offsets(lambda end: end // 2)
    return [
        Stream(name="all at once", options=plain),
        Stream(name="headers", options={**plain, "includeHeaders": "true"}),
        Stream(name="at most 50", options={**plain, "maxOffsetsPerTrigger": "50"}),
        Stream(name="at most 7 of uneven partitions", options={**uneven, "maxOffsetsPerTrigger": "97"}),
        Stream(name="at most the largest number", options={**uneven, "maxOffsetsPerTrigger": str(2**63 - 1)}),
        Stream(name="at most 1", options={**plain, "startingOffsets": found.codecs["zstd"].offsets(lambda e: e - 2),
                                          "maxOffsetsPerTrigger": "1"}),
        Stream(name="at least 60", options={**plain, "minOffsetsPerTrigger": "60", "maxOffsetsPerTrigger": "100"}),
        Stream(name="splits", options={**uneven, "minPartitions": "11", "maxOffsetsPerTrigger": "500"}),
        Stream(name="records of a task", options={**uneven, "maxRecordsPerPartition": "90"}),
        Stream(name="from offsets", options={**plain, "startingOffsets": half, "maxOffsetsPerTrigger": "33"}),
        Stream(name="from a time", options={**plain, "startingTimestamp": "1767225720000"}),
        Stream(name="nothing new", options={**plain, "startingOffsets": "latest"}),
        Stream(name="once", options={**plain, "maxOffsetsPerTrigger": "10"}, trigger="once"),
        Stream(name="transactions", options={"subscribe": found.transactions.name, **committed,
                                             "maxOffsetsPerTrigger": "31"}),
        Stream(name="transactions, uncommitted", options={"subscribe": found.transactions.name,
                                                          "startingOffsets": "earliest",
                                                          "maxOffsetsPerTrigger": "31"}),
        Stream(name="words in capitals", options={"SUBSCRIBE": found.uneven.name, "STARTINGOFFSETS": "Earliest",
                                                  "MAXOFFSETSPERTRIGGER": "200", "INCLUDEHEADERS": "TRUE"}),
        Stream(name="compacted", options={"subscribe": found.compacted.name, "startingOffsets": "earliest",
                                          "maxOffsetsPerTrigger": "100"}),
        Stream(name="assigned", options={"assign": found.codecs["lz4"].assign(), "startingOffsets": "earliest",
                                         "maxOffsetsPerTrigger": "64"}),
    ]  # fmt: skip


def spark_answers(
    against: Annotated[str, typer.Option(help="The source that is compared with Spark's own, kafka.")] = "kwire",
    part: Annotated[list[str] | None, typer.Option(help=f"Only these of {', '.join(PARTS)}; may be repeated.")] = None,
    only: Annotated[str, typer.Option(help="Only cases with this in their name.")] = "",
) -> list[str]:
    """The same options, the same answers: kwire's source beside Spark's own."""
    broken: list[str] = []
    with KafkaCluster() as kafka, spark_session("answers", kafka=True) as spark:
        spark.sparkContext.setLogLevel("OFF")  # what fails here is meant to
        trial = Trial(spark, kafka.bootstrap_servers, against, only)
        for name in part or PARTS:
            if name not in PARTS:
                raise typer.BadParameter(f"{name} is no part; there are {', '.join(PARTS)}")
            for line in getattr(trial, name)():
                print(f"  {name}: {line}", flush=True)
                broken.append(f"{name}: {line}")
            print(f"{name}: {dict(trial.compared)}", flush=True)
    print(f"{trial.rows:,} rows compared in batches; {dict(trial.compared)}")
    return broken
