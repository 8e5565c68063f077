"""`kwire faults`: fault injection against a real Kafka. `kwire.testing.faults` does the work; this module has flags and
exit codes.

    kwire faults run --scenario row-01
    kwire faults run --seed 7 --seconds 60 --client kwire --client confluent --report faults.html
    kwire faults run my-schedule.txt --command "./my-consumer --verbose"

0: no invariant was violated; 1: one was; 2: the command or the schedule is wrong, or the run cannot be carried out
here.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kwire.cli.exits import FAILED, INTERRUPTED, WRONG_USAGE, sigterm_interrupts
from kwire.cli.faults_output import ProgressLine, tell
from kwire.errors import ConfigError, InvalidArgumentError, KafkaError
from kwire.testing.kafka.jars import ClusterError

if TYPE_CHECKING:
    from kwire.testing.faults.order import RunOrder, RunOutcome

faults_commands = typer.Typer(no_args_is_help=True, help="Put consumers through faults, against a real Kafka.")

NAMED = ("kwire", "confluent", "java")
PROTOCOLS = ("classic", "consumer")

File = Annotated[
    Path | None, typer.Argument(metavar="SCHEDULE", help="A schedule: who reads what, which faults strike when.")
]
Scenario = Annotated[
    str | None,
    typer.Option("--scenario", metavar="ROW", help="A row of the table of faults, such as row-01; see 'scenarios'."),
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", min=0, help="A schedule drawn from this number.")]
Seconds = Annotated[int, typer.Option("--seconds", metavar="N", min=20, help="How long a drawn schedule is.")]
Clients = Annotated[
    list[str] | None,
    typer.Option("--client", "-c", metavar="NAME", help="kwire, confluent or java; several are compared."),
]
Commands = Annotated[
    list[str] | None,
    typer.Option(
        "--command",
        metavar="COMMAND",
        help="A consumer of your own: it takes the flags and prints the lines of Kafka's VerifiableConsumer.",
    ),
]
Protocol = Annotated[
    str | None, typer.Option("--group-protocol", metavar="NAME", help="classic or consumer, for all members.")
]
Secured = Annotated[
    bool, typer.Option("--secured", help="Members come over TLS and log in by SCRAM, in sessions of 8 s.")
]
Report = Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write a page with pictures there.")]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the figures there, for machines.")]
History = Annotated[
    Path | None, typer.Option("--history", metavar="FILE", help="Write all that happened there, for 'kwire audit'.")
]


@faults_commands.command("list")
def list_faults() -> None:
    """List the faults, with their parameters and time limits."""
    from kwire.testing.faults.catalogue import described

    print(described())


@faults_commands.command("scenarios")
def list_scenarios() -> None:
    """List the scenarios: rows of the table of faults."""
    from kwire.testing.faults.scenarios import scenarios

    for name, scenario in scenarios().items():
        print(f"{name}  {scenario.schedule.end_ms / 1000:4.0f} s  {scenario.row.title}")


@faults_commands.command("run")
def run_faults(
    file: File = None,
    scenario: Scenario = None,
    seed: Seed = None,
    seconds: Seconds = 120,
    client: Clients = None,
    command: Commands = None,
    group_protocol: Protocol = None,
    secured: Secured = False,
    report: Report = None,
    json_file: Json = None,
    history: History = None,
) -> None:
    """Run a schedule of faults, and judge the consumers.

    Kafka runs on this machine, three brokers behind proxies; Java, Maven and Go are needed. Exit codes: 0 all was kept,
    1 something was not, 2 it could not be run.
    """
    with _errors_told():
        _check_words(client or [], group_protocol)
        orders = _orders(file, scenario, seed, seconds, clients=[*(client or []), *(command or [])])
        _check_programs(orders)
        orders = [_with_protocol(order, group_protocol) for order in orders]
        if secured:
            orders = [_secured(order, is_drawn=seed is not None) for order in orders]
        if history is not None and len(orders) > 1:
            raise InvalidArgumentError("--history is of one run: name one client")
        outcomes: list[RunOutcome] = []
        failures: list[Exception] = []
        for outcome in _run_each(orders, failures):
            outcomes.append(outcome)
            _write(outcomes, report, json_file)  # at once: the run of the next client may take long
            if history is not None:
                history.write_text("".join(f"{line}\n" for line in outcome.run.ledger.lines()))
        has_passed = tell(outcomes) if outcomes else False
        if failures:
            raise failures[0]
    raise typer.Exit(0 if has_passed else FAILED)


@contextmanager
def _errors_told() -> Iterator[None]:
    """Raises: typer.Exit, for any error that keeps a run from being carried out."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except ModuleNotFoundError as error:
        print(f"kwire: {error.name} is missing: pip install 'kwire[faults]'", file=sys.stderr)
        raise typer.Exit(WRONG_USAGE) from None
    except (KafkaError, ClusterError, OSError) as error:
        for line in str(error).splitlines():
            print(f"kwire: {line}", file=sys.stderr)
        raise typer.Exit(WRONG_USAGE) from None


