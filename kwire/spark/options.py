"""All options of the data source, read and checked: those of Spark's `kafka` source, and a few of kwire's own. Pure.

Names are the same in any case. What Spark's source refuses is refused in the same words; what it ignores in a batch is
ignored with the same warning.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kwire.spark.errors import OptionError
from kwire.spark.kafka_options import PREFIX, kafka_settings, task_config
from kwire.spark.kafka_settings import KafkaSettings
from kwire.spark.limit_options import batch_limits, check_order, stream_limit
from kwire.spark.limits import LATEST, Limit
from kwire.spark.offsets import partitions_from_json
from kwire.spark.option_values import GivenOptions
from kwire.spark.strategies import AssignPartitions, Strategy, SubscribeTopics, pattern_of

log = logging.getLogger(__name__)

OWN_PREFIX = "kwire."
# By lower-case name, as users write them.
OWN_OPTIONS = {
    name.lower(): name
    for name in (
        *("kwire.checkpointLocation", "kwire.commitOffsetsToGroup", "kwire.rangesPerTask", "kwire.sourceIndex"),
        "kwire.skipDamagedBatches",
        *("kwire.freshFirst", "kwire.freshOffsetsPerTrigger", "kwire.backfillOffsetsPerTrigger"),
    )
}
_STRATEGIES = ("subscribe", "subscribepattern", "assign")
_OF_SPARK = """
subscribe subscribePattern assign
startingOffsets startingOffsetsByTimestamp startingTimestamp startingOffsetsByTimestampStrategy
endingOffsets endingOffsetsByTimestamp endingTimestamp
failOnDataLoss includeHeaders groupIdPrefix minPartitions maxRecordsPerPartition
maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay
fetchOffset.numRetries fetchOffset.retryIntervalMs kafkaConsumer.pollTimeoutMs
"""
_KNOWN = {name.lower(): name for name in _OF_SPARK.split()}
_OF_STREAMS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "kwire.freshFirst")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a query is to do. Picklable: tasks get it whole.

    Attributes:
        kafka: Settings of kwire's consumer, under its names; secrets travel in them, see `KafkaSettings`.
        poll_timeout_ms: How long a task waits for records that should be there.
        offset_attempts, offset_retry_interval_ms: How often, and how far apart, the driver asks for offsets.
        checkpoint_location: A query's checkpoint, for its initial offsets; `source_index` is which of its sources.
        commit_offsets_to_group: Where progress is committed for tools that show lag; never read.
        skip_damaged_batches: Whether a task goes on behind a batch that is damaged each time it comes.
        ranges_per_task: How many topic partitions one task may read at once.
    """

    strategy: Strategy
    start: Limit
    end: Limit
    fail_on_data_loss: bool
    include_headers: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: float
    poll_timeout_ms: float
    offset_attempts: int
    offset_retry_interval_ms: int
    kafka: KafkaSettings
    checkpoint_location: str | None
    source_index: int
    commit_offsets_to_group: str | None
    skip_damaged_batches: bool
    ranges_per_task: int


def check_options(options: Mapping[str, str]) -> None:
    """Raise what is wrong for batches and streams alike: all but where they begin and end.

    Raises:
        OptionError: One is missing, or cannot be.
    """
    _read(GivenOptions(options), LATEST, LATEST)


def batch_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of `spark.read`.

    Raises:
        OptionError: One is missing, or cannot be.
        OffsetsError: The start lies behind the end.
    """
    given = GivenOptions(options)
    start, end = batch_limits(given)
    read = _read(given, start, end)
    _warn_of_misspelled(given)
    for name in _OF_STREAMS:
        if name in given:
            log.warning("%s option ignored in batch queries", name)
    check_order(start, end)
    return read


def stream_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of `spark.readStream`; raises as `batch_options`."""
    given = GivenOptions(options)
    read = _read(given, stream_limit(given), LATEST)
    _warn_of_misspelled(given)
    return read


