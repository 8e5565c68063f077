"""Runs one test for one client, and says what came of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from kwire.testing.kafka import ClusterError
from kwire.testing.kafka.jars import MissingSoftwareError
from proofs.kafkatest.cases import Case
from proofs.kafkatest.driver import Plan

TOP = Path(__file__).resolve().parents[2]
MACHINES = 10  # what the largest test asks for
TEST_TIMEOUT_S = 1800
MAX_REASON = 300
PROGRAMS = {
    **dict.fromkeys(("nsenter", "setpriv", "unshare"), "util-linux"),
    **dict.fromkeys(("pgrep", "ps"), "procps"),
    **dict.fromkeys(("java", "jps", "keytool"), "a JDK"),
    "ip": "iproute2",
}
NAMESPACES = ("--net", "--mount", "--pid", "--uts", "--fork", "--mount-proc", "--kill-child")
ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")  # however this process ends
HIDDEN = Path("/mnt")  # each machine has its own


class Client(Enum):
    """Whose consumer it is."""

    KWIRE = "kwire"
    JAVA = "java"
    MIXED = "mixed"
    """Every other member of a group is Java's."""

    @property
    def is_kwire(self) -> bool:
        """Whether kwire has to answer for failures."""
        return self is not Client.JAVA


PLUG_INS = {
    Client.KWIRE: "kafkatest.services.verifiable_client.VerifiableClientApp",
    Client.MIXED: "proofs.kafkatest.in_ducktape.mixed.MixedClient",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a test."""

    passed: bool
    tries: int
    seconds: float
    reason: str = ""
    """Of a failure, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """The folders that all tests share, and the Python of ducktape's environment."""

    ducktape: Path
    tests: Path
    installations: Path
    commands: Path
    runs: Path


def check_machine(*places: Path) -> None:
    """
    Raises:
        MissingSoftwareError: a program is not there.
        ClusterError: one of the places is where each machine has files of its own.
    """
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            raise MissingSoftwareError(f"{program} is needed to make machines of namespaces: install {package}")
    for place in places:
        if HIDDEN in place.resolve().parents:
            raise ClusterError(f"{place} is below {HIDDEN}, which the system tests use for themselves: move it")


def write_commands(folder: Path) -> None:
    """Whoever is on a machine is root there."""
    folder.mkdir(parents=True)
    sudo = folder / "sudo"
    sudo.write_text('#!/bin/sh\nexec "$@"\n')
    sudo.chmod(0o755)


def run_case(case: Case, client: Client, folders: Folders, *, tries: int) -> Outcome:
    """Until it passes, or has failed so often. The files of the last failure are kept.

    Raises:
        ClusterError: there is no report: ducktape did not run.
    """
    outcome = _run_once(case, client, folders, attempt=1)
    for attempt in range(2, tries + 1):
        if outcome.passed:
            break
        outcome = _run_once(case, client, folders, attempt=attempt)
    return outcome


def _run_once(case: Case, client: Client, folders: Folders, *, attempt: int) -> Outcome:
    folder = folders.runs / f"{case.function}-{client.value}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    plan = Plan(
        ducktape=str(folders.ducktape),
        machines=MACHINES,
        folder=str(folder),
        tests=str(folders.tests),
        repository=str(TOP),
        commands=str(folders.commands),
        symbol=case.symbol,
        globals=globals_for(client, folders),
    )
    plan.write_to(folder / "plan.json")
    _drive(folder)
    outcome = read_report(folder, attempt)
    if outcome.passed:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.rename(_free_name(folders.runs / f"failed-{folder.name}"))
    return outcome


def _drive(folder: Path) -> None:
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    driver = [sys.executable, "-m", "proofs.kafkatest.driver", str(folder / "plan.json")]
    with (folder / "ducktape.log").open("wb") as log:
        started = subprocess.Popen(
            [*ENDS_WITH_US, "unshare", *rights, *NAMESPACES, *driver], cwd=TOP, stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            started.wait(TEST_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass  # no report: the caller says so
        finally:
            started.kill()  # and, by --kill-child, all that is in its namespaces
            started.wait()


def globals_for(client: Client, folders: Folders) -> dict[str, object]:
    """What the tests are told. Kafka's plug-in for other clients takes what to run from here."""
    found: dict[str, object] = {
        "kafka-path-resolver": "proofs.kafkatest.in_ducktape.layout.InstalledKafka",
        "kafka-installations": str(folders.installations),
    }
    if client in PLUG_INS:
        found["VerifiableConsumer"] = {
            "class": PLUG_INS[client],
            "exec_cmd": f"{sys.executable} {TOP / 'proofs/kafkatest/start_kwire.py'}",
            "pids": "pgrep -f '[k]wire.verifiable_consumer'",
        }
    return found


def read_report(folder: Path, attempt: int) -> Outcome:
    """
    Raises:
        ClusterError: there is none.
    """
    reports = [
        report for path in folder.glob("results/*/report.json") for report in json.loads(path.read_text())["results"]
    ]
    if not reports:
        said = (folder / "ducktape.log").read_text(errors="replace").strip()[-500:]
        raise ClusterError(f"no report of a test; see {folder}. The last words: {said}")
    report = reports[0]
    passed = report["test_status"] == "PASS"
    return Outcome(
        passed=passed,
        tries=attempt,
        seconds=round(report["run_time_seconds"], 1),
        reason="" if passed else first_line(report["summary"]),
    )


def first_line(summary: str) -> str:
    """Short, and without the paths of this machine."""
    line = next((line.strip() for line in summary.splitlines() if line.strip()), "no reason")
    line = line.replace(f"{TOP}/", "")
    return line if len(line) <= MAX_REASON else f"{line[:MAX_REASON]} ..."


def _free_name(path: Path) -> Path:
    taken = [path, *(path.with_name(f"{path.name}-{number}") for number in range(2, 1000))]
    return next(name for name in taken if not name.exists())
