"""`scripts/prove brokers`: every broker there is gets the conformance suite and a core of the integration tests.

What came of it is written into docs/brokers.md. Brokers that promise to be Kafka have to pass everything they offer;
of the others the table says what they answer otherwise.
"""

from __future__ import annotations

import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypedDict

import typer

from kwire.conformance.registry import all_checks
from kwire.conformance.report import CaseStatus, Report, Result, spans
from kwire.conformance.runner import RunOptions, run
from kwire.testing import Cluster
from kwire.testing.kafka import ClusterError, KafkaCluster
from kwire.testing.kfake import KfakeCluster
from kwire.testing.kfake.build import module_version
from tools.evidence import commit, today

TOP = Path(__file__).resolve().parents[1]
DOCUMENT, KNOWN = TOP / "docs" / "brokers.md", TOP / "docs" / "brokers.json"
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
    left_out: Sequence[str] = ()
    """Tests that are not run, as they cannot be set up from outside."""
    has_consumer_protocol: bool = True
    """Whether it offers KIP-848 as it is installed. If not, its tests are not run."""


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
    consumer_protocol: Tests | None

    @property
    def failed_tests(self) -> Sequence[str]:
        """By name."""
        return (*self.core.failed, *(self.consumer_protocol.failed if self.consumer_protocol else ()))

    def count(self, status: CaseStatus) -> int:
        return sum(result.status is status for result in self.results)


class Facts(TypedDict):
    """What the page tells of a broker, as it is kept in `docs/brokers.json`."""

    date: str
    kwire: str
    row: list[str]
    differences: list[list[str]]
    tests: list[str]


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
    "3.9": Broker(
        name="Apache Kafka 3.9.1",
        start=lambda: _kafka("3.9.1"),
        is_kafka=True,
        left_out=(  # what is for KIP-848
            "consumer]",
            "test_an_older_epoch_is_good_enough_for_what_the_member_has_had_since",
        ),
        has_consumer_protocol=False,  # it is a preview there, which has to be unlocked
    ),
    "4.3": Broker(name="Apache Kafka 4.3.1", start=lambda: _kafka("4.3.1"), is_kafka=True),
    "4.4": Broker(name="Apache Kafka 4.4.0", start=lambda: _kafka("4.4.0"), is_kafka=True),
    "in-process": Broker(
        name="`kwire.testing.Cluster`",
        start=_in_process,
        is_kafka=True,
        left_out=(  # settings of a group are not taken over the wire
            "test_the_partitions_of_a_killed_member_go_to_the_others",
            "test_a_dynamic_member_that_stays_behind_keeps_its_partitions_for_a_while",
        ),
    ),
    "kfake": Broker(name=f"kfake {module_version()}", start=_kfake),
}


def brokers(
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help=f"Only these, of {', '.join(BROKERS)}.")
    ] = None,
    write: Annotated[bool, typer.Option(help="Write what came of it into docs/brokers.md.")] = True,
) -> Sequence[str]:
    """Every broker gets the conformance suite and a core of the integration tests."""
    outcomes = []
    for name in only or BROKERS:
        outcomes.append(prove(BROKERS[name]))
        print(page({outcomes[-1].broker.name: facts(outcomes[-1])}), flush=True)
        if write:
            remember(outcomes[-1:])
    return [line for outcome in outcomes if outcome.broker.is_kafka for line in broken(outcome)]


def prove(broker: Broker) -> Outcome:
    """Both, on a broker each."""
    print(f"{broker.name} ...", file=sys.stderr, flush=True)
    results = conformance(broker)
    with broker.start() as running:
        core = integration(running.servers, CORE, broker.left_out)
    consumer_protocol = None
    if broker.has_consumer_protocol:
        with broker.start() as running:
            consumer_protocol = integration(running.servers, CONSUMER_PROTOCOL, broker.left_out)
    return Outcome(broker=broker, results=results, core=core, consumer_protocol=consumer_protocol)


