"""`kwire pipeline` as a way to read of `scripts/prove losses`: into a table, and through a function.

Where a fault is about the process it is one of its own; else the command runs in a process that has a Spark session
already, which it uses.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from benchmarks.spark import descendants
from kwire.cli.commands import app
from proofs.losses.cell import PARTITIONS, TARGET, Cell
from proofs.losses.faults import Fault, Handle
from proofs.losses.spark import JVM_OPTIONS, PER_JOB, QUICK_START, checkpoint, loss_options, obey, table
from proofs.losses.ways import Way
from proofs.spark.kills import is_worker, kill
from tools.environment import TOP
from tools.spark_sessions import IMPORT_PATH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CELL = "KWIRE_LOSSES_CELL"
FUNCTION = "proofs.losses.pipeline:store"
OF_A_PROCESS = {Fault.SIGTERM, Fault.SIGINT_HANDLER, Fault.WORKER_KILLED, Fault.JVM_KILLED}
SMALL_BATCH = 10  # offsets: a fault from outside strikes in the middle of many batches
BATCHES_BEFORE = 2
POLL_INTERVAL_S = 0.1


def store(rows: DataFrame, _batch: int) -> None:
    """The function of `--to function`, called in the driver with each batch."""
    cell = Cell.from_json(os.environ[CELL])
    handle = Handle(cell, os.getpid())
    found = rows.select("kafka_partition", "kafka_offset", "place", "kafka_bad_value").collect()
    for partition, offset, place, bad in found:
        cell.delivered(partition, offset)
        if bad is not None or (cell.has("skip-failure") and tuple(place) == TARGET):
            cell.note("buried", f"{partition} {offset}")
        else:
            handle.of_place(partition, offset)


def has_process(cell: Cell) -> bool:
    """Whether this life is a process of its own. What comes after the fault needs none."""
    return Way(cell.way).is_pipeline and Fault(cell.fault) in OF_A_PROCESS and not cell.has("struck")


def arguments(cell: Cell) -> list[str]:
    """What the user has written, and what an error has told to add."""
    found = ["pipeline", cell.topic, "-b", cell.servers, "--exit-at-end", "--checkpoint", str(checkpoint(cell))]
    found += ["--value-format", "json", "--value-schema", "place ARRAY<INT>, filling STRING"]
    found += [*_of_session(), *_of_source(cell)]
    if Way(cell.way) is Way.PIPELINE_FUNCTION:
        return [*found, "--to", "function", "--function", FUNCTION, "--on-bad", "keep"]
    return [*found, "--path", str(table(cell)), "--on-bad", "keep" if cell.has("skip-failure") else "fail"]


def _of_session() -> list[str]:
    settings = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", JVM_OPTIONS: QUICK_START}
    return ["--master", "local[2]", *chain.from_iterable(("--conf", f"{name}={settings[name]}") for name in settings)]


def _of_source(cell: Cell) -> list[str]:
    size = SMALL_BATCH if has_process(cell) else PARTITIONS * PER_JOB
    options = {**loss_options(cell), "maxOffsetsPerTrigger": str(size)}
    return list(chain.from_iterable(("-X", f"{name}={value}") for name, value in options.items()))


def run_here(cell: Cell) -> None:
    """One life, in this process and its session."""
    os.environ[CELL] = cell.to_json()
    ended = CliRunner().invoke(app, arguments(cell))
    tell(cell, ended.exit_code, ended.stderr)


# --- a process of its own -----------------------------------------------------------------------------------------


def run_process(cell: Cell, deadline_s: float) -> None:
    """One life. As in a terminal, Ctrl-C reaches all processes of the group."""
    command = [str(Path(sys.executable).with_name("kwire")), *arguments(cell)]
    environment = {**os.environ, CELL: cell.to_json(), "PYTHONPATH": IMPORT_PATH, "PYSPARK_PYTHON": sys.executable}
    with cell.path("stderr-of-pipeline").open("w+") as errors:
        process = subprocess.Popen(
            command, cwd=TOP, env=environment, stdout=errors, stderr=errors, start_new_session=True
        )
        while process.poll() is None and time.monotonic() < deadline_s:
            time.sleep(POLL_INTERVAL_S)
            note_jvm(cell, process.pid)
            strike_from_outside(cell, process.pid)
        end(cell, process)
        errors.seek(0)
        tell(cell, process.returncode, errors.read())


def note_jvm(cell: Cell, pid: int) -> None:
    """Until the query has begun: the first one that comes only starts another."""
    for each in descendants(pid) if not (checkpoint(cell) / "offsets").exists() else ():
        if is_java(each):
            cell.path("jvm").write_text(str(each))


def is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name == "java"
    except OSError:
        return False


def strike_from_outside(cell: Cell, pid: int) -> None:
    """Where no code of the user's runs that could do it: in the middle of many batches."""
    fault = Fault(cell.fault)
    is_time = (checkpoint(cell) / "commits" / str(BATCHES_BEFORE)).exists()
    if Way(cell.way) is not Way.PIPELINE or not is_time or not cell.first("struck"):
        return
    if fault is Fault.WORKER_KILLED:
        for each in filter(is_worker, descendants(int(cell.path("jvm").read_text()))):
            kill(each)
    elif fault is Fault.JVM_KILLED:
        kill(int(cell.path("jvm").read_text()))
    elif fault is Fault.SIGINT_HANDLER:
        os.killpg(pid, signal.SIGINT)
    else:
        os.kill(pid, signal.SIGTERM)


def end(cell: Cell, process: subprocess.Popen[bytes]) -> None:
    """Whatever is left of it."""
    cell.path("jvm").unlink(missing_ok=True)
    if process.poll() is not None:
        return
    cell.note("told", "(the process did not end, and was killed)")
    for each in (*descendants(process.pid), process.pid):
        kill(each)
    process.wait()


def tell(cell: Cell, code: int, said: str) -> None:
    """What the user sees, if the command did not end well; and he does what it says."""
    if code:
        complaints = [line for line in said.splitlines() if line.startswith("kwire: ")]
        cell.note("told", ": ".join([f"exit code {code}", *complaints[:1]]))
        obey(cell, said)
