"""`scripts/prove mixed-groups`: kwire, Java's client and librdkafka in one group, judged by Kafka's own rules.

For each way of assigning: members of all kinds come, leave and are killed while records flow; at the end `rules.py`
judges what all of them printed. The short version is tests/integration/test_mixed_groups.py.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer
from confluent_kafka.cimpl import NewTopic
from rich.console import Console
from rich.table import Table

from kwire.testing.kafka import KafkaCluster
from proofs.mixed_groups.changes import changes
from proofs.mixed_groups.members import Group, Kind
from proofs.mixed_groups.rules import Cause
from proofs.mixed_groups.trial import ADMIN_TIMEOUT_S, Result, open_admin, run_scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLE_WIDTH = 160  # in a file
LEADER = re.compile(r"Assignment received from leader (\w+)-\d+\S* for group (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One way of assigning, and who can take part. `strategy` is None for the protocol of KIP-848."""

    name: str
    strategy: str | None
    kinds: tuple[Kind, ...] = tuple(Kind)


SCENARIOS = (
    Scenario(name="range", strategy="range"),
    Scenario(name="roundrobin", strategy="roundrobin"),
    Scenario(name="sticky", strategy="sticky", kinds=(Kind.KWIRE, Kind.JAVA)),  # librdkafka has no eager sticky one
    Scenario(name="cooperative-sticky", strategy="cooperative-sticky"),
    Scenario(name="consumer", strategy=None),
)


def mixed_groups(
    scenario: Annotated[list[str] | None, typer.Option(help="range, roundrobin, ...; all of them by default")] = None,
    changes_: Annotated[int, typer.Option("--changes", help="how often members come or go, in each scenario")] = 20,
    partitions: Annotated[int, typer.Option(help="of the topic")] = 12,
    session_timeout_ms: Annotated[int, typer.Option(help="when the group takes a member for dead")] = 6_000,
    seed: Annotated[int, typer.Option(help="of the order in which members come and go")] = 1,
    logs: Annotated[Path | None, typer.Option(help="keep what the members and the broker say here")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="write all figures there as well")] = None,
) -> list[str]:
    """kwire, Java's client and librdkafka (which has no eager sticky assignor) in one group, with both protocols."""
    chosen = [found for found in SCENARIOS if not scenario or found.name in scenario]
    if unknown := set(scenario or ()) - {found.name for found in SCENARIOS}:
        raise typer.BadParameter(f"no scenario {', '.join(sorted(unknown))}")
    if logs is not None and logs.exists() and any(logs.iterdir()):
        raise typer.BadParameter(f"{logs} is not empty")
    console = Console(width=None if sys.stdout.isatty() else TABLE_WIDTH)
    results = []
    with ExitStack() as stack:
        directory = logs or Path(stack.enter_context(TemporaryDirectory(prefix="kwire-groups-")))
        settings = {"group.consumer.session.timeout.ms": str(session_timeout_ms)}
        kafka = stack.enter_context(KafkaCluster(settings=settings, directory=directory / "kafka"))
        for found in chosen:
            group = Group(
                bootstrap_servers=kafka.bootstrap_servers,
                group_id=f"mixed-{found.name}",
                topic=f"mixed-{found.name}",
                partitions=partitions,
                strategy=found.strategy,
                session_timeout_ms=session_timeout_ms,
                directory=directory / found.name,
            )
            make_topic(group.bootstrap_servers, group.topic, partitions)
            result = run_scenario(found.name, group, changes(found.kinds, changes_, seed))
            result.leaders = leaders_by_kind((directory / "kafka/broker-0/broker.log").read_text(), group.group_id)
            console.print(summary(result))
            results.append(result)
    console.print(table(results))
    if json_file is not None:
        rows = [result.to_json() for result in results]
        json_file.write_text(json.dumps({"seed": seed, "partitions": partitions, "results": rows}, indent=1) + "\n")
    return [f"{result.scenario}: {line}" for result in results for line in result.verdict.violations]


def summary(result: Result) -> str:
    refused = result.verdict.refused_commits
    lines = [f"{result.scenario}: {len(result.changes)} changes in {result.seconds:.0f} s"]
    lines += [f"  {count} commits of {kind} refused: {error}" for (kind, error), count in refused.items()]
    return "\n".join(lines)


def table(results: Sequence[Result]) -> Table:
    found = Table(title="mixed groups")
    columns = ("scenario", "changes", "kills", "assigned", "led by", "produced", "lost", "twice: killed", "refused",
               "unknown", "violations", "settling ms", "silence ms")  # fmt: skip
    for column in columns:
        found.add_column(column, justify="left" if column in ("scenario", "led by") else "right")
    for result in results:
        verdict, worst = result.verdict, result.verdict.largest_silence
        led = " ".join(f"{kind}:{count}" for kind, count in result.leaders.items() if count)
        figures = (
            *(len(result.changes), result.kills, result.assignments, led, verdict.produced, verdict.lost),
            *(verdict.duplicates_by(cause) for cause in (Cause.KILLED, Cause.REFUSED, Cause.UNKNOWN)),
            *(len(verdict.violations), result.slowest_settling_ms, worst.counted_ms if worst else 0),
        )
        found.add_row(result.scenario, *map(str, figures))
    return found


def leaders_by_kind(broker_log: str, group_id: str) -> dict[str, int]:
    """How many rebalances each kind of client has led, as the coordinator tells: member ids begin with the name."""
    found = dict.fromkeys((kind.value for kind in Kind), 0)
    for match in LEADER.finditer(broker_log):
        if match[2] == group_id:
            found[match[1]] += 1
    return found


def make_topic(bootstrap_servers: str, topic: str, partitions: int) -> None:
    admin = open_admin(bootstrap_servers)
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(ADMIN_TIMEOUT_S)
