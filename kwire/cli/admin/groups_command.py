"""`kwire groups`: list and describe groups, show their lag, and reset the commits of an empty one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kwire.cli import starts
from kwire.cli.admin.printing import compiled, json_lines, named, print_lines, the_one
from kwire.cli.exits import FAILED, StopSignals
from kwire.cli.options import AsJson, ConfigFile, Properties, Servers, Verbose
from kwire.cli.tables import table
from kwire.errors import ConfigError

if TYPE_CHECKING:
    from kwire.cli.starts import Start

groups_commands = typer.Typer(no_args_is_help=True, help="List, describe, watch and reset consumer groups.")

Pattern = Annotated[
    str | None,
    typer.Argument(metavar="REGEX", help="Print only groups with a match in their name.", show_default=False),
]
Names = Annotated[list[str] | None, typer.Argument(metavar="GROUP", help="One or more groups.", show_default=False)]
Name = Annotated[str | None, typer.Argument(metavar="GROUP", help="The group.", show_default=False)]
MoreNames = Annotated[
    list[str] | None, typer.Option("--group", "-g", metavar="GROUP", help="A group; may be repeated.")
]
NameAsOption = Annotated[
    list[str] | None, typer.Option("--group", "-g", metavar="GROUP", help="The group, as an option.")
]
Every = Annotated[
    float, typer.Option("--every", metavar="SECONDS", min=0.1, help="Seconds between two looks at the group.")
]
Looks = Annotated[
    int | None,
    typer.Option("--count", "-n", metavar="N", min=1, help="Stop after N looks. Default: go on until Ctrl-C."),
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", "-t", metavar="TOPIC", help="A topic, or some of its partitions: orders:0,2; may be repeated."
    ),
]
AllTopics = Annotated[bool, typer.Option("--all-topics", help="All topics that the group has committed.")]
To = Annotated[str | None, typer.Option("--to", "--to-offset", "--to-datetime", metavar="START", help=starts.HELP)]
ToEarliest = Annotated[bool, typer.Option("--to-earliest", help="The same as --to earliest.")]
ToLatest = Annotated[bool, typer.Option("--to-latest", help="The same as --to latest.")]
ShiftBy = Annotated[
    int | None, typer.Option("--shift-by", metavar="N", help="Move each commit by N offsets; back, if N is below 0.")
]
Execute = Annotated[bool, typer.Option("--execute", help="Commit. Without it, the command shows what it would commit.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show it: the default.")]


@groups_commands.command("list")
def list_groups(
    pattern: Pattern = None,
    bootstrap: Servers = None,
    properties: Properties = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
    _verbose: Verbose = 0,
) -> None:
    """Print the groups of all coordinators."""
    from dataclasses import asdict

    from kwire.cli.admin.groups import Groups
    from kwire.cli.admin.session import cluster_view

    with cluster_view(bootstrap, properties, config) as view:
        wanted = compiled(pattern)
        found = [each for each in Groups(view).all() if wanted.search(each.group)]
        rows = [(each.group, each.state, each.type, each.protocol_type or None, each.coordinator) for each in found]
        print_lines(
            json_lines([asdict(each) for each in found])
            if as_json
            else table(("group", "state", "protocol", "kind", "coordinator"), rows)
        )


@groups_commands.command("describe")
def describe_groups(
    names: Names = None,
    more_names: MoreNames = None,
    bootstrap: Servers = None,
    properties: Properties = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
    _verbose: Verbose = 0,
) -> None:
    """Print state, members and lag of groups.

    The lag of a partition is the number of offsets from the group's commit to the end of the log. Exit code 1: there
    is no such group.
    """
    from kwire.cli.admin.group_report import GroupReport
    from kwire.cli.admin.session import cluster_view

    with cluster_view(bootstrap, properties, config) as view:
        reports = [GroupReport.of(view, name) for name in named("group", names, more_names)]
        if as_json:
            print_lines(json_lines([report.to_json() for report in reports]))
        else:
            print_lines([line for report in reports if not report.is_missing for line in report.lines()])
        missing = [report for report in reports if report.is_missing]
        for line in (line for report in missing for line in report.lines()):
            print(f"kwire: {line}", file=sys.stderr)
        if missing:
            raise typer.Exit(FAILED)


@groups_commands.command("watch")
def watch_group(
    name: Name = None,
    more_names: NameAsOption = None,
    bootstrap: Servers = None,
    properties: Properties = None,
    config: ConfigFile = None,
    every_s: Every = 2.0,
    looks: Looks = None,
    _verbose: Verbose = 0,
) -> None:
    """Print a group's lag and its records per second, again and again."""
    from kwire.cli.admin.session import cluster_view
    from kwire.cli.admin.watching import watch

    with cluster_view(bootstrap, properties, config) as view:
        group = the_one("group", [name] if name else None, more_names)
        with StopSignals() as signals:
            watch(view, group, every_s=every_s, looks=looks, is_stopped=lambda: signals.received is not None)
        signals.exit_if_received()


@groups_commands.command("reset")
def reset_group(
    name: Name = None,
    more_names: NameAsOption = None,
    topics: Topics = None,
    all_topics: AllTopics = False,
    to: To = None,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    shift_by: ShiftBy = None,
    execute: Execute = False,
    dry_run: DryRun = False,
    bootstrap: Servers = None,
    properties: Properties = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
    _verbose: Verbose = 0,
) -> None:
    """Set the committed offsets of a group without members.

    Shows what it would commit; with --execute, commits it. An offset outside the log becomes its beginning or its end.
    """
    from kwire.cli.admin.resetting import Resetting
    from kwire.cli.admin.session import cluster_view

    with cluster_view(bootstrap, properties, config) as view:
        if execute and dry_run:
            raise ConfigError("--execute commits, --dry-run does not; give one of them")
        start = chosen_start(to, to_earliest=to_earliest, to_latest=to_latest, shift_by=shift_by)
        group = the_one("group", [name] if name else None, more_names)
        resetting = Resetting(view, group, topics or (), all_topics=all_topics)
        outcome = resetting.run(start, shift_by, execute=execute)
        print_lines(json_lines(outcome.to_json()) if as_json else outcome.lines())
        if outcome.has_failed:
            raise typer.Exit(FAILED)


def chosen_start(to: str | None, *, to_earliest: bool, to_latest: bool, shift_by: int | None) -> Start | None:
    """The start to reset to, or None to shift. Raises: ConfigError, unless exactly one option is given."""
    given = [to] if to is not None else []
    given += ["earliest"] if to_earliest else []
    given += ["latest"] if to_latest else []
    if len(given) + (shift_by is not None) != 1:
        raise ConfigError("say where to, once: --to START (earliest, latest, an offset, a time), or --shift-by N")
    return starts.parse_start(given[0], "--to") if given else None
