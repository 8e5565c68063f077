"""`scripts/bench spark`: how fast Spark reads a topic through kwire's source, and through its own.

One session, one broker, all on this machine. Both sources take part as they are, and tuned: Spark's with larger polls
and fetches, kwire with one task for each of the two cores. Each query is run once by everybody without being timed, for
the JVM and the workers get faster; then in turns. A source that reads anything else than what was written has failed.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from benchmarks.throughput.measure import BROKER_OPTIONS, written
from benchmarks.throughput.topics import CASES
from benchmarks.throughput.turn import WrongAnswerError
from benchmarks.turns import OWN, Figures, Target, take_turns
from kwire.testing.kafka import KafkaCluster
from tools.spark_sessions import spark_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.throughput.topics import Content
    from benchmarks.turns import Turn

TOPICS = {"w100": CASES["plain"], "w1k": CASES["lz4"], "wkh": CASES["zstd"]}
DEFAULT, TUNED, OWN_TUNED = "kafka", "kafka, tuned", f"{OWN}, tuned"
TUNED_OPTIONS = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "kafka.receive.buffer.bytes": str(1024 * 1024),
}
PARTICIPANTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    OWN: ("kwire", {}),
    OWN_TUNED: ("kwire", {"kwire.rangesPerTask": "2"}),
    DEFAULT: ("kafka", {}),
    TUNED: ("kafka", TUNED_OPTIONS),
}
RATE = "million_records_per_s"
STREAM_TIMEOUT_S = 300
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# What has to be reached, of the rate of Spark's source as it is, and tuned.
WANTED = {"w100": (2.0, 1.5), "w1k": (2.0, 1.5), "wkh": (1.2, None)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One source's way to a topic."""

    spark: SparkSession
    source: str
    options: Mapping[str, str]
    content: Content

    def to_nothing(self) -> None:
        """Every column of every record, into a sink that throws them away."""
        self._batch().write.format("noop").mode("overwrite").save()

    def to_a_sum(self) -> None:
        """How many records, and how many bytes of keys and values."""
        size = sf.coalesce(sf.length("value"), sf.lit(0)) + sf.coalesce(sf.length("key"), sf.lit(0))
        row = self._batch().agg(sf.count("*"), sf.sum(size), sf.sum("offset")).first()
        found, wanted = tuple(row or ()), (self.content.records, self.content.size_bytes, self.content.offsets)
        if found != wanted:
            raise WrongAnswerError(f"{self.source} read {found}, instead of {wanted}")

    def as_a_stream(self) -> None:
        """All there is, in one micro-batch, into a sink that throws it away."""
        checkpoint = tempfile.mkdtemp(prefix="kwire-bench-")
        reader = self.spark.readStream.format(self.source).options(**dict(self.options))
        writer = reader.option("startingOffsets", "earliest").load().writeStream.format("noop")
        query = writer.trigger(availableNow=True).option("checkpointLocation", checkpoint).start()
        try:
            if not query.awaitTermination(STREAM_TIMEOUT_S):
                raise WrongAnswerError(f"{self.source}: a stream is not through after {STREAM_TIMEOUT_S} s")
        finally:
            query.stop()
            shutil.rmtree(checkpoint, ignore_errors=True)
        read = sum(progress["numInputRows"] for progress in query.recentProgress)
        if read != self.content.records:
            raise WrongAnswerError(f"{self.source} streamed {read:,} records, instead of {self.content.records:,}")

    def _batch(self) -> DataFrame:
        return self.spark.read.format(self.source).options(**dict(self.options)).load()


QUERIES: Mapping[str, Callable[[Read], None]] = {
    "noop": Read.to_nothing,
    "aggregate": Read.to_a_sum,
    "stream": Read.as_a_stream,
}


def targets(topics: Sequence[str], queries: Sequence[str]) -> list[Target]:
    """Those of the cases that are measured."""
    found: list[Target] = []
    for topic in topics:
        for query in queries:
            for peer, limit in zip((DEFAULT, TUNED), WANTED[topic], strict=True):
                if limit is not None:
                    case = f"{topic} {query}"
                    found.append(Target(case=case, figure=RATE, limit=limit, to=peer, at_least=True))
    return found


def run(
    *,
    rounds: int,
    scale: float,
    topics: Sequence[str],
    queries: Sequence[str],
    participants: Sequence[str] = tuple(PARTICIPANTS),
    lean: bool = False,
    settings: Mapping[str, str] | None = None,
) -> list[Figures]:
    """Measure.

    Args:
        rounds: how often each has its turn.
        scale: what part of each topic is written.
        topics: of `TOPICS`.
        queries: of `QUERIES`.
        participants: of `PARTICIPANTS`.
        lean: whether Spark's Python processes start and talk as docs/spark.md advises.
        settings: further ones of the session.

    Raises:
        ClusterError: there is no broker, or there are no jars.
        WrongAnswerError: a source has not read what was written.
    """
    results: list[Figures] = []
    session = partial(spark_session, "bench", memory="6g", kafka=True, lean=lean, settings=settings)
    with KafkaCluster(jvm_options=BROKER_OPTIONS) as kafka, session() as spark:
        for name in topics:
            case = TOPICS[name]
            content = written(case, kafka.bootstrap_servers, f"bench-{name}", case.scaled(scale))
            place = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": f"bench-{name}"}
            reads = {
                who: Read(spark=spark, source=source, options={**place, **options}, content=content)
                for who, (source, options) in PARTICIPANTS.items()
                if who in participants
            }
            for query in queries:
                turns: dict[str, Turn] = {who: partial(take, read, QUERIES[query]) for who, read in reads.items()}
                for turn in turns.values():
                    turn()
                results += take_turns(f"{name} {query}", rounds, turns)
    return results


def take(read: Read, query: Callable[[Read], None]) -> dict[str, float]:
    """One turn: the rate, the time, and the processor time of the JVM and of Spark's Python workers."""
    jvm = read.spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # started by this process
    cpu_before_s, began_s = cpu_s_of(jvm), time.monotonic()
    query(read)
    wall_s = time.monotonic() - began_s
    rate = read.content.records / wall_s / 1e6
    return {RATE: rate, "wall_s": wall_s, "cpu_s": cpu_s_of(jvm) - cpu_before_s}


def cpu_s_of(pid: int) -> float:
    """What a process has used, and all below it, those that have ended included."""
    tops = [pid, *_servers_of(pid)]
    family = [one for top in tops for one in (top, *descendants(top))]
    return sum(ticks for one in family if (ticks := _ticks(one)) is not None) * TICK_S


def _servers_of(pid: int) -> list[int]:
    """Those of `kwire-spark-python`, which forks for it without being below it."""
    named = f"pyspark_kwire.server\0[0-9]+\0{pid}\0"
    return [int(one.name) for one in Path("/proc").glob("[0-9]*") if re.search(named, _command_line(one))]


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_text()
    except OSError:
        return ""


def descendants(pid: int) -> list[int]:
    """All processes below one, as far as they run now."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))) is not None:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = list[int](), [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _ticks(pid: int) -> int | None:
    """Of the process and its ended children."""
    fields = _stat(pid)
    return None if fields is None else sum(map(int, fields[11:15]))


def _stat(pid: int) -> list[str] | None:
    """What the system says of a process, from its state on; None if it is gone."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
