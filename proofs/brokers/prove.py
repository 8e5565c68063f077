"""`scripts/prove brokers`: every broker there is gets the conformance suite and a core of the integration tests.

What came of it is written into docs/brokers.md. Brokers that promise to be Kafka have to pass everything they offer;
of the others the table says what they answer otherwise, and what is decided about it (`decisions.py`): an answer
without a decision breaks the proof.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from kwire.conformance.registry import all_checks
from kwire.conformance.report import CaseStatus, Report, Result
from kwire.conformance.runner import RunOptions, run
from kwire.testing import Cluster
from kwire.testing.kafka import ClusterError, KafkaCluster
from kwire.testing.kfake import KfakeCluster
from kwire.testing.kfake.build import module_version
from proofs.brokers.decisions import Decisions, function_of
from proofs.brokers.kfake import KFAKE
from proofs.brokers.outcome import Counted, Outcome, facts
from proofs.brokers.page import page, remember, rewrite
from tools import evidence_docs
from tools.evidence import TOP

QUICK_GROUPS = {"group.consumer.heartbeat.interval.ms": "100", "group.consumer.assignment.interval.ms": "0"}
CORE = ("groups", "committing", "positions", "reset_policies", "rebalance_callbacks", "open_transactions")
CONSUMER_PROTOCOL = ("consumer_protocol",)
MODULES = TOP / "tests/integration/consumer"
OTHERS = tuple(
    name
    for path in sorted(MODULES.glob("test_*.py"))
    if (name := path.stem.removeprefix("test_")) not in (*CORE, *CONSUMER_PROTOCOL)
)
TESTS_TIMEOUT_S = 1_800


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
    others: Sequence[str] = ()
    """More modules of tests/integration/consumer, of which those are run that need just a Kafka that is there."""
    decisions: Decisions | None = None
    """About what it answers otherwise than Kafka."""


@dataclass(frozen=True, slots=True)
class Running:
    servers: str
    is_alive: Callable[[], bool] = lambda: True


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
    "kfake": Broker(name=f"kfake {module_version()}", start=_kfake, others=OTHERS, decisions=KFAKE),
}


def brokers(
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help=f"Only these, of {', '.join(BROKERS)}.")
    ] = None,
    write: Annotated[bool, typer.Option(help="Write what came of it into docs/brokers.md.")] = True,
    page_only: Annotated[bool, typer.Option("--page", help="Just write docs/brokers.md anew.")] = False,
) -> Sequence[str]:
    """Every broker gets the conformance suite and a core of the integration tests."""
    decisions = {each.name: each.decisions for each in BROKERS.values()}
    if page_only:
        rewrite(decisions)
        evidence_docs.rewrite()
        return []
    broken: list[str] = []
    for name in only or BROKERS:
        broker = BROKERS[name]
        outcome = prove(broker)
        told = facts(outcome)
        print(page({broker.name: told}, {broker.name: broker.decisions}), flush=True)
        if write:
            remember(broker.name, told, decisions)
            evidence_docs.rewrite()
        broken += [f"{broker.name}: {line}" for line in breaches(broker, outcome)]
    return broken


def prove(broker: Broker) -> Outcome:
    """Run the conformance suite, then the tests; each group of tests gets a fresh broker."""
    print(f"{broker.name} ...", file=sys.stderr, flush=True)
    results = conformance(broker)
    core = _tests(broker, CORE)
    consumer_protocol = _tests(broker, CONSUMER_PROTOCOL) if broker.has_consumer_protocol else None
    others = _tests(broker, broker.others) if broker.others else None
    return Outcome(results=results, core=core, consumer_protocol=consumer_protocol, others=others)


def _tests(broker: Broker, modules: Sequence[str]) -> Counted:
    with broker.start() as running:
        return integration(running.servers, modules, broker)


def breaches(broker: Broker, outcome: Outcome) -> Iterator[str]:
    """Of Kafka nothing may be otherwise; of other brokers, nothing that is not decided."""
    if broker.decisions is not None:
        yield from broker.decisions.breaches(facts(outcome))
    elif broker.is_kafka:
        for result in outcome.results:
            if result.status is CaseStatus.FAILED:
                yield f"{result}: {result.reason}"
        yield from outcome.failed_tests


# --- the conformance suite ---------------------------------------------------------------------------------------


def conformance(broker: Broker) -> list[Result]:
    """Area by area. A broker that dies of one gets its checks one by one, each on a broker of its own: what comes
    behind the deadly one says nothing of it."""
    found: list[Result] = []
    for area in dict.fromkeys(check.area for check in all_checks()):
        with broker.start() as running:
            report = run(running.servers, RunOptions(only=(area,)))
            survived = running.is_alive()
        # The pattern may be the name of an API as well, whose cases are of other areas.
        report = replace(report, results=tuple(each for each in report.results if each.area == area))
        found += report.results if survived else one_by_one(broker, report)
    return found


def one_by_one(broker: Broker, report: Report) -> Iterator[Result]:
    for case in report.results:
        if case.status is CaseStatus.NOT_OFFERED:
            yield case
            continue
        with broker.start() as running:
            (result,) = run(running.servers, RunOptions(only=(glob.escape(str(case)),))).results
            died = not running.is_alive()
        yield replace(result, reason=f"the broker ends: {result.reason}") if died else result


# --- the integration tests ---------------------------------------------------------------------------------------


def integration(servers: str, modules: Sequence[str], broker: Broker) -> Counted:
    """These modules of tests/integration/consumer. What fails is tried again: a busy machine is no difference."""
    files = [str(MODULES / f"test_{name}.py") for name in modules]
    counted = _run(servers, broker, files)
    if not counted.failed:
        return counted
    functions = dict.fromkeys(map(function_of, counted.failed))
    return counted.tried_again(_run(servers, broker, files, only=list(functions)))


def _run(servers: str, broker: Broker, files: Sequence[str], only: Sequence[str] = ()) -> Counted:
    """Told that their Kafka runs already. Tests that start another one by themselves say nothing of a broker that is
    not Kafka: they are not run."""
    wanted = [f"not ({' or '.join(broker.left_out)})"] if broker.left_out else []
    wanted += [f"({' or '.join(only)})"] if only else []
    chosen = ["-k", " and ".join(wanted)] if wanted else []
    side = "real" if broker.is_kafka else "kfake"
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.xml")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--kafka", side, f"--junitxml={report}", *chosen, *files],
            cwd=TOP, env={**os.environ, "KWIRE_BOOTSTRAP_SERVERS": servers}, timeout=TESTS_TIMEOUT_S,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if not report.exists():
            raise ClusterError(f"the tests did not run: {done.stdout[-500:]}")
        return Counted.of_report(ET.parse(report).getroot())