def broken(outcome: Outcome) -> Iterator[str]:
    for result in outcome.results:
        if result.status is CaseStatus.FAILED:
            yield f"{outcome.broker.name}: {result}: {result.reason}"
    for name in outcome.failed_tests:
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


def integration(servers: str, modules: Sequence[str], left_out: Sequence[str]) -> Tests:
    """These modules of tests/integration/consumer, told that their Kafka runs already."""
    chosen = ["-k", f"not ({' or '.join(left_out)})"] if left_out else []
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.xml")
        files = [f"tests/integration/consumer/test_{name}.py" for name in modules]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--kafka", "real", f"--junitxml={report}", *chosen, *files],
            cwd=TOP, env={**os.environ, "KWIRE_BOOTSTRAP_SERVERS": servers}, timeout=TESTS_TIMEOUT_S,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if not report.exists():
            raise ClusterError(f"the tests did not run: {done.stdout[-500:]}")
        cases = list(ET.parse(report).getroot().iter("testcase"))
    bad = [case.get("name", "") for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    return Tests(len(cases) - len(bad) - skipped, [name.replace("[kafka]", "").replace("kafka-", "") for name in bad])


# --- the page ----------------------------------------------------------------------------------------------------


def remember(outcomes: Sequence[Outcome]) -> None:
    """Put what came of these brokers beside what is known of the others, and write the page anew."""
    known: dict[str, Facts] = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    known |= {outcome.broker.name: facts(outcome) for outcome in outcomes}
    order = [broker.name for broker in BROKERS.values()]
    known = {name: known[name] for name in order if name in known}
    KNOWN.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
    written = DOCUMENT.read_text()
    front, back = written.split(BEGIN)[0], written.split(END)[1]
    DOCUMENT.write_text(f"{front}{BEGIN}\n{page(known)}\n{END}{back}")


def facts(outcome: Outcome) -> Facts:
    """What the page tells of a broker."""
    passed, failed, absent = (str(outcome.count(status)) for status in CaseStatus)
    alike: dict[tuple[str, str, str], list[int]] = {}
    for result in outcome.results:
        if result.status is CaseStatus.FAILED:
            alike.setdefault((result.api, result.check, _without_names(result.reason)), []).append(result.version)
    return {
        "date": today(),
        "kwire": commit(),
        "row": [passed, failed, absent, str(outcome.core), str(outcome.consumer_protocol or "not offered")],
        "differences": [[api, spans(found), check, reason] for (api, check, reason), found in alike.items()],
        "tests": sorted(outcome.failed_tests),
    }


def page(known: Mapping[str, Facts]) -> str:
    """A row for each broker, then what each answers otherwise, and the tests that it fails for that."""
    lines = [
        "| broker | conformance: passed | otherwise | not offered | core of the integration tests | KIP-848 |",
        "|---|---|---|---|---|---|",
        *(f"| {name} | {' | '.join(found['row'])} |" for name, found in known.items()),
    ]
    for name, found in known.items():
        if found["differences"] or found["tests"]:
            lines += [f"\n### {name}, otherwise than Kafka\n"]
        if found["differences"]:
            lines += ["| API | versions | what Kafka does | what it does |", "|---|---|---|---|"]
            lines += [f"| {' | '.join(map(_cell, difference))} |" for difference in found["differences"]]
        if found["tests"]:
            lines += [f"\nTests that do not pass: {', '.join(f'`{test}`' for test in found['tests'])}."]
    return "\n".join(lines) + "\n"


def _without_names(reason: str) -> str:
    """Names and ports are others in each run."""
    return re.sub(r"kwire-conformance-[0-9a-f]+-\d+", "a topic", re.sub(r"127\.0\.0\.1:\d+", "the broker", reason))


def _cell(text: str) -> str:
    short = text if len(text) <= 200 else f"{text[:200]} ..."
    return short.replace("|", "\\|").replace("\n", " ")
