"""`scripts/prove brokers`: every broker there is gets the conformance suite and a core of the integration tests.

What came of it is written into docs/brokers.md. Brokers that promise to be Kafka have to pass everything they offer;
of the others the table says what they answer otherwise.
"""

from __future__ import annotations

import glob
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kwire.conformance.registry import all_checks
from kwire.conformance.report import CaseStatus, Report, Result, spans
from kwire.conformance.runner import RunOptions, run
from kwire.testing import Cluster
from kwire.testing.kafka import KafkaCluster
from kwire.testing.kfake import KfakeCluster
from kwire.testing.kfake.build import module_version

TOP = Path(__file__).resolve().parents[1]
DOCUMENT = TOP / "docs" / "brokers.md"
BEGIN, END = "<!-- written by scripts/prove brokers, do not edit -->\n", "<!-- end of what is written -->\n"
QUICK_GROUPS = {"group.consumer.heartbeat.interval.ms": "100", "group.consumer.assignment.interval.ms": "0"}
CORE = ("groups", "committing", "positions", "reset_policies", "rebalance_callbacks", "open_transactions")
CONSUMER_PROTOCOL = ("consumer_protocol",)
TESTS_TIMEOUT_S = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One of the brokers. `start` answers, in a `with` block, its bootstrap servers, and whether it lives."""

    name: str
    start: Callable[[], AbstractContextManager[Running]]
    is_kafka: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    servers: str
    is_alive: Callable[[], bool] = lambda: True


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one broker."""

    broker: Broker
    results: Sequence[Result]
    core: Tests
    consumer_protocol: Tests

    def count(self, status: CaseStatus) -> int:
        return sum(result.status is status for result in self.results)


@dataclass(frozen=True, slots=True)
class Tests:
    """Of one run of tests: how many passed, and which did not."""

    passed: int
    failed: Sequence[str]

    def __str__(self) -> str:
        return f"{self.passed} of {self.passed + len(self.failed)}"


# --- the brokers -------------------------------------------------------------------------------------------------


@contextmanager
def _kafka(version: str) -> Iterator[Running]:
    with KafkaCluster(1, version=version, settings=QUICK_GROUPS) as cluster:
        yield Running(cluster.bootstrap_servers)


@contextmanager
def _in_process() -> Iterator[Running]:
    with Cluster(settings={**QUICK_GROUPS, "group.min.session.timeout.ms": 500}) as cluster:
        yield Running(cluster.bootstrap_servers)


@contextmanager
def _kfake() -> Iterator[Running]:
    with KfakeCluster(settings=QUICK_GROUPS) as cluster:
        yield Running(cluster.bootstrap_servers, lambda: cluster.is_running)


BROKERS = {
    "3.9": Broker(name="Apache Kafka 3.9.1", start=lambda: _kafka("3.9.1")),
    "4.3": Broker(name="Apache Kafka 4.3.1", start=lambda: _kafka("4.3.1"), is_kafka=True),
    "4.4": Broker(name="Apache Kafka 4.4.0", start=lambda: _kafka("4.4.0"), is_kafka=True),
    "in-process": Broker(name="`kwire.testing.Cluster`", start=_in_process, is_kafka=True),
    "kfake": Broker(name=f"kfake {module_version()}", start=_kfake),
}


def brokers(
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help=f"Only these, of {', '.join(BROKERS)}.")
    ] = None,
    write: Annotated[bool, typer.Option(help="Write the table into docs/brokers.md.")] = True,
) -> Sequence[str]:
    """Every broker gets the conformance suite and a core of the integration tests."""
    outcomes = [prove(BROKERS[name]) for name in only or BROKERS]
    text = table(outcomes) + "".join(map(differences, outcomes))
    print(text)
    if write and not only:
        written = DOCUMENT.read_text()
        front, back = written.split(BEGIN)[0], written.split(END)[1]
        DOCUMENT.write_text(f"{front}{BEGIN}\n{text}\n{END}{back}")
    return [line for outcome in outcomes if outcome.broker.is_kafka for line in broken(outcome)]


