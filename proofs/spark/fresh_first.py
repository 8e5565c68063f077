"""`scripts/prove spark-fresh-first`: after an outage the newest records come first, and in the end each is there once.

A topic with millions of records that nobody has read, and more of them coming in. `kwire pipeline --fresh-first`
reads it into a table: the first batch has to bring the record that was the newest of each partition when it was
started. While the backfill goes on, all of it is killed (kill -9) and started again, which has to bring the newest
records first as well. In the end each record of the topic has to be in the table, once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.feed import feed
from benchmarks.throughput.measure import WRITER
from benchmarks.throughput.topics import PARTITIONS
from kwire import Consumer
from kwire.testing.kafka import KafkaCluster
from proofs.group import partitions_of
from proofs.spark import tables
from proofs.spark.picture import draw

VALUE_BYTES = 100
BATCH_S = 900.0  # a start of Spark and two batches, on a machine that is busy with much else
DRAIN_S = 1_800.0
FRESH, BACKFILL = 200_000, 800_000
SEED = 4
POLL_INTERVAL_S = 0.2


@dataclass(slots=True)
class Pipeline:
    """`kwire pipeline` as a process, again and again on the same table."""

    servers: str
    topic: str
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    @property
    def table(self) -> Path:
        return self.folder / "table"

    @property
    def metrics(self) -> Path:
        return self.folder / "metrics.jsonl"

    def start(self, *more: str) -> None:
        self.starts += 1
        options = ["-X", f"kwire.freshOffsetsPerTrigger={FRESH}", "-X", f"kwire.backfillOffsetsPerTrigger={BACKFILL}"]
        command = [sys.executable, "-m", "kwire", "pipeline", self.topic, "-b", self.servers, "--fresh-first", *options]
        command += ["--path", str(self.table), "--metrics", str(self.metrics), *more]
        command += ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.memory=2g"]
        with (self.folder / "errors.txt").open("ab") as errors:
            self.process = subprocess.Popen(command, stderr=errors, start_new_session=True)

    def batches(self) -> list[dict[str, object]]:
        """What it has told of its batches, those before it was killed as well."""
        return [json.loads(line) for line in self.metrics.read_text().splitlines()] if self.metrics.exists() else []

    def committed(self) -> int:
        """How many batches are in the table."""
        log = self.table / tables.LOG
        numbers = [int(each.name.split(".")[0]) for each in log.glob("[0-9]*")] if log.exists() else []
        return max(numbers, default=-1) + 1

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """The driver and Spark's JVM at once; its Python workers go with the JVM."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self, number: signal.Signals | None = None) -> int:
        assert self.process is not None
        if number is not None:
            self.process.send_signal(number)
        return self.process.wait(DRAIN_S)


@dataclass(slots=True)
class Story:
    """One run, and what was broken in it."""

    pipeline: Pipeline
    broken: list[str] = field(default_factory=list)

    def begin(self, what: str) -> None:
        """Start it; its first batch has to bring what was the newest record of each partition."""
        before, ends, began_s = self.pipeline.committed(), self.ends(), time.monotonic()
        self.pipeline.start()
        # A batch that was planned before a kill is done as it was planned; the newest are in the one behind it.
        batches = range(before, before + (1 if before == 0 else 2))
        wait_until(lambda: self.pipeline.committed() >= batches.stop or not self.pipeline.is_running(), BATCH_S)
        took_s = time.monotonic() - began_s
        found = self.newest(batches)
        late = {each: end for each, end in ends.items() if found.get(each, -1) < end - 1}
        print(
            f"{what}: batch {batches[-1]} in the table {took_s:.1f} s later, {len(late)} partitions late",
            flush=True,
        )
        if late:
            self.broken.append(
                f"{what}: batches {list(batches)} have not the newest records, which are up to {late}: {found}"
            )

    def newest(self, batches: range) -> dict[int, int]:
        """The highest offset of each partition in some batches."""
        named = [tables.files_of_batch(self.pipeline.table, batch) for batch in batches]
        found = tables.offsets([file for files in named for file in files])
        return {partition: int(numbers[-1]) for partition, numbers in found.items()}

    def ends(self) -> dict[int, int]:
        asking: Consumer[bytes, bytes] = Consumer(bootstrap_servers=self.pipeline.servers)
        with asking:
            found = asking.end_offsets(partitions_of(self.pipeline.topic, PARTITIONS))
        return {tp.partition: end for tp, end in found.items()}

    def is_caught_up(self) -> bool:
        batches = self.pipeline.batches()
        return not self.pipeline.is_running() or bool(batches and not batches[-1]["backfill"])

    def finish(self) -> None:
        """No more records: to the end, and everything once."""
        if self.pipeline.end(signal.SIGTERM) != 128 + signal.SIGTERM:
            self.broken.append("the pipeline did not stop as it was told")
        self.pipeline.start("--exit-at-end")
        if code := self.pipeline.end():
            self.broken.append(f"the last run ended with {code}")
        ends = self.ends()
        audit = tables.audit(tables.offsets(tables.files(self.pipeline.table)), ends)
        print(f"topic {sum(ends.values()):,} records; table {audit}", flush=True)
        if audit.missing or audit.twice or audit.strange:
            self.broken.append(f"the table is not the topic: {audit}")


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Whether it came true in time."""
    until_s = time.monotonic() + timeout_s
    while not (is_true := condition()) and time.monotonic() < until_s:
        time.sleep(POLL_INTERVAL_S)
    return is_true


def spark_fresh_first(
    records: Annotated[int, typer.Option(min=1_000, help="How many records nobody has read.")] = 5_000_000,
    per_second: Annotated[int, typer.Option(min=1, help="How many come in meanwhile.")] = 1_000,
    kills: Annotated[int, typer.Option(min=0, help="How often it is killed while it works off the backfill.")] = 2,
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw its progress there, as an SVG.")] = None,
) -> Sequence[str]:
    """After an outage the newest records come first, and in the end each is there once."""
    with KafkaCluster() as cluster, tempfile.TemporaryDirectory(prefix="kwire-prove-") as name:
        servers, topic = cluster.bootstrap_servers, "lag"
        fill = [sys.executable, str(WRITER), servers, topic, "plain"]
        subprocess.run([*fill, str(records)], check=True, stdout=subprocess.DEVNULL)
        pipeline = Pipeline(servers, topic, Path(name))
        story = Story(pipeline)
        try:
            with feed(servers, topic, partitions=PARTITIONS, per_second=per_second, value_bytes=VALUE_BYTES):
                _through_the_backfill(story, kills)
            if pipeline.is_running():
                story.finish()
        finally:
            if pipeline.is_running():
                pipeline.kill()
        if picture is not None and pipeline.batches():
            draw(pipeline.batches(), picture)
        if story.broken:
            print((Path(name) / "errors.txt").read_text()[-2_000:])
        return story.broken


def _through_the_backfill(story: Story, kills: int) -> None:
    chance, pipeline = random.Random(SEED), story.pipeline
    story.begin("first start")
    for number in range(kills):
        time.sleep(chance.uniform(0.0, 3.0))
        pipeline.kill()
        story.begin(f"start after kill {number + 1}")
    if not wait_until(story.is_caught_up, DRAIN_S) or not pipeline.is_running():
        story.broken.append(f"the backfill was not done within {DRAIN_S:.0f} s, or the pipeline failed")
    batches = pipeline.batches()
    if batches:
        took = sum(int(str(each["took_ms"])) for each in batches) / 1000
        rows = sum(int(str(each["rows"])) for each in batches)
        print(f"{len(batches)} batches told, {rows:,} rows in {took:.1f} s of batches", flush=True)
