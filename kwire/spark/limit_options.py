"""The options that say where a read starts and ends, in their order of precedence. Pure."""

from __future__ import annotations

from typing import NamedTuple

from kwire.model import TopicPartition
from kwire.spark.errors import OptionError, start_behind_end, unmatched_partitions
from kwire.spark.limits import (
    EARLIEST,
    EARLIEST_OFFSET,
    LATEST,
    LATEST_OFFSET,
    Earliest,
    GlobalTimestamp,
    Latest,
    Limit,
    OnNoMatch,
    SpecificOffsets,
    SpecificTimestamps,
)
from kwire.spark.offsets import offsets_from_json, timestamps_from_json
from kwire.spark.option_values import GivenOptions


class _Names(NamedTuple):
    """The options for one end of the range, the strongest first."""

    timestamp: str
    offsets_by_timestamp: str
    offsets: str


_STARTING = _Names("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDING = _Names("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")


def batch_limits(given: GivenOptions) -> tuple[Limit, Limit]:
    """Where a batch starts and ends: by default, at the ends of the log.

    Raises:
        OptionError: A value that cannot be, or cannot be in a batch.
    """
    start = _limit(given, _STARTING, EARLIEST)
    if isinstance(start, Latest):
        raise OptionError("Option 'startingOffsets': starting offset can't be latest for batch queries on Kafka")
    if (tp := _with_offset(start, LATEST_OFFSET)) is not None:
        raise OptionError(f"startingOffsets for {tp} can't be latest for batch queries on Kafka")
    end = _limit(given, _ENDING, LATEST)
    if isinstance(end, Earliest):
        raise OptionError("Option 'endingOffsets': ending offset can't be earliest for batch queries on Kafka")
    if (tp := _with_offset(end, EARLIEST_OFFSET)) is not None:
        raise OptionError(
            f"Option 'endingOffsets': ending offset for {tp} can't be earliest for batch queries on Kafka"
        )
    return start, end


def stream_limit(given: GivenOptions) -> Limit:
    """Where a new streaming query starts: by default, at the end of the log.

    Raises:
        OptionError: A value that cannot be, or an option of batches. (`endingTimestamp` is ignored, as Spark does.)
    """
    for name, what in ((_ENDING.offsets, "ending offset"), (_ENDING.offsets_by_timestamp, "ending timestamp")):
        if name in given:
            raise OptionError(f"Option '{name}': {what} not valid in streaming queries")
    return _limit(given, _STARTING, LATEST)


def check_order(start: Limit, end: Limit) -> None:
    """Limits that can be compared as they are have to be in order.

    Raises:
        OffsetsError: The start lies behind the end, or they are of different partitions.
    """
    if isinstance(start, SpecificOffsets) and isinstance(end, SpecificOffsets):
        kind, starts, ends = "offset", start.offsets, end.offsets
    elif isinstance(start, SpecificTimestamps) and isinstance(end, SpecificTimestamps):
        kind, starts, ends = "timestamp", start.timestamps_ms, end.timestamps_ms
    else:
        return
    if starts.keys() != ends.keys():
        raise unmatched_partitions(starts, ends)
    for tp in sorted(starts):
        if starts[tp] > ends[tp] >= 0:
            raise start_behind_end(kind, starts[tp], ends[tp], tp)


def _with_offset(limit: Limit, offset: int) -> TopicPartition | None:
    """A partition that this offset was given for."""
    offsets = limit.offsets if isinstance(limit, SpecificOffsets) else {}
    return next((tp for tp in sorted(offsets) if offsets[tp] == offset), None)


def _limit(given: GivenOptions, names: _Names, default: Limit) -> Limit:
    on_no_match = _on_no_match(given)
    if names.timestamp in given:
        text = given[names.timestamp].strip()
        try:
            return GlobalTimestamp(int(text), on_no_match)
        except ValueError:
            raise OptionError(f"Option '{names.timestamp}': Expected a single long value, got {text}") from None
    if names.offsets_by_timestamp in given:
        return SpecificTimestamps(_timestamps(names.offsets_by_timestamp, given), on_no_match)
    if names.offsets not in given:
        return default
    text = given[names.offsets].strip()
    named: dict[str, Limit] = {"latest": LATEST, "earliest": EARLIEST}
    return named.get(text.lower()) or _specific(names.offsets, text)


def _specific(name: str, text: str) -> SpecificOffsets:
    try:
        offsets = offsets_from_json(text)
    except OptionError as error:
        raise OptionError(f"Option '{name}': {error}") from error
    for tp in sorted(offsets):
        if offsets[tp] < EARLIEST_OFFSET:
            raise OptionError(f"Option '{name}': {tp} has no offset {offsets[tp]}; -1 is the latest, -2 the earliest")
    return SpecificOffsets(offsets)


def _timestamps(name: str, given: GivenOptions) -> dict[TopicPartition, int]:
    try:
        return timestamps_from_json(given[name].strip())
    except OptionError as error:
        raise OptionError(f"Option '{name}': {error}") from error


def _on_no_match(given: GivenOptions) -> OnNoMatch:
    name = "startingOffsetsByTimestampStrategy"
    text = given.get(name, "error")
    try:
        return OnNoMatch(text.lower())
    except ValueError:
        raise OptionError(f"Option '{name}': No value found for '{text.upper()}'; there are error and latest") from None