def _check_words(clients: Sequence[str], protocol: str | None) -> None:
    unknown = [name for name in clients if name not in NAMED]
    if unknown:
        raise ConfigError(f"{', '.join(unknown)} is no client; {', '.join(NAMED)} are, and --command takes any other")
    if protocol not in (None, *PROTOCOLS):
        raise ConfigError(f"{protocol} is no group protocol; {' and '.join(PROTOCOLS)} are")


def _check_programs(orders: Sequence[RunOrder]) -> None:
    """Raises: ConfigError, if a client's command is none: that would come out when the brokers run."""
    for client in {members.client for order in orders for members in order.schedule.members} - {*NAMED}:
        try:
            program = [*shlex.split(client), ""][0]
        except ValueError as error:
            raise ConfigError(f"{client} is no command: {error}") from None
        if shutil.which(program) is None:
            raise ConfigError(f"{client} is no command: there is no program {program!r} that can be run")


# --- what to run ----------------------------------------------------------------------------------------------


def _orders(
    file: Path | None, scenario: str | None, seed: int | None, seconds: int, *, clients: Sequence[str]
) -> list[RunOrder]:
    """One order for each client; without clients, one for those that the schedule names."""
    if sum(each is not None for each in (file, scenario, seed)) != 1:
        raise InvalidArgumentError("say what to run: a schedule's file, --scenario or --seed")
    if scenario is not None:
        whole, words = _of_scenario(scenario), f"--scenario {scenario}"
    elif seed is not None:
        whole, words = _of_seed(seed, seconds), f"--seed {seed} --seconds {seconds}"
    else:
        assert file is not None
        whole, words = _of_file(file), str(file)
    return [_for_client(whole, client, words) for client in clients] or [_as_it_is(whole, words)]


def _of_scenario(name: str) -> RunOrder:
    from kwire.testing.faults.order import RunOrder
    from kwire.testing.faults.scenarios import scenarios

    known = scenarios()
    if name not in known:
        raise InvalidArgumentError(f"{name!r} is no scenario; there are {', '.join(known)}")
    found = known[name]
    return RunOrder(schedule=found.schedule, name="", bounds=found.row.bounds, expects=found.expects)


def _of_seed(seed: int, seconds: int) -> RunOrder:
    from kwire.testing.faults.drawing import draw
    from kwire.testing.faults.order import RunOrder

    return RunOrder(schedule=draw(seed, seconds=seconds), name="")


def _of_file(file: Path) -> RunOrder:
    from kwire.testing.faults.order import RunOrder
    from kwire.testing.faults.schedule_text import parse

    return RunOrder(schedule=parse(file.read_text()), name="")


def _for_client(order: RunOrder, client: str, words: str) -> RunOrder:
    flag = f"--client {client}" if client in NAMED else f"--command {client!r}"
    return replace(
        order,
        schedule=order.schedule.with_client(client),
        name=client,
        replay=f"kwire faults run {words} {flag}",
    )


def _as_it_is(order: RunOrder, words: str) -> RunOrder:
    names = dict.fromkeys(members.client for members in order.schedule.members)
    return replace(order, name=" and ".join(names), replay=f"kwire faults run {words}")


def _with_protocol(order: RunOrder, protocol: str | None) -> RunOrder:
    if protocol is None:
        return order
    chosen: Literal["classic", "consumer"] = "classic" if protocol == "classic" else "consumer"
    members = tuple(
        replace(each, protocol=chosen, assignor=each.assignor if each.protocol == chosen else None)
        for each in order.schedule.members
    )
    replay = f"{order.replay} --group-protocol {chosen}"
    return replace(order, schedule=replace(order.schedule, members=members), replay=replay)


def _secured(order: RunOrder, *, is_drawn: bool) -> RunOrder:
    """The order over TLS. Faults that encryption rules out are removed from a drawn schedule; any other one is
    refused."""
    from kwire.testing.faults.secured import without_unreadable

    schedule = without_unreadable(order.schedule) if is_drawn else order.schedule
    return replace(order, schedule=schedule, secured=True, replay=f"{order.replay} --secured")


# --- running --------------------------------------------------------------------------------------------------


def _run_each(orders: Sequence[RunOrder], failures: list[Exception]) -> Iterator[RunOutcome]:
    """Run orders one after the other, each with a Kafka of its own. One that fails does not keep the others from
    running."""
    from kwire.testing.faults import harness

    with sigterm_interrupts():
        for order in orders:
            with ProgressLine(order.name, end_ms=order.schedule.end_ms) as progress:
                try:
                    outcome = harness.run(order, progress)
                except (KafkaError, ClusterError, OSError) as error:
                    failures.append(error)
                    continue
            yield outcome


def _write(outcomes: Sequence[RunOutcome], page_file: Path | None, json_file: Path | None) -> None:
    from kwire.testing.faults.report import page

    if page_file is not None:
        first, *others = (outcome.run for outcome in outcomes)
        page_file.write_text(page(first, others))
    if json_file is not None:
        json_file.write_text(json.dumps({"runs": [_figures(outcome) for outcome in outcomes]}, indent=1) + "\n")


def _figures(outcome: RunOutcome) -> dict[str, object]:
    from kwire.testing.faults.report import summarize

    run = outcome.run
    told = {"replay": run.replay, "schedule": run.schedule, "notes": list(outcome.notes)}
    return {**json.loads(summarize(run).to_json()), **told}
