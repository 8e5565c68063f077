"""`kwire consume`: print the records of topics."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing

import typer

from kwire.cli import consume_options as options
from kwire.cli import starts
from kwire.cli.catching_up import CatchingUp
from kwire.cli.console_properties import split_properties, with_properties
from kwire.cli.ends import Ends
from kwire.cli.exits import StopSignals, clean_exits
from kwire.cli.formats import Encode, FormatOptions, encoder
from kwire.cli.options import ConfigFile, Properties, Servers, Verbose, flag, settings_of
from kwire.cli.output import Output
from kwire.cli.patience import said_when_slow
from kwire.cli.reading import Reader
from kwire.cli.reading_consumer import ReadingConsumer
from kwire.cli.reading_plan import ReadingPlan, chosen_end, chosen_start, group_settings
from kwire.cli.record_text import UnreadableRecordError
from kwire.cli.registry_settings import RegistrySettings
from kwire.cli.stepping_over import told_at_a_command_line
from kwire.cli.times import Times
from kwire.cli.topic_choice import TopicChoice
from kwire.config import ConsumerConfig, IsolationLevel
from kwire.consumer.describe_on_signal import describe_on_signal
from kwire.errors import CorruptRecordError, IllegalStateError, RecordDeserializationError
from kwire.metrics.table import format_metrics
from kwire.model import TopicPartition
from kwire.processing.policies import OnDataLoss

# Reading a topic must not create it, as a misspelt name would.
DEFAULTS: dict[str, object] = {
    "auto_offset_reset": "earliest",
    "allow_auto_create_topics": False,
    "max_poll_records": 5_000,  # the library's 500 would flush the output ten times as often
}
MIN_PATIENCE_S = 1.0


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
    key_format: options.KeyFormat = None,
    value_format: options.ValueFormatName = None,
    schema_registry: options.SchemaRegistry = None,
    protobuf: options.Protobuf = None,
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
        registry = RegistrySettings()
        settings = settings_of(
            bootstrap,
            other_properties,
            config,
            DEFAULTS,
            flag("--group", "group_id", group),
            flag("--isolation-level", "isolation_level", isolation_level),
            taken=registry.take,
        )
        for name, chosen in (("key_deserializer", key_format), ("value_deserializer", value_format)):
            if chosen is not None:  # then the log's bytes are read, even if a file names deserializers
                settings.pop(name, None)
        typed = FormatOptions(
            format=format_name,
            columns=tuple(name.strip() for name in (fields or "").split(",") if name.strip()),
            key_separator=key_separator,
            delimiter=delimiter,
            null=null,
            times=times,
            key_format=key_format or registry.formats.get("key", "text"),
            value_format=value_format or registry.formats.get("value", "text"),
            registry=registry.settings(schema_registry, os.environ),
            protobuf=protobuf,
            escapes=escape,
        )
        encode = encoder(with_properties(typed, formatter))
        begin = chosen_start(start, from_beginning=from_beginning)
        plan = ReadingPlan(
            topics=TopicChoice.of([*(topics or ()), *(more_topics or ())], include or ()),
            partitions=tuple(sorted(set(partition or ()))),
            in_group=settings.get("group_id") is not None,
            start=begin,
            end=chosen_end(until, begin),
            count=count,
            exit_at_end=exit_at_end,
            timeout_ms=timeout_ms,
            skips_losses=on_data_loss is OnDataLoss.SKIP,
            shows_metrics=metrics,
        )
        run(plan, settings | group_settings(plan), encode)


def run(plan: ReadingPlan, settings: Mapping[str, object], encode: Encode) -> None:
    """Read as the plan says."""
    output = Output.standard()
    with contextlib.suppress(IllegalStateError):  # the platform has no such signal
        describe_on_signal()
    # Signals ask for an end until the consumer is closed: it commits then, and leaves its group.
    with contextlib.ExitStack() as stack, closing(open_consumer(settings)) as consumer:
        with said_when_slow(servers_of(settings)):
            partitions = plan.topics.find(consumer, plan.partitions, _patience_s(plan.timeout_ms))
        ends = Ends(consumer, plan.end, exit_at_end=plan.exit_at_end, partitions=partitions)
        if plan.in_group:
            consumer.subscribe(plan.topics.subscription())
        else:
            consumer.assign(partitions)
            if plan.start is not None:
                starts.seek_to_start(consumer, plan.start, partitions, log_ends=_log_ends(settings))
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
        signals = stack.enter_context(StopSignals())
        _read(reader, signals, str(settings["group_id"]) if plan.in_group else None)
        if plan.shows_metrics:
            typer.echo(format_metrics(consumer.metrics()), err=True)
    signals.exit_if_received()


def _patience_s(timeout_ms: int | None) -> float | None:
    """How long the first answer of a broker is waited for, as long as for a record. Connecting takes a while, of which
    a short timeout for records says nothing."""
    return None if timeout_ms is None else max(timeout_ms / 1000, MIN_PATIENCE_S)


def open_consumer(settings: Mapping[str, object]) -> ReadingConsumer:
    """The real one, imported when it is needed: it brings numpy, trio and the protocol along."""
    from kwire.consumer.sync import Consumer

    return Consumer(config=settings)


def _read(reader: Reader, signals: StopSignals, group: str | None) -> None:
    try:
        reader.run(lambda: signals.received is not None)
    except UnreadableRecordError as error:
        if group is None:
            raise
        raise error.for_group(group) from error
    except (CorruptRecordError, RecordDeserializationError) as error:
        raise told_at_a_command_line(error, group) from error


def _log_ends(
    settings: Mapping[str, object],
) -> Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]] | None:
    """Asks another consumer where logs end, if one with these settings sees them end at the first open transaction."""
    if settings.get("isolation_level") is not IsolationLevel.READ_COMMITTED:
        return None

    def ask(partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        with closing(open_consumer({**settings, "isolation_level": IsolationLevel.READ_UNCOMMITTED})) as other:
            return other.end_offsets(partitions)

    return ask


def servers_of(settings: Mapping[str, object]) -> Sequence[object]:
    """Where a client with these settings begins."""
    servers = settings.get("bootstrap_servers")
    return servers if isinstance(servers, tuple) else ConsumerConfig().bootstrap_servers
