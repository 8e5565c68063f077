"""`scripts/prove spark-outages`: the only broker goes away in the middle of a task, for longer than a task waits for it
or for less; each record is in the table once all the same, and a broker that never comes back is named in time.

A stream and batches into Parquet, over a proxy that lets little through, so that a task takes seconds and there is a
middle to strike in. A broker is killed and started again, frozen, or parted from its clients. kwire waits for it; when
`kafkaConsumer.pollTimeoutMs` is over it gives up, and Spark tries the task again.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from threading import Thread
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer
from pyspark.errors import PySparkException

from kwire import Consumer, TopicPartition
from kwire.testing.faults.proxies.chain import ProxiedBrokers
from kwire.testing.faults.proxies.tamperings import Refuse
from kwire.testing.faults.proxies.toxics import Bandwidth
from kwire.testing.kafka import ClusterError, KafkaCluster
from kwire.testing.kafka.jars import cache_dir
from proofs.group import make_topic
from proofs.spark.kills import PARTITIONS, PATIENCE_S, Traffic, judged
from proofs.spark.kills_job import table_counts
from tools.spark_sessions import spark_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import SparkStageInfo
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

KINDS = ("kill", "freeze", "part")
BATCH = 20_000  # records of a micro-batch
BACKLOG = 3 * BATCH
PER_SECOND = 500
LIMIT = Bandwidth(rate_kb_per_s=20)  # for each connection: some 750 records a second
FETCH_BYTES = 16_384  # so that a task has handed over some records before it is struck
PATIENCE_OF_A_TASK_S = 12.0
ATTEMPTS = 6  # of a task: as many times its patience are longer than any outage
MIN_S, MAX_S = 5.0, 40.0
INTO_A_TASK_S = 2.5
POLL_INTERVAL_S = 0.05
NEVER_S = 5.0  # the patience of tasks whose broker does not come back
SLACK_S = 4.0  # Spark starts a Python process for each attempt, on a busy machine


@dataclass(slots=True)
class Scene:
    """What is struck, and by whom it is read.

    Args:
        source: `kwire`, or Spark's own `kafka`.
        folder: for tables and checkpoints.
        struck: how often by what, and what came of it.
    """

    spark: SparkSession
    kafka: KafkaCluster
    proxies: ProxiedBrokers
    topic: str
    source: str
    folder: Path
    struck: Counter[str] = field(default_factory=Counter)

    def options(self, patience_s: float = PATIENCE_OF_A_TASK_S, **topics: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.proxies.bootstrap_servers,
            **(topics or {"subscribe": self.topic}),
            "startingOffsets": "earliest",
            "kafka.max.partition.fetch.bytes": str(FETCH_BYTES),
            "kafkaConsumer.pollTimeoutMs": str(int(patience_s * 1000)),
        }

    @property
    def active_tasks(self) -> int:
        return sum(info.numActiveTasks for info in self._stages())

    @property
    def failed_tasks(self) -> int:
        """Of the stages that run now."""
        return sum(info.numFailedTasks for info in self._stages())

    def _stages(self) -> list[SparkStageInfo]:
        tracker = self.spark.sparkContext.statusTracker()
        found = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
        return [info for info in found if info is not None]

    @contextmanager
    def outage(self, kind: str) -> Iterator[None]:
        """No broker as long as the block lasts."""
        proxy, refuse = self.proxies[0], Refuse()
        if kind == "kill":
            proxy.tamper(refuse)
            self.kafka.kill_broker(0)
            proxy.hang_up(abruptly=True)
        elif kind == "freeze":
            self.kafka.pause_broker(0)
        else:
            proxy.cut_off()
        yield
        if kind == "kill":
            self.kafka.start_broker(0)
            proxy.lift(refuse)
        elif kind == "freeze":
            self.kafka.resume_broker(0)
        else:
            proxy.heal()
            proxy.toxics(LIMIT)

    @property
    def batches_through(self) -> int:
        """Of the stream."""
        commits = self.folder / "checkpoint" / "commits"
        return sum(1 for _ in commits.glob("[0-9]*")) if commits.exists() else 0

    def is_past(self, batches: int, query: StreamingQuery) -> bool:
        """Or never will be."""
        return self.batches_through > batches or not query.isActive

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > until_s:
                raise ClusterError(f"no {what} in {PATIENCE_S:.0f} s")
            time.sleep(POLL_INTERVAL_S)

    def strike(self, kind: str, chance: Random, ended: Callable[[], bool]) -> None:
        """In the middle of a task: an outage of some length. Whether tasks failed of it is noted."""
        self.wait_for(lambda: self.active_tasks > 0 or ended(), "a task")
        if ended():
            return
        time.sleep(chance.random() * INTO_A_TASK_S)
        lasts_s = chance.uniform(MIN_S, MAX_S)
        where = "in a task" if self.active_tasks else "between tasks"
        before, failed, end_s = self.failed_tasks, 0, time.monotonic() + lasts_s
        with self.outage(kind):
            while time.monotonic() < end_s:
                failed = max(failed, self.failed_tasks - before)
                time.sleep(POLL_INTERVAL_S)
        what = "Spark tried again" if failed else "waited out"
        self.struck[f"{kind} {where}, {what}"] += 1
        print(f"  {kind} for {lasts_s:4.1f} s {where}: {failed} tasks failed", flush=True)


def through_a_stream(scene: Scene, chance: Random, kinds: list[str]) -> Iterator[str]:
    """A streaming query that is struck again and again, and never ends by it."""
    traffic = Traffic(
        scene.kafka.direct_servers, scene.topic, backlog=BACKLOG, per_second=PER_SECOND, **{"batch.num.messages": 100}
    )
    traffic.start()
    table = scene.folder / "stream"
    scene.proxies[0].toxics(LIMIT)
    frame = scene.spark.readStream.format(scene.source).options(**scene.options(), maxOffsetsPerTrigger=str(BATCH))
    writer = frame.load().select("partition", "offset", "value").writeStream.format("parquet")
    query = writer.option("checkpointLocation", str(scene.folder / "checkpoint")).start(str(table))
    try:
        for kind in kinds:
            # A task that is struck in every attempt would fail for good.
            before = scene.batches_through
            scene.strike(kind, chance, lambda: not query.isActive)
            scene.wait_for(partial(scene.is_past, before, query), "a batch")
    finally:
        scene.proxies.heal()
        traffic.stop()
    if failure := drained(query):
        yield failure
        return
    query.stop()
    print(f"{sum(traffic.ends):,} records were written while a stream read them", flush=True)
    yield from (f"stream, {line}" for line in judged(table_counts(scene.spark, table), traffic.ends))


def drained(query: StreamingQuery) -> str:
    """To the end of what there is; why not, if it has failed."""
    try:
        query.processAllAvailable()
    except PySparkException as error:
        return f"the stream has ended: {str(error)[:1000]}"
    return ""


def through_batches(scene: Scene, chance: Random, kinds: list[str]) -> Iterator[str]:
    """Each batch is struck once."""
    ends = [end_of(scene, partition) for partition in range(PARTITIONS)]
    for number, kind in enumerate(kinds):
        scene.proxies[0].toxics(LIMIT)
        table = scene.folder / f"batch-{number}"
        job = InThread(partial(columns(scene).write.parquet, str(table)))
        job.start()
        try:
            scene.strike(kind, chance, job.has_ended)
        finally:
            scene.proxies.heal()
            job.join()
        if job.error is not None:
            yield f"batch {number}, {kind}: {str(job.error)[:500]}"
            continue
        yield from (f"batch {number}, {kind}: {line}" for line in judged(table_counts(scene.spark, table), ends))


def columns(scene: Scene, **options: str) -> DataFrame:
    frame = scene.spark.read.format(scene.source).options(**(options or scene.options())).load()
    return frame.select("partition", "offset", "value")


def end_of(scene: Scene, partition: int) -> int:
    consumer: Consumer[bytes, bytes] = Consumer(bootstrap_servers=scene.kafka.direct_servers)
    with consumer:
        tp = TopicPartition(scene.topic, partition)
        return consumer.end_offsets([tp])[tp]


class InThread(Thread):
    """Something that may fail."""

    def __init__(self, task: Callable[[], object]) -> None:
        super().__init__(name="job")
        self._task = task
        self.error: Exception | None = None
        self.ended_s = 0.0

    def has_ended(self) -> bool:
        return not self.is_alive()

    def run(self) -> None:
        try:
            self._task()
        except Exception as error:  # noqa: BLE001  whatever it is, the thread that waits for it tells it
            self.error = error
        self.ended_s = time.monotonic()


def never_back(scene: Scene, kind: str) -> Iterator[str]:
    """The broker stays away: how long until the job says so, and what it says. It has one task, so that there is one
    attempt after the other."""
    scene.proxies[0].toxics(LIMIT)
    one = scene.options(NEVER_S, assign=json.dumps({scene.topic: [0]}))
    job = InThread(columns(scene, **one).write.format("noop").mode("overwrite").save)
    job.start()
    while not scene.active_tasks:
        time.sleep(POLL_INTERVAL_S)
    time.sleep(1.0)
    with scene.outage(kind):
        struck_s = time.monotonic()
        job.join(PATIENCE_S)
    scene.proxies.heal()
    took_s = (job.ended_s or time.monotonic()) - struck_s
    said = str(job.error)
    yield from named(said, kind, scene.topic, scene.proxies.bootstrap_servers)
    per_attempt_s = took_s / ATTEMPTS
    line = next((line for line in said.splitlines() if "Cannot fetch record" in line), said[:300])
    told = f"{ATTEMPTS} attempts, {per_attempt_s:.1f} s for each"
    print(f"  {kind} for ever: the job failed {took_s:.1f} s later, after {told}")
    print(f"    {line.strip()}", flush=True)
    if per_attempt_s > NEVER_S + SLACK_S:
        yield f"{kind} for ever: {per_attempt_s:.1f} s for each attempt, and {NEVER_S:.0f} s were to be waited"


def named(said: str, kind: str, topic: str, broker: str) -> Iterator[str]:
    """What the error of a task has to name."""
    for what, pattern in {
        "offset and partition": rf"{re.escape(topic)}-\d at (\d+|its beginning|its end)",
        "broker": re.escape(broker),
        "time": rf"in {NEVER_S * 1000:.0f} milliseconds",
    }.items():
        if not re.search(pattern, said):
            yield f"{kind} for ever: the error does not name the {what}: {said[:500]}"


def spark_outages(
    outages: Annotated[int, typer.Option(min=1, help="How many strike the stream.")] = 9,
    batches: Annotated[int, typer.Option(min=0, help="How many batches are struck, once each.")] = 6,
    seed: Annotated[int, typer.Option(help="Of the moments and their lengths.")] = 1,
    source: Annotated[str, typer.Option(help="Whose tasks: kwire's, or those of Spark's own kafka.")] = "kwire",
) -> list[str]:
    """Outages in the middle of tasks: each record exactly once, and what never comes back is named in time."""
    chance, topic = Random(seed), f"outages-{uuid4().hex[:8]}"
    broken: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="kwire-outages-"))
    with (
        ProxiedBrokers(1, cache=cache_dir()) as proxies,
        KafkaCluster(advertised=proxies.addresses) as kafka,
        spark_session("outages", attempts=ATTEMPTS, memory="1g", kafka=source == "kafka") as spark,
    ):
        spark.sparkContext.setLogLevel("OFF")  # what fails here is meant to
        proxies.lead_to(kafka.client_addresses)
        make_topic(kafka.direct_servers, topic, PARTITIONS)
        scene = Scene(spark, kafka, proxies, topic, source, folder)
        broken += through_a_stream(scene, chance, kinds_of(outages))
        broken += through_batches(scene, chance, kinds_of(batches))
        for kind in KINDS:
            broken += never_back(scene, kind)
    print(f"{outages} outages of a stream, {batches} of batches: {dict(sorted(scene.struck.items()))}")
    if not broken:
        shutil.rmtree(folder, ignore_errors=True)
    return broken


def kinds_of(number: int) -> list[str]:
    return [KINDS[each % len(KINDS)] for each in range(number)]
