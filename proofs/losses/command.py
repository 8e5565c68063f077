"""`kwire consume --group` as a way to read of `scripts/prove losses`: what it printed counts as handled."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from proofs.losses.cell import Cell
from proofs.losses.faults import Fault

SIGNALS = {Fault.SIGTERM: signal.SIGTERM, Fault.SIGINT_HANDLER: signal.SIGINT}
LINES_BEFORE_SIGNAL = 60


def run_command(cell: Cell) -> None:
    """Until it ends by itself, or the judge has it stop."""
    with (
        cell.path("stderr-of-command").open("w+") as errors,
        subprocess.Popen(command(cell), stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        threading.Thread(target=_end_when_over, args=(cell, process), daemon=True).start()
        _read(cell, process)
        code = process.wait()
        errors.seek(0)
        said = errors.readline().strip()
        if not cell.has("stop"):
            cell.note("told", f"exit code {code}{': ' if said else ''}{said}")


def command(cell: Cell) -> list[str]:
    reset = "earliest" if cell.has("second-life") else Fault(cell.fault).reset
    settings = [
        f"auto_offset_reset={reset}",
        "auto_commit_interval_ms=200",
        "max_poll_records=30",
        "session_timeout_ms=6000",
    ]
    options = [option for setting in settings for option in ("-X", setting)]
    kwire = str(Path(sys.executable).with_name("kwire"))
    if cell.has("second-life"):
        options += ["--on-data-loss", "skip"]
    return [kwire, "consume", cell.topic, "-b", cell.servers, "--group", cell.group, "--format", "json", *options]


def _read(cell: Cell, process: subprocess.Popen[bytes]) -> None:
    """The pipe holds fewer records than there are, so a signal comes in the middle."""
    assert process.stdout is not None
    number = SIGNALS.get(Fault(cell.fault))
    for lines, line in enumerate(process.stdout, 1):
        record = json.loads(line)
        cell.delivered(record["partition"], record["offset"])
        cell.handled(record["partition"], record["offset"])
        if number is not None and lines == LINES_BEFORE_SIGNAL and cell.first("struck"):
            process.send_signal(number)


def _end_when_over(cell: Cell, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None and not cell.has("stop"):
        time.sleep(0.1)
    if process.poll() is None:
        process.terminate()
