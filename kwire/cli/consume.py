"""`kwire consume`: print the records of a topic."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kwire.cli import formats, starts
from kwire.cli.catching_up import CatchingUp
from kwire.cli.config_files import SettingLine
from kwire.cli.exits import StopSignals, clean_exits
from kwire.cli.formats import Encode, Format
from kwire.cli.output import Output
from kwire.cli.reading import Reader, ReadingConsumer
from kwire.cli.settings import collect_settings
from kwire.cli.starts import Start, StartKind
from kwire.consumer.describe_on_signal import describe_on_signal
from kwire.errors import ConfigError, IllegalStateError, InvalidArgumentError
from kwire.metrics.table import format_metrics
from kwire.model import TopicPartition
from kwire.processing.policies import OnDataLoss

# Looking into a topic shows what is in it, and must not create it by a slip of the finger.
DEFAULTS: dict[str, object] = {
    "auto_offset_reset": "earliest",
    "allow_auto_create_topics": False,
    "max_poll_records": 5_000,  # the library's 500 would flush the output ten times as often
}

RESET_POLICIES = {StartKind.EARLIEST: "earliest", StartKind.LATEST: "latest"}

Topic = Annotated[str, typer.Argument(help="The topic to read.", show_default=False)]
Servers = Annotated[str | None, typer.Option("--bootstrap", "-b", help="Brokers to begin with, host:port,host:port.")]
Group = Annotated[
    str | None, typer.Option("--group", "-g", help="Read as a member of this group, and commit. Default: no group.")
]
Partitions = Annotated[
    list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this partition; may be repeated.")
]
From = Annotated[str | None, typer.Option("--from", "-o", metavar="START", help=starts.HELP)]
Count = Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after this many records.")]
ExitAtEnd = Annotated[
    bool, typer.Option("--exit-at-end", "-e", help="Stop at what is the end of each partition right now.")
]
DataLoss = Annotated[
    OnDataLoss,
    typer.Option(
        "--on-data-loss",
        help="Over a damaged batch, or a position that the log has lost: stop, or skip it and say which offsets.",
    ),
]
FormatName = Annotated[
    Format, typer.Option("--format", "-f", help="Values as lines, records as JSON lines, or bare bytes.")
]
KeySeparator = Annotated[
    str | None, typer.Option("--key-separator", "-K", help="With text: print the key and this before the value.")
]
Delimiter = Annotated[str | None, typer.Option("--delimiter", "-D", help="With raw: print this after each value.")]
Properties = Annotated[
    list[str] | None, typer.Option("--property", "-X", metavar="NAME=VALUE", help="A setting; may be repeated.")
]
Metrics = Annotated[bool, typer.Option("--metrics", help="At the end, print the consumer's metrics to stderr.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings from a properties or TOML file.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingPlan:
    """What to read, and how far."""

    topic: str
    partitions: tuple[int, ...] = ()
    in_group: bool = False
    start: Start | None = None
    count: int | None = None
    exit_at_end: bool = False
    skips_losses: bool = False
    shows_metrics: bool = False


def consume_topic(
    topic: Topic,
    bootstrap: Servers = None,
    group: Group = None,
    partition: Partitions = None,
    start: From = None,
    count: Count = None,
    exit_at_end: ExitAtEnd = False,
    on_data_loss: DataLoss = OnDataLoss.STOP,
    format_name: FormatName = Format.TEXT,
    key_separator: KeySeparator = None,
    delimiter: Delimiter = None,
    properties: Properties = None,
    config: ConfigFile = None,
    metrics: Metrics = False,
) -> None:
    """Print the records of a topic.

    Settings come from options, from KWIRE_<SETTING> in the environment (KWIRE_BOOTSTRAP_SERVERS), and from a file, in
    this order of precedence. `kwire config` lists them. Passwords and keys belong in the environment
    (KWIRE_SASL_PASSWORD) or in a file: every user of the machine can see a command line.
    """
    with clean_exits():
        encode = encoder(format_name, key_separator, delimiter)
        settings = collect_settings(
            flags=[*_flag("--bootstrap", "bootstrap_servers", bootstrap), *_flag("--group", "group_id", group)],
            properties=properties or (),
            environ=os.environ,
            file=config,
            defaults=DEFAULTS,
        )
        plan = ReadingPlan(
            topic=topic,
            partitions=tuple(sorted(set(partition or ()))),
            in_group=settings.get("group_id") is not None,
            start=None if start is None else starts.parse_start(start),
            count=count,
            exit_at_end=exit_at_end,
            skips_losses=on_data_loss is OnDataLoss.SKIP,
            shows_metrics=metrics,
        )
        run(plan, settings | group_settings(plan), encode)


def encoder(format_name: Format, key_separator: str | None, delimiter: str | None) -> Encode:
    """The function for a format. Raises: ConfigError, for an option that belongs to another one."""
    if key_separator is not None and format_name is not Format.TEXT:
        raise ConfigError(f"--key-separator is for --format text, not {format_name.value}")
    if delimiter is not None and format_name is not Format.RAW:
        raise ConfigError(f"--delimiter is for --format raw, not {format_name.value}")
    match format_name:
        case Format.TEXT:
            separator = None if key_separator is None else formats.unescape("--key-separator", key_separator)
            return formats.text(separator)
        case Format.RAW:
            return formats.raw(formats.unescape("--delimiter", delimiter or ""))
        case Format.JSON:
            return formats.json_lines


def group_settings(plan: ReadingPlan) -> dict[str, object]:
    """What `--from` means in a group: it goes on from its commits, and begins there only where it has none.

    Raises:
        ConfigError: the plan is not one for a group.
    """
    if not plan.in_group:
        return {}
    if plan.partitions:
        raise ConfigError("a group shares out the partitions itself; leave out either --partition or the group")
    if plan.start is None:
        return {}
    if plan.start.kind not in RESET_POLICIES:
        raise ConfigError("a group goes on from its commits; --from earliest or latest is for when it has none")
    return {"auto_offset_reset": RESET_POLICIES[plan.start.kind]}


def run(plan: ReadingPlan, settings: Mapping[str, object], encode: Encode) -> None:
    """Read as planned."""
    output = Output.standard()
    with contextlib.suppress(IllegalStateError):  # no such signal here: then it cannot be asked
        describe_on_signal()
    with closing(open_consumer(settings)) as consumer:
        partitions = choose_partitions(consumer, plan)
        ends = consumer.end_offsets(partitions) if plan.exit_at_end else None
        if plan.in_group:
            consumer.subscribe([plan.topic])
        else:
            consumer.assign(partitions)
            if plan.start is not None:
                starts.seek_to_start(consumer, plan.start, partitions)
        catching_up = CatchingUp(consumer) if settings.get("enable_parallel_rebalance") else None
        reader = Reader(
            consumer,
            encode,
            output,
            count=plan.count,
            ends=ends,
            catching_up=catching_up,
            skips_losses=plan.skips_losses,
        )
        with StopSignals() as signals:
            reader.run(lambda: signals.received is not None)
        if plan.shows_metrics:
            typer.echo(format_metrics(consumer.metrics()), err=True)
    signals.exit_if_received()


def open_consumer(settings: Mapping[str, object]) -> ReadingConsumer:
    """The real one, imported when it is needed: it brings numpy, trio and the protocol along."""
    from kwire.consumer.sync import Consumer

    return Consumer(config=settings)


def choose_partitions(consumer: ReadingConsumer, plan: ReadingPlan) -> list[TopicPartition]:
    """All partitions of the topic, or the wanted ones. Raises: InvalidArgumentError, if there are none such."""
    existing = {info.partition for info in consumer.partitions_for(plan.topic)}
    if not existing:
        raise InvalidArgumentError(f"there is no topic {plan.topic!r}, or this client may not see it")
    missing = set(plan.partitions) - existing
    if missing:
        raise InvalidArgumentError(
            f"topic {plan.topic!r} has no partition {min(missing)}; it has {len(existing)}, from {min(existing)} on"
        )
    return [TopicPartition(plan.topic, number) for number in plan.partitions or sorted(existing)]


def _flag(option: str, name: str, value: str | None) -> Sequence[SettingLine]:
    return [] if value is None else [SettingLine(option, name, value)]
