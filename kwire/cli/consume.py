"""`kwire consume`: print the records of topics."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import typer

from kwire.cli import consume_options as options
from kwire.cli import starts
from kwire.cli.catching_up import CatchingUp
from kwire.cli.console_properties import split_properties, with_properties
from kwire.cli.ends import End, Ends, parse_end
from kwire.cli.exits import StopSignals, clean_exits
from kwire.cli.formats import Encode, FormatOptions, encoder
from kwire.cli.options import ConfigFile, Properties, Servers, Verbose, flag, settings_of
from kwire.cli.output import Output
from kwire.cli.patience import said_when_slow
from kwire.cli.reading import Reader
from kwire.cli.reading_consumer import ReadingConsumer
from kwire.cli.starts import Start, StartKind
from kwire.cli.times import Times
from kwire.cli.topic_choice import TopicChoice
from kwire.config import ConsumerConfig
from kwire.consumer.describe_on_signal import describe_on_signal
from kwire.errors import ConfigError, IllegalStateError
from kwire.metrics.table import format_metrics
from kwire.processing.policies import OnDataLoss

# Looking into a topic shows what is in it, and must not create it by a slip of the finger.
DEFAULTS: dict[str, object] = {
    "auto_offset_reset": "earliest",
    "allow_auto_create_topics": False,
    "max_poll_records": 5_000,  # the library's 500 would flush the output ten times as often
}

RESET_POLICIES = {StartKind.EARLIEST: "earliest", StartKind.LATEST: "latest"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingPlan:
    """What to read, and how far."""

    topics: TopicChoice
    partitions: tuple[int, ...] = ()
    in_group: bool = False
    start: Start | None = None
    end: End | None = None
    count: int | None = None
    exit_at_end: bool = False
    timeout_ms: int | None = None
    skips_losses: bool = False
    shows_metrics: bool = False


def consume_topics(
    topics: options.TopicNames = None,
    more_topics: options.MoreTopics = None,
    include: options.Include = None,
    bootstrap: Servers = None,
    group: options.Group = None,
    partition: options.Partitions = None,
    start: options.From = None,
    from_beginning: options.FromBeginning = False,
    until: options.Until = None,
    count: options.Count = None,
    exit_at_end: options.ExitAtEnd = False,
    timeout_ms: options.TimeoutMs = None,
    isolation_level: options.Isolation = None,
    on_data_loss: options.DataLoss = OnDataLoss.STOP,
    format_name: options.FormatName = "text",
    fields: options.Print = None,
    key_format: options.KeyFormat = "text",
    value_format: options.ValueFormatName = "text",
    key_separator: options.KeySeparator = None,
    delimiter: options.Delimiter = None,
    null: options.Null = None,
    times: options.TimesName = Times.MS,
    escape: options.Escape = None,
    properties: Properties = None,
    config: ConfigFile = None,
    metrics: options.Metrics = False,
    _verbose: Verbose = 0,
) -> None:
    """Print the records of topics.

    Settings come from options, from KWIRE_<SETTING> in the environment (KWIRE_BOOTSTRAP_SERVERS), and from a file, in
    this order of precedence. `kwire config` lists them. Passwords and keys belong in the environment
    (KWIRE_SASL_PASSWORD) or in a file: every user of the machine can see a command line.
    """
    with clean_exits():
        formatter, other_properties = split_properties(properties or ())
        typed = FormatOptions(
            format=format_name,
            columns=tuple(name.strip() for name in (fields or "").split(",") if name.strip()),
            key_separator=key_separator,
            delimiter=delimiter,
            null=null,
            times=times,
            key_format=key_format,
            value_format=value_format,
            escapes=escape,
        )
        settings = settings_of(
            bootstrap,
            other_properties,
            config,
            DEFAULTS,
            flag("--group", "group_id", group),
            flag("--isolation-level", "isolation_level", isolation_level),
        )
        encode = encoder(with_properties(typed, formatter), settings)
        plan = ReadingPlan(
            topics=TopicChoice.of([*(topics or ()), *(more_topics or ())], include or ()),
            partitions=tuple(sorted(set(partition or ()))),
            in_group=settings.get("group_id") is not None,
            start=_start(start, from_beginning=from_beginning),
            end=None if until is None else parse_end(until),
            count=count,
            exit_at_end=exit_at_end,
            timeout_ms=timeout_ms,
            skips_losses=on_data_loss is OnDataLoss.SKIP,
            shows_metrics=metrics,
        )
        run(plan, settings | group_settings(plan), encode)


def _start(text: str | None, *, from_beginning: bool) -> Start | None:
    if from_beginning and text is not None:
        raise ConfigError("--from-beginning and --from say where to begin; give one of them")
    if from_beginning:
        return Start(StartKind.EARLIEST)
    return None if text is None else starts.parse_start(text)


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
        with said_when_slow(servers_of(settings)):
            partitions = plan.topics.find(consumer, plan.partitions)
        ends = Ends(consumer, plan.end, exit_at_end=plan.exit_at_end, partitions=partitions)
        if plan.in_group:
            consumer.subscribe(plan.topics.subscription())
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
            timeout_ms=plan.timeout_ms,
            find_ends=ends.find,
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


def servers_of(settings: Mapping[str, object]) -> Sequence[object]:
    """Where a client with these settings begins."""
    servers = settings.get("bootstrap_servers")
    return servers if isinstance(servers, tuple) else ConsumerConfig().bootstrap_servers
