"""`kwire topics`: list topics, describe their partitions, and print the offsets of their logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kwire.cli import times
from kwire.cli.admin.printing import compiled, json_lines, named, print_lines
from kwire.cli.options import AsJson, ConfigFile, Properties, Servers, Verbose
from kwire.cli.tables import counted, table

if TYPE_CHECKING:
    from kwire.cli.admin.cluster import TopicState

topics_commands = typer.Typer(no_args_is_help=True, help="List and describe topics.")

Pattern = Annotated[
    str | None,
    typer.Argument(metavar="REGEX", help="Print only topics with a match in their name.", show_default=False),
]
Names = Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="One or more topics.", show_default=False)]
MoreNames = Annotated[
    list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC", help="A topic; may be repeated.")
]
Internal = Annotated[bool, typer.Option("--internal", help="Kafka's own topics, too.")]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help=f"Also the first offset of this time or later: {times.HELP}."),
]


@topics_commands.command("list")
def list_topics(
    pattern: Pattern = None,
    bootstrap: Servers = None,
    properties: Properties = None,
    config: ConfigFile = None,
    internal: Internal = False,
    as_json: AsJson = False,
    _verbose: Verbose = 0,
) -> None:
    """Print the topics that this client may see."""
    from kwire.cli.admin.session import cluster_view

    with cluster_view(bootstrap, properties, config) as view:
        wanted = compiled(pattern)
        found = [topic for topic in view.topics() if wanted.search(topic.name) and (internal or not topic.is_internal)]
        rows = [(topic.name, len(topic.partitions), topic.replication_factor) for topic in found]
        print_lines(
            json_lines([asdict(topic) for topic in found])
            if as_json
            else table(("topic", "partitions", "replicas"), rows)
        )


@topics_commands.command("describe")
def describe_topics(
    names: Names = None,
    more_names: MoreNames = None,
    bootstrap: Servers = None,
    properties: Properties = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
    _verbose: Verbose = 0,
) -> None:
    """Print partitions, leaders and replicas of topics."""
    from kwire.cli.admin.session import cluster_view

    with cluster_view(bootstrap, properties, config) as view:
        found = view.topics_named(named("topic", names, more_names))
        print_lines(json_lines([asdict(topic) for topic in found]) if as_json else _described(found))


@topics_commands.command("offsets")
def print_offsets(
    names: Names = None,
    more_names: MoreNames = None,
    bootstrap: Servers = None,
    properties: Properties = None,
    config: ConfigFile = None,
    at: At = None,
    as_json: AsJson = False,
    _verbose: Verbose = 0,
) -> None:
    """Print where the partitions of topics begin and end."""
    from kwire.cli.admin.cluster import EARLIEST, LATEST
    from kwire.cli.admin.session import cluster_view
    from kwire.model import TopicPartition

    with cluster_view(bootstrap, properties, config) as view:
        at_ms = None if at is None else times.parse_time_ms("--at", at)
        topics = view.topics_named(named("topic", names, more_names))
        partitions = [TopicPartition(topic.name, each.number) for topic in topics for each in topic.partitions]
        begins, ends = view.offsets(partitions, EARLIEST), view.offsets(partitions, LATEST)
        at_time = view.offsets(partitions, at_ms) if at_ms is not None else {}
        rows = []
        for each in partitions:
            begin, end = begins[each], ends[each]
            row: dict[str, object] = {"topic": each.topic, "partition": each.partition, "begin": begin, "end": end}
            row["offsets"] = None if begin is None or end is None else end - begin
            if at is not None:
                row["at"] = at_time[each] if at_time[each] is not None else end
            rows.append(row)
        print_lines(
            json_lines(rows) if as_json else table(list(rows[0]), [list(row.values()) for row in rows]) if rows else ()
        )


def _described(topics: Sequence[TopicState]) -> Iterator[str]:
    for topic in topics:
        shape = f"{counted(len(topic.partitions), 'partition')}, replication factor {topic.replication_factor}"
        yield f"{topic.name}: {shape}, id {topic.id}{', internal' if topic.is_internal else ''}"
        rows = [
            (
                each.number,
                each.leader,
                _numbers(each.replicas),
                _numbers(each.in_sync),
                _numbers(set(each.replicas) - set(each.in_sync)) or None,
            )
            for each in topic.partitions
        ]
        yield from table(("partition", "leader", "replicas", "in sync", "behind"), rows)


def _numbers(numbers: Sequence[int] | set[int]) -> str:
    return ",".join(map(str, sorted(numbers) if isinstance(numbers, set) else numbers))
