"""Runs the cells of `scripts/prove losses` whose ways read with Spark.

Spark takes long to start, so that programs are run in a process that has a session already. A program that ended that
process, or that is about how a process ends, gets another one.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pyarrow.parquet as pq

from benchmarks.spark import descendants
from proofs.losses.cell import Cell
from proofs.losses.faults import Fault
from proofs.losses.judge import Judge, Outcome
from proofs.losses.pipeline import has_process, run_process
from proofs.losses.spark import checkpoint, done, table
from proofs.losses.spark_host import OVER
from proofs.losses.ways import Way
from proofs.spark.kills import kill
from proofs.spark.tables import LOG, files
from tools.environment import TOP

MAX_LIVES = 4


class Host:
    """The process with the session; started when there is something for it to do."""

    def __init__(self, directory: Path) -> None:
        self._log = (directory / "spark-log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    def live(self, cell: Cell, deadline_s: float) -> None:
        """Until the life is over, or the process, or the time."""
        process = self._ready()
        assert process.stdin is not None
        process.stdin.write(f"{cell.to_json()}\n".encode())
        process.stdin.flush()
        if not self._is_over(process, deadline_s):
            self.end()
            cell.note("told", "(the program did not end, and was killed)")

    def _ready(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "proofs.losses.spark_host"],
                cwd=TOP,
                env={**os.environ, "PYTHONPATH": str(TOP)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,
            )
        return self._process

    def _is_over(self, process: subprocess.Popen[bytes], deadline_s: float) -> bool:
        assert process.stdout is not None
        while (left_s := deadline_s - time.monotonic()) > 0:
            if select.select([process.stdout], [], [], left_s)[0]:
                line = process.stdout.readline()
                if not line:
                    process.wait()
                    return True
                if line.decode().strip() == OVER:
                    return True
        return False

    def end(self) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        for each in (*descendants(self._process.pid), self._process.pid):
            kill(each)
        self._process.wait()


class SparkJudge(Judge):
    """A judge with a host. Use it with `with`."""

    patience_s = 150.0

    def __init__(self, bootstrap_servers: str, kafka_directory: Path, directory: Path) -> None:
        super().__init__(bootstrap_servers, kafka_directory, directory)
        self._host = Host(directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc_info: object) -> None:
        self._host.end()

    def _begin(self, cell: Cell, offset: int) -> int:
        """A position can be lost when there is one: the program has read so far."""
        if offset:
            self._produce(cell.topic, Fault(cell.fault), range(offset))
            self._live(cell, time.monotonic() + self.patience_s)
        return offset

    def _live_on(self, cell: Cell, outcome: Outcome, deadline_s: float) -> bool:
        while not self._has_committed_all(cell):
            if outcome.lives == MAX_LIVES or time.monotonic() > deadline_s:
                return False
            outcome.lives += 1
            self._live(cell, deadline_s)
        return True

    def _live(self, cell: Cell, deadline_s: float) -> None:
        if has_process(cell):
            run_process(cell, deadline_s)
        else:
            self._host.live(cell, deadline_s)

    def _committed(self, cell: Cell) -> dict[int, int]:
        return done(cell) if Way(cell.way) is Way.SPARK_BATCH else committed_by_stream(cell)

    def _count(self, cell: Cell, outcome: Outcome) -> None:
        for kind, partition, offset in rows_of_table(cell):
            cell.note(kind, f"{partition} {offset}")
            if outcome.way is Way.PIPELINE:  # no code of the user's saw them
                cell.delivered(partition, offset)
        super()._count(cell, outcome)


def committed_by_stream(cell: Cell) -> dict[int, int]:
    """What the last batch that is through covers."""
    commits = [int(path.name) for path in (checkpoint(cell) / "commits").glob("[0-9]*")]
    if not commits:
        return {}
    lines = (checkpoint(cell) / "offsets" / str(max(commits))).read_text().splitlines()
    return {int(partition): offset for partition, offset in json.loads(lines[-1])[cell.topic].items()}


def rows_of_table(cell: Cell) -> Iterator[tuple[str, int, int]]:
    """Whether a row was handled, or kept as bad, and where its record was."""
    if not table(cell).exists():
        return
    paths = files(table(cell)) if (table(cell) / LOG).exists() else sorted(table(cell).glob("job-*/*.parquet"))
    for path in paths:
        for row in pq.ParquetFile(path).read().to_pylist():
            if "is_handled" in row:
                yield "handled" if row["is_handled"] else "buried", row["partition"], row["offset"]
            else:
                kind = "handled" if row["place"] is not None else "buried"
                yield kind, row["kafka_partition"], row["kafka_offset"]