def _read(given: GivenOptions, start: Limit, end: Limit) -> SourceOptions:
    _check_names(given)
    options = SourceOptions(
        strategy=_strategy(given),
        start=start,
        end=end,
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        include_headers=given.flag("includeHeaders", default=False),
        min_partitions=_positive("minPartitions", given.integer("minPartitions")),
        max_records_per_partition=_positive("maxRecordsPerPartition", given.long("maxRecordsPerPartition")),
        max_offsets_per_trigger=given.long("maxOffsetsPerTrigger"),
        min_offsets_per_trigger=given.long("minOffsetsPerTrigger"),
        max_trigger_delay_ms=given.duration_ms("maxTriggerDelay", default_ms=15 * 60e3),
        poll_timeout_ms=_or(given.long("kafkaConsumer.pollTimeoutMs"), 120_000),
        offset_attempts=_or(given.integer("fetchOffset.numRetries"), 3),
        offset_retry_interval_ms=_or(given.long("fetchOffset.retryIntervalMs"), 1_000),
        kafka=kafka_settings(given),
        checkpoint_location=given.get("kwire.checkpointLocation"),
        source_index=_or(given.integer("kwire.sourceIndex"), 0),
        commit_offsets_to_group=given.get("kwire.commitOffsetsToGroup"),
        skip_damaged_batches=given.flag("kwire.skipDamagedBatches", default=False),
        ranges_per_task=_or(_positive("kwire.rangesPerTask", given.integer("kwire.rangesPerTask")), 1),
    )
    task_config(options.kafka)  # settings that contradict each other are said now, and not by each task
    _check_rates(options)
    return options


def _check_names(given: GivenOptions) -> None:
    for name in given:
        if name.startswith(OWN_PREFIX) and name not in OWN_OPTIONS:
            nearest = _nearest(name, OWN_OPTIONS, cutoff=0.6)
            hint = f"; did you mean {OWN_OPTIONS[nearest[0]]}?" if nearest else ""
            raise OptionError(f"unknown option '{name}'{hint}")


def _warn_of_misspelled(given: GivenOptions) -> None:
    """Spark hands on whatever it does not know; a misspelled option should not pass unnoticed."""
    for name in given:
        if not name.startswith((OWN_PREFIX, PREFIX)) and name not in _KNOWN:
            nearest = _nearest(name, _KNOWN, cutoff=0.8)
            if nearest:
                log.warning("option %r is ignored; did you mean %r?", name, _KNOWN[nearest[0]])


def _strategy(given: GivenOptions) -> Strategy:
    named = [name for name in _STRATEGIES if name in given]
    if len(named) != 1:
        problem = "One of the following options must" if not named else "Only one of the following options can"
        raise OptionError(
            f"{problem} be specified for Kafka source: subscribe, subscribepattern, assign. "
            "See the docs for more details."
        )
    value = given[named[0]]
    match named[0]:
        case "assign":
            if not value.strip().startswith("{"):
                raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is '{value}'")
            return AssignPartitions(partitions_from_json(value))
        case "subscribe":
            topics = frozenset(filter(None, map(str.strip, value.split(","))))
            if not topics:
                raise OptionError(f"No topics to subscribe to as specified value for option 'subscribe' is '{value}'")
            return SubscribeTopics(topics)
        case _:
            if not value.strip():
                raise OptionError(
                    f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{value}'"
                )
            return pattern_of(value.strip())


def _nearest(name: str, known: Collection[str], *, cutoff: float) -> list[str]:
    from difflib import get_close_matches  # for users who misspell

    return get_close_matches(name, known, n=1, cutoff=cutoff)


def _check_rates(options: SourceOptions) -> None:
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise OptionError(f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most}).")


def _positive(name: str, number: int | None) -> int | None:
    if number is not None and number <= 0:
        raise OptionError(f"{name} must be positive")
    return number


def _or(number: int | None, default: int) -> int:
    return default if number is None else number
