"""`scripts/prove peers-tests`: the tests that the peers have of their consumers run over kwire's adapters.

They are the peers' own files, at the release that kwire is tested beside, against a real Kafka. What is left out stands
in `left_out.py`, with why; everything else has to pass. The figures go into docs/migration.md, and into docs/evidence
if all peers were run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import confluent_kafka
import typer

from kwire.testing.kafka import KafkaCluster, Security
from kwire.testing.kafka.jars import kafka_version
from proofs.peers_tests.in_place_names import KAFKA, LEFT_OUT, PEER, PLUGIN, SERVERS, TLS_FILES, TLS_SERVERS
from proofs.peers_tests.peers import PEERS, Peer
from proofs.peers_tests.sources import TOP, NoTestsError, pinned, source_of, version_of
from tools.evidence import Figure, NotMet, Result, commit, today, write_result

DOCUMENT = TOP / "docs/migration.md"
BEGIN, END = "<!-- written by scripts/prove peers-tests, do not edit -->\n", "<!-- end of what is written -->\n"
HEADING = "| tests of | passed | left out | not for this broker | failed |\n|---|---:|---:|---:|---:|\n"
TIMEOUT_S = 1_800


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The results of one peer's tests by name; for those that were not run, the reasons."""

    peer: Peer
    version: str
    passed: Sequence[str]
    failed: Mapping[str, str]
    left_out: Mapping[str, str]
    skipped: Mapping[str, str]
    """By the peer itself, such as tests of older brokers."""

    def __str__(self) -> str:
        return (
            f"{self.peer.name} {self.version}: {len(self.passed)} passed, {len(self.left_out)} left out, "
            f"{len(self.skipped)} not for this broker, {len(self.failed)} failed"
        )


def peers_tests(
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="PEER", help=f"Only these, of {', '.join(peer.name for peer in PEERS)}."),
    ] = None,
    checkout: Annotated[
        list[str] | None,
        typer.Option(metavar="PEER=PATH", help="A checkout of the peer's repository, where its sdist has no tests."),
    ] = None,
    write: Annotated[bool, typer.Option(help="Write the figures into docs.")] = True,
    select: Annotated[str, typer.Option("-k", metavar="EXPRESSION", help="Only these tests; see pytest's -k.")] = "",
) -> Sequence[str]:
    """The peers' own tests of their consumers run over kwire's adapters."""
    # Some of these tests interrupt themselves, and a shell that starts a command in the background has it ignore that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    checkouts = dict(each.split("=", 1) for each in checkout or ())
    broken: list[str] = []
    outcomes: list[Outcome] = []
    for peer in PEERS:
        if only and peer.name not in only:
            continue
        try:
            source = source_of(peer, Path(checkouts[peer.name]).absolute() if peer.name in checkouts else None)
        except NoTestsError as error:
            if only:
                raise
            print(f"not run: {error}")
            continue
        outcome = prove(peer, source, select)
        print(outcome, flush=True)
        if outcome.version != pinned(peer):
            print(f"these tests are of {peer.name} {outcome.version}; kwire is tested beside {pinned(peer)}")
        broken += breaches(outcome, is_whole=not select)
        if write and not select:
            DOCUMENT.write_text(with_row(DOCUMENT.read_text(), outcome))
            outcomes.append(outcome)
    if len(outcomes) == len(PEERS):
        write_result("peers-tests", result(outcomes, date=today(), kwire=commit(), kafka=kafka_version()))
    return broken


def prove(peer: Peer, source: Path, select: str = "") -> Outcome:
    """Its tests, with a broker of their own."""
    with (
        KafkaCluster(1, settings=peer.broker, security=Security()) as cluster,
        tempfile.TemporaryDirectory() as folder,
    ):
        warm_up(cluster.bootstrap_servers)
        write_certificates(cluster, Path(folder))
        report = Path(folder, "report.xml")
        where = {
            SERVERS: cluster.bootstrap_servers,
            TLS_SERVERS: cluster.bootstrap("SSL"),
            TLS_FILES: folder,
            KAFKA: kafka_version(),
        }
        run(peer, source, where, report, select)
        if not report.exists():
            raise NoTestsError(f"{peer.name}: pytest has not come to an end")
        return outcome_of(peer, version_of(peer, source), ET.parse(report).getroot())