def prove(broker: Broker) -> Outcome:
    """Both, on a broker each."""
    print(f"{broker.name} ...", file=sys.stderr, flush=True)
    results = conformance(broker)
    with broker.start() as running:
        core = integration(running.servers, CORE)
    with broker.start() as running:
        consumer_protocol = integration(running.servers, CONSUMER_PROTOCOL)
    return Outcome(broker=broker, results=results, core=core, consumer_protocol=consumer_protocol)


def broken(outcome: Outcome) -> Iterator[str]:
    for result in outcome.results:
        if result.status is CaseStatus.FAILED:
            yield f"{outcome.broker.name}: {result}: {result.reason}"
    for name in (*outcome.core.failed, *outcome.consumer_protocol.failed):
        yield f"{outcome.broker.name}: {name}"


# --- the conformance suite ---------------------------------------------------------------------------------------


def conformance(broker: Broker) -> list[Result]:
    """Area by area. A broker that dies of one gets its checks one by one, each on a broker of its own: what comes
    behind the deadly one says nothing of it."""
    found: list[Result] = []
    for area in dict.fromkeys(check.area for check in all_checks()):
        with broker.start() as running:
            report = run(running.servers, RunOptions(only=(area,)))
            survived = running.is_alive()
        found += report.results if survived else one_by_one(broker, report)
    return found


def one_by_one(broker: Broker, report: Report) -> Iterator[Result]:
    for case in report.results:
        if case.status is CaseStatus.NOT_OFFERED:
            yield case
            continue
        with broker.start() as running:
            (result,) = run(running.servers, RunOptions(only=(glob.escape(str(case)),))).results
        yield result


# --- the integration tests ---------------------------------------------------------------------------------------


def integration(servers: str, modules: Sequence[str]) -> Tests:
    """These modules of tests/integration/consumer, told that their Kafka runs already."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.xml")
        files = [f"tests/integration/consumer/test_{name}.py" for name in modules]
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--kafka", "real", f"--junitxml={report}", *files],
            cwd=TOP, env={**os.environ, "KWIRE_BOOTSTRAP_SERVERS": servers}, timeout=TESTS_TIMEOUT_S,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        cases = list(ET.parse(report).getroot().iter("testcase"))
    bad = [case.get("name", "") for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    return Tests(len(cases) - len(bad) - skipped, [name.replace("[kafka]", "").replace("kafka-", "") for name in bad])


# --- the page ----------------------------------------------------------------------------------------------------


def table(outcomes: Sequence[Outcome]) -> str:
    lines = [
        "| broker | conformance: passed | otherwise | not offered | core of the integration tests | KIP-848 |",
        "|---|---|---|---|---|---|",
    ]
    for outcome in outcomes:
        passed, failed, absent = (outcome.count(status) for status in CaseStatus)
        tests = f"{outcome.core} | {outcome.consumer_protocol}"
        lines.append(f"| {outcome.broker.name} | {passed} | {failed} | {absent} | {tests} |")
    return "\n".join(lines) + "\n"


def differences(outcome: Outcome) -> str:
    """What the broker answers otherwise, and the tests that it fails for that."""
    alike: dict[tuple[str, str, str], list[int]] = {}
    for result in outcome.results:
        if result.status is CaseStatus.FAILED:
            alike.setdefault((result.api, result.check, _without_names(result.reason)), []).append(result.version)
    tests = sorted((*outcome.core.failed, *outcome.consumer_protocol.failed))
    if not alike and not tests:
        return ""
    lines = [f"\n### {outcome.broker.name}\n"]
    if alike:
        lines += ["| API | versions | Kafka | instead |", "|---|---|---|---|"]
        lines += [
            f"| {api} | {spans(versions)} | {check} | {_cell(reason)} |"
            for (api, check, reason), versions in alike.items()
        ]
    if tests:
        lines += [f"\nTests that do not pass: {', '.join(f'`{name}`' for name in tests)}."]
    return "\n".join(lines) + "\n"


def _without_names(reason: str) -> str:
    """Names and ports are others in each run."""
    return re.sub(r"kwire-conformance-[0-9a-f]+-\d+", "a topic", re.sub(r"127\.0\.0\.1:\d+", "the broker", reason))


def _cell(reason: str) -> str:
    short = reason if len(reason) <= 200 else f"{reason[:200]} ..."
    return short.replace("|", "\\|").replace("\n", " ")
