"""`scripts/prove spark-kills`: a streaming job writes a topic to a table, and is killed again and again; in the end
each record is there once.

Killed are, at random moments, the driver with its JVM, and the Python processes below it, which read from Kafka. A
driver that has ended, by whatever, is started again, as a supervisor would. Records are written all the while.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer
from confluent_kafka import Producer

from benchmarks.spark import descendants
from kwire.testing.kafka import ClusterError, KafkaCluster
from proofs.group import make_topic
from proofs.spark.kills_job import BATCH
from tools.environment import TOP

if TYPE_CHECKING:
    from collections.abc import Iterator

JOB = (sys.executable, "-m", "proofs.spark.kills_job")
PARTITIONS = 4
PER_SECOND = 4_000
BACKLOG = 10 * BATCH
PATIENCE_S = 600.0
MAX_WAIT_S = 2.5
KINDS = ("driver", "worker")


class Traffic:
    """Writes records whose value says where they are: what is in the table can be checked against itself.

    Args:
        backlog: how many are there before the others come.
        settings: of the producer, beside its own.
    """

    def __init__(
        self, servers: str, topic: str, *, backlog: int = BACKLOG, per_second: int = PER_SECOND, **settings: str | int
    ) -> None:
        fixed = {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20, "log_level": 0}
        self._producer = Producer({**fixed, **settings})
        self._topic = topic
        self._backlog = backlog
        self._per_second = per_second
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._write, name="traffic")
        self.ends = [0] * PARTITIONS

    def start(self) -> None:
        for _ in range(self._backlog // PARTITIONS):
            self._write_one_to_each()
        self._producer.flush(PATIENCE_S)
        self._thread.start()

    def stop(self) -> None:
        """When this returns, all that was written is acknowledged."""
        self._enough.set()
        self._thread.join()
        if left := self._producer.flush(PATIENCE_S):
            raise ClusterError(f"{left} records were not acknowledged")

    def _write(self) -> None:
        began_s, before = time.monotonic(), self.ends[0]
        while not self._enough.wait(0.02):
            while (self.ends[0] - before) * PARTITIONS < (time.monotonic() - began_s) * self._per_second:
                self._write_one_to_each()
            self._producer.poll(0)

    def _write_one_to_each(self) -> None:
        for partition in range(PARTITIONS):
            value = b"%d:%d" % (partition, self.ends[partition])
            while True:
                try:
                    self._producer.produce(self._topic, value, partition=partition)
                    break
                except BufferError:
                    self._producer.poll(0.1)
            self.ends[partition] += 1


class Job:
    """The driver's process, started again whenever it has ended."""

    def __init__(self, source: str, servers: str, topic: str, directory: Path) -> None:
        self._arguments = [source, servers, topic, str(directory)]
        self.directory = directory
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._log = (directory / "log").open("ab")

    def ensure(self) -> None:
        """It runs, or is just starting."""
        if self._process is None or self._process.poll() is not None:
            (self.directory / "jvm").unlink(missing_ok=True)
            self.starts += 1
            command = [*JOB, "run", *self._arguments]
            self._process = subprocess.Popen(command, cwd=TOP, stdout=self._log, stderr=self._log)

    @property
    def jvm(self) -> int | None:
        try:
            return int((self.directory / "jvm").read_text())
        except (OSError, ValueError):
            return None

    @property
    def committed(self) -> int:
        """How many batches are through."""
        commits = self.directory / "checkpoint" / "commits"
        return sum(1 for name in commits.glob("[0-9]*")) if commits.exists() else 0

    @property
    def is_in_a_batch(self) -> bool:
        offsets = self.directory / "checkpoint" / "offsets"
        return offsets.exists() and sum(1 for name in offsets.glob("[0-9]*")) > self.committed

    def kill_driver(self) -> bool:
        """With its JVM, and what hangs on that; whether it was there."""
        jvm = self.jvm
        if self._process is None or jvm is None or self._process.poll() is not None:
            return False
        below = descendants(jvm)
        for pid in (self._process.pid, jvm, *below):
            kill(pid)
        self._process.wait()
        return True

    def kill_worker(self, chance: Random) -> bool:
        """One of the Python processes below the JVM."""
        below = descendants(self.jvm) if self.jvm is not None else []
        workers = [pid for pid in below if is_worker(pid)]
        return bool(workers) and kill(chance.choice(workers))

    def finish(self, task: str) -> str:
        """Runs another task to its end, and answers what that says."""
        command = [*JOB, task, *self._arguments]
        done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"{task} failed: {(done.stderr.strip().splitlines() or ['nothing'])[-1]}")
        return done.stdout

    def end(self) -> None:
        self.kill_driver()
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._log.close()


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def is_worker(pid: int) -> bool:
    """Whether it is a Python process of Spark's: the daemon, one it has forked, or one that plans or streams."""
    try:
        return b"pyspark" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def kill_often(job: Job, chance: Random, kills: int) -> Iterator[str]:
    """Each kill in a word: what, and whether a batch was under way. The first ones do not wait for a batch to end, so
    that the first batch is killed, too."""
    for number in range(kills):
        wait_for_work(job, is_first=number < len(KINDS))
        time.sleep(chance.random() * MAX_WAIT_S)
        kind = KINDS[number % len(KINDS)]
        yield f"{kind} {strike(job, kind, chance)}"