def warm_up(servers: str) -> None:
    """A new broker has no producer ids at first, and kafka-python's producer gives up over that."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    producer.produce("warm-up", b"")
    producer.flush(30)


def write_certificates(cluster: KafkaCluster, folder: Path) -> None:
    """Under the names, and with the password, that aiokafka's tests have."""
    client = cluster.certificates.issue(common_name="client", key_password="abcdefgh")
    (folder / "ca.crt").write_text(cluster.certificates.certificate)
    (folder / "client.crt").write_text(client.chain)
    (folder / "client.key").write_text(client.key)


def run(peer: Peer, source: Path, where: Mapping[str, str], report: Path, select: str) -> None:
    """pytest in the peer's source, knowing nothing of kwire's own tests."""
    environment = {
        **os.environ,
        **where,
        PEER: peer.name,
        "PYTHONPATH": str(TOP),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    # -P: a package in the source does not stand before the one that is installed.
    pytest = [sys.executable, "-P", "-m", "pytest", "-p", PLUGIN, "-c", os.devnull, "--rootdir", str(source)]
    options = ["-p", "no:cacheprovider", "-q", "-rf", "--tb=short", f"--junitxml={report}", *peer.options]
    chosen = ["-k", select] if select else []
    subprocess.run(
        [*pytest, *options, *chosen, *peer.tests], cwd=source, env=environment, timeout=TIMEOUT_S, check=False
    )


def outcome_of(peer: Peer, version: str, report: ET.Element) -> Outcome:
    passed: list[str] = []
    failed: dict[str, str] = {}
    left_out: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for case in report.iter("testcase"):
        name, found = case.get("name", ""), {each.tag: each.get("message", "") for each in case}
        if (why := found.get("skipped")) is not None:
            (left_out if why.startswith(LEFT_OUT) else skipped)[name] = why.removeprefix(LEFT_OUT)
        elif (why := found.get("failure", found.get("error"))) is not None:
            failed[name] = why.partition("\n")[0][:200]
        else:
            passed.append(name)
    return Outcome(peer=peer, version=version, passed=passed, failed=failed, left_out=left_out, skipped=skipped)


def result(outcomes: Sequence[Outcome], *, date: str, kwire: str, kafka: str) -> Result:
    """For docs/evidence.md."""
    passed, failed = (sum(map(len, each)) for each in zip(*((of.passed, of.failed) for of in outcomes), strict=True))
    left_out = (
        NotMet(what=f"{each.peer.name}: {name}", why=why)
        for each in outcomes
        for name, why in (*each.failed.items(), *each.left_out.items(), *each.skipped.items())
    )
    return Result(
        title="The tests of other clients",
        claim="The tests that kafka-python, aiokafka and confluent-kafka have of their consumers pass over kwire's "
        "adapters, against a real Kafka; the section lists what is left out, with the reason.",
        command="scripts/prove peers-tests --checkout aiokafka=PATH --checkout confluent-kafka=PATH",
        date=date,
        versions={"kwire": kwire, "Apache Kafka": kafka, **{each.peer.name: each.version for each in outcomes}},
        figures=[
            Figure(what="All of them", value=f"{passed} passed, {failed} failed"),
            *(Figure(what=f"{each.peer.name} {each.version}", value=_counts(each)) for each in outcomes),
        ],
        not_met=list(left_out),
        page="migration.md",
    )


def _counts(outcome: Outcome) -> str:
    return str(outcome).partition(": ")[2]


def with_row(page: str, outcome: Outcome) -> str:
    """The page with these figures, and those of other peers that it had."""
    before, written = page.split(BEGIN)
    table, after = written.split(END)
    rows = {line.split()[1]: line for line in table.removeprefix(HEADING).splitlines()}
    counts = (outcome.passed, outcome.left_out, outcome.skipped, outcome.failed)
    figures = " | ".join(str(len(names)) for names in counts)
    rows[outcome.peer.name] = f"| {outcome.peer.name} {outcome.version} | {figures} |"
    lines = "".join(f"{rows[name]}\n" for name in sorted(rows))
    return f"{before}{BEGIN}{HEADING}{lines}{END}{after}"


def breaches(outcome: Outcome, *, is_whole: bool) -> Iterator[str]:
    for name, why in outcome.failed.items():
        yield f"{outcome.peer.name}: {name}: {why}"
    if is_whole:
        for name in outcome.peer.left_out.keys() - outcome.left_out.keys():
            yield f"{outcome.peer.name}: {name} is left out, and there is no such test"
