"""`scripts/prove kafkatest`: Apache Kafka's own system tests, for kwire's verifiable consumer and for Java's.

What came of each is kept in docs/kafkatest.json and told in docs/kafkatest.md as soon as it is known, so that a run may
be broken off, and the next one may take the tests that are left (`--left`).
"""

from __future__ import annotations

import datetime
import fcntl
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from kwire.testing.kafka.jars import KAFKA_VERSION, cache_dir
from proofs.kafkatest.cases import Case, collect
from proofs.kafkatest.installation import install
from proofs.kafkatest.results import Results, applicable
from proofs.kafkatest.running import TOP, Client, Folders, Outcome, check_machine, run_case, write_commands
from proofs.kafkatest.sources import copy_tests, find_checkout, identity
from tools import evidence_docs
from tools.environment import KAFKATEST, prepare
from tools.lock import pins

RUNS = TOP / ".cache" / "kafkatest"


def kafkatest(
    checkout: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A clone of Apache Kafka; or KAFKA_CHECKOUT names it.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Only tests whose name, with arguments, has this in it.")
    ] = None,
    client: Annotated[
        list[Client] | None, typer.Option(help="For these; kwire and Java by default, in turns. Mixed: groups of both.")
    ] = None,
    left: Annotated[
        bool, typer.Option("--left", help="Only what docs/kafkatest.json does not know as passed.")
    ] = False,
    tries: Annotated[int, typer.Option(min=1, help="How often a test is run before it has failed.")] = 1,
    kafka: Annotated[str, typer.Option(help="The version of brokers, tools and Java's consumer.")] = KAFKA_VERSION,
    write: Annotated[bool, typer.Option(help="Write what comes of it into docs/kafkatest.md.")] = True,
    list_only: Annotated[bool, typer.Option("--list", help="Name the tests, and run none.")] = False,
) -> Sequence[str]:
    """Apache Kafka's own system tests, for kwire and for Java's consumer."""
    source = find_checkout(checkout)
    check_machine(TOP, cache_dir(), source)
    with alone():
        return _kafkatest(source, only, client, left=left, tries=tries, kafka=kafka, write=write, list_only=list_only)


def _kafkatest(
    source: Path,
    only: list[str] | None,
    client: list[Client] | None,
    *,
    left: bool,
    tries: int,
    kafka: str,
    write: bool,
    list_only: bool,
) -> Sequence[str]:
    folders = prepare_folders(source, kafka)
    cases = collect(folders.ducktape, folders.tests, folders.runs / "collected")
    wanted = [case for case in applicable(cases) if is_wanted(case, only)]
    if list_only:
        print("\n".join(str(case) for case in wanted))
        return []
    results = Results()
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    results.describe(date=today, kafka=kafka, ducktape=ducktape_version(), **identity(source))
    results.expect(cases)
    return list(
        run_all(wanted, client or (Client.KWIRE, Client.JAVA), folders, results, tries=tries, left=left, write=write)
    )


def run_all(
    cases: Sequence[Case],
    clients: Sequence[Client],
    folders: Folders,
    results: Results,
    *,
    tries: int,
    left: bool,
    write: bool,
) -> Iterator[str]:
    """Answers what kwire does not pass, alone or with Java."""
    for case in cases:
        for client in clients:
            if left and results.has_passed(case, client):
                continue
            outcome = run_case(case, client, folders, tries=tries)
            results.add(case, client, outcome)
            if write:
                results.write()
                evidence_docs.rewrite()
            print(f"{client.value:5}  {told(outcome)}  {case}", flush=True)
            if client.is_kwire and not outcome.passed:
                yield f"{client.value}: {case}: {outcome.reason}"


def told(outcome: Outcome) -> str:
    """In words of one width, for a list."""
    status = "passed" if outcome.passed else f"FAILED ({outcome.reason})"
    return f"{outcome.seconds:5.0f} s  {status}"


@contextmanager
def alone(folder: Path = RUNS) -> Iterator[None]:
    """A run takes away what the one before has left, so two at once would take away each other's."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SystemExit("scripts/prove kafkatest: another run goes on in this clone; wait until it ends") from None
        yield


def prepare_folders(source: Path, kafka: str) -> Folders:
    """The tests, Kafka and ducktape, beside what earlier runs left of failures."""
    for part in ("tests", "installations", "commands", "runs/collected"):
        shutil.rmtree(RUNS / part, ignore_errors=True)
    folders = Folders(
        ducktape=TOP / prepare(TOP, KAFKATEST),
        tests=RUNS / "tests",
        installations=RUNS / "installations",
        commands=RUNS / "commands",
        runs=RUNS / "runs",
    )
    folders.runs.mkdir(parents=True, exist_ok=True)
    copy_tests(source, folders.tests)
    install(kafka, source, folders.installations / "kafka-dev")
    write_commands(folders.commands)
    return folders


def ducktape_version() -> str:
    return dict(pins((TOP / "requirements/kafkatest.txt").read_text()))["ducktape"]


def is_wanted(case: Case, only: Sequence[str] | None) -> bool:
    return not only or any(text in str(case) for text in only)
