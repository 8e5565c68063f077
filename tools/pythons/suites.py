"""The tests that other Pythons run: the fast ones, and a core of those against a real Kafka."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.pythons.interpreters import Interpreter

TOP = Path(__file__).resolve().parents[2]
TIMEOUT_S = 3600
OF_CONSUMERS = "tests/integration/consumer/test_{}.py"
# Groups by both protocols, commits, transactions, closing, programs that end, TLS with SCRAM, and a processor.
CORE = (
    *map(
        OF_CONSUMERS.format,
        (
            "groups",
            "committing",
            "closing",
            "lifecycle",
            "rebalance_callbacks",
            "open_transactions",
            "consumer_protocol",
            "secured_members",
            "processor_catches_up",
        ),
    ),
    "tests/network/test_sasl_real.py",
)
CORE_OF_ASYNC_CONSUMER = tuple(map(OF_CONSUMERS.format, ("committing", "rebalance_callbacks", "open_transactions")))
# It asks for what is written when these are over.
NOT_YET = "tests/tools/test_pythons.py::test_the_classifiers_are_the_pythons_that_passed"
SUITES = {
    "fast": (["-m", "not integration and not slow and not exhaustive", "--numprocesses", "2", "--deselect", NOT_YET],),
    "core": (
        ["--kafka", "real", *CORE],
        ["--kafka", "real", "--facade", "asyncio", *CORE_OF_ASYNC_CONSUMER],
    ),
}


RUN = (0, 1)  # pytest's exit codes, of tests that passed, and of some that failed; by another one they did not all run


class NoTestsError(Exception):
    """They could not be run; the message says why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run of tests; `failed` has their names, those with an error before or after as well."""

    passed: int
    failed: Sequence[str]
    skipped: int
    seconds: float

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.passed + other.passed,
            [*self.failed, *other.failed],
            self.skipped + other.skipped,
            self.seconds + other.seconds,
        )


def prepare(interpreter: Interpreter) -> str:
    """An environment with everything, made if need be; answers its Python, below the top of the clone."""
    done = subprocess.run(
        interpreter.inside([interpreter.path, "tools/environment.py", "other"]),
        cwd=TOP,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NoTestsError(f"{interpreter.path} has no environment: see above")
    return done.stdout.strip()


def run(interpreter: Interpreter, python: str, suite: str) -> Outcome:
    """The suite of that name."""
    total = Outcome(0, [], 0, 0.0)
    for arguments in SUITES[suite]:
        total += pytest(interpreter, [python, "-m", "pytest", "--quiet", *arguments])
    return total


def pytest(interpreter: Interpreter, command: Sequence[str]) -> Outcome:
    """What it says is shown as it says it."""
    with tempfile.TemporaryDirectory() as folder:
        report, began_s = Path(folder, "report.xml"), time.monotonic()
        done = subprocess.run(
            interpreter.inside([*command, "-p", "no:cacheprovider", f"--junitxml={report}"]),
            cwd=TOP,
            stdout=sys.stderr,
            timeout=TIMEOUT_S,
            check=False,
        )
        seconds = time.monotonic() - began_s
        if done.returncode not in RUN or not report.exists():
            raise NoTestsError(f"the tests could not be run (exit code {done.returncode}): see above")
        return counted(ET.parse(report).getroot(), seconds)


def counted(report: ET.Element, seconds: float) -> Outcome:
    """What a report in JUnit's form has, and how long it took. A test that fails, and whose teardown fails, is one."""
    outcomes = defaultdict[str, set[str]](set)
    for case in report.iter("testcase"):
        outcomes[f"{case.get('classname')}::{case.get('name')}"].update(child.tag for child in case)
    failed = [name for name, tags in outcomes.items() if tags & {"failure", "error"}]
    skipped = sum("skipped" in tags for tags in outcomes.values())
    return Outcome(len(outcomes) - len(failed) - skipped, failed, skipped, seconds)