def strike(job: Job, kind: str, chance: Random) -> str:
    """Kills one, as soon as there is one; whether in a batch."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        where = "in a batch" if job.is_in_a_batch else "between batches"
        if job.kill_driver() if kind == "driver" else job.kill_worker(chance):
            return where
        if time.monotonic() > until_s:
            raise ClusterError(f"no {kind} to kill in {PATIENCE_S:.0f} s; the driver's log is in {job.directory}")
        time.sleep(0.1)
        job.ensure()


def wait_for_work(job: Job, *, is_first: bool) -> None:
    """Until a batch has begun, or, later on, one more has come to its end. Starts the driver if it does not run."""
    before, until_s = job.committed, time.monotonic() + PATIENCE_S
    while True:
        job.ensure()
        if job.jvm is not None and (job.is_in_a_batch if is_first else job.committed > before):
            return
        if time.monotonic() > until_s:
            raise ClusterError(f"no progress in {PATIENCE_S:.0f} s; the driver's log is in {job.directory}")
        time.sleep(0.1)


def spark_kills(
    kills: Annotated[int, typer.Option(min=1, help="How many.")] = 20,
    seed: Annotated[int, typer.Option(help="Of the moments.")] = 1,
    source: Annotated[str, typer.Option(help="Whose stream it is: kwire, or Spark's own kafka.")] = "kwire",
) -> list[str]:
    """A streaming job into Parquet, killed twenty times: each record exactly once."""
    directory = Path(tempfile.mkdtemp(prefix="kwire-kills-"))
    topic = f"kills-{uuid4().hex[:8]}"
    with KafkaCluster() as kafka:
        make_topic(kafka.bootstrap_servers, topic, PARTITIONS)
        traffic, job = Traffic(kafka.bootstrap_servers, topic), Job(source, kafka.bootstrap_servers, topic, directory)
        traffic.start()
        struck = Counter[str]()
        try:
            for word in kill_often(job, Random(seed), kills):
                struck[word] += 1
                print(f"  killed {word}; {job.committed} batches are through", flush=True)
        finally:
            traffic.stop()
            job.end()
        job.finish("drain")
        found = json.loads(job.finish("count").strip().splitlines()[-1])
    print(f"{dict(struck)}; the driver was started {job.starts} times; {job.committed} batches")
    broken = list(judged(found, traffic.ends))
    print(f"{sum(traffic.ends):,} records were written, {sum(one[0] for one in found.values()):,} are in the table")
    if not broken:
        shutil.rmtree(directory, ignore_errors=True)
    return broken


def judged(found: dict[str, list[int]], ends: list[int]) -> Iterator[str]:
    """Partition by partition: how many records there are, how many different ones, from where to where."""
    for partition, end in enumerate(ends):
        records, different, least, most, wrong = found.get(str(partition), [0, 0, -1, -1, 0])
        if different < records:
            yield f"partition {partition}: {records - different:,} records are there more than once"
        if different < end:
            yield f"partition {partition}: {end - different:,} of {end:,} records are missing"
        if different and (least, most) != (0, end - 1):
            yield f"partition {partition}: offsets {least} to {most}, instead of 0 to {end - 1}"
        if wrong:
            yield f"partition {partition}: {wrong:,} records are not what was written"
