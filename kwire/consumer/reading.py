"""`read`: topics from one end to the other, or a part of them, in one line."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Generic, NoReturn, Self, TypeAlias, Unpack, cast, overload

from kwire.clock import Deadline
from kwire.config import Deserialize, ResetKind, Settings
from kwire.consumer.arguments import checked_bound, checked_topic, hint_at_file, topics_and_config
from kwire.consumer.reading_losses import ANOTHER_LOG, begin_anew
from kwire.consumer.sync import Consumer
from kwire.errors import (
    ConfigError,
    InvalidArgumentError,
    KafkaTimeoutError,
    LogTruncationError,
    OffsetOutOfRangeError,
)
from kwire.fetching.columns import Records
from kwire.model import K, Record, TopicPartition, V

# A log may end in what nobody may see, such as aborted records: the position moves behind it, and no poll returns.
POLL_SECONDS = 0.05
# Milliseconds since 1970, of the years 2001 to 2286. As a rule no topic has so many records.
AS_MILLISECONDS = range(10**12, 10**13)
Bound: TypeAlias = int | datetime
"""An offset, -N for N before the end of each partition, or a time."""


@overload
def read(
    *topics: str | Mapping[str, object],
    start: Bound | None = None,
    end: Bound | None = None,
    key_deserializer: Deserialize[K] | None = None,
    value_deserializer: Deserialize[V] | None = None,
    **settings: Unpack[Settings],
) -> Reading[K, V]: ...


# For `read("orders", **settings)` of any dictionary: see `Facade`.
@overload
def read(
    *topics: str | Mapping[str, object],
    start: object = None,
    end: object = None,
    __unpacked__: object,
) -> Reading[bytes, bytes]: ...


def read(
    *topics: str | Mapping[str, object],
    start: object = None,
    end: object = None,
    key_deserializer: Deserialize[K] | None = None,
    value_deserializer: Deserialize[V] | None = None,
    **settings: object,
) -> Reading[K, V]:
    """All records of topics, from the beginning to where the topics end when this is called.

    It needs no group, and commits nothing. Each partition's records are in order.

    Args:
        topics: One or more; a dictionary of settings may come before them.
        start: Where to begin in each partition. An offset; -N for the last N records; or a datetime with a time zone,
            for the first record of that time or later. None: at the beginning, or where `auto_offset_reset` says.
        end: Where to stop in each partition, given like `start`: the record there is not read any more. None: where the
            partitions end now.
        key_deserializer: Makes keys of bytes.
        value_deserializer: Makes values of bytes.
        settings: As of `Consumer`, but no `group_id`. If you pass an `auto_offset_reset` other than "none", reading
            goes on behind records that were deleted before it came to them: what you get has a gap.

    Returns:
        An iterator, which closes its consumer at the end, or when it is dropped.

    Raises:
        InvalidArgumentError: There is no such topic, none is named, there is a group, or a time has no zone.
        KafkaTimeoutError: Nothing has come for `default_api_timeout_ms`. The message says why: the topic was deleted
            meanwhile, say, or a partition has no leader.
        OffsetOutOfRangeError: Raised by the iterator: after it had begun with a partition, records were deleted that it
            had yet to read. The message says which. Not with an `auto_offset_reset` of yours.
        LogTruncationError: The iterator raises it if a topic is recreated, or its log truncated, while it is read.
        RecordDeserializationError: Raised by the iterator, like all that a poll raises. From then on each step raises
            it: the iterator does not go on behind a bad record. A deserializer of yours may return something in place
            of a bad value.
    """
    names, config = topics_and_config(topics, None)
    begin_at, end_at = checked_bound("start", start), checked_bound("end", end)
    if not names:
        raise InvalidArgumentError("name a topic to read")
    deserializers = {"key_deserializer": key_deserializer, "value_deserializer": value_deserializer}
    keywords = settings | {name: fn for name, fn in deserializers.items() if fn is not None}
    try:
        consumer: Consumer[K, V] = Consumer(_without_resets(config or {}, keywords))
    except ConfigError as error:
        hint_at_file(error, "read", names)
        raise
    consumer._session.link.called_as = "kwire.read"
    try:
        if consumer.config.group_id is not None:
            raise InvalidArgumentError(
                "read() has no group, and commits nothing: leave group_id out, or use a Consumer"
            )
        starts, ends = _range(consumer, names, begin_at, end_at)
    except BaseException:
        consumer.close()
        raise
    records = _records(consumer, starts, ends)
    next(records)
    return Reading(records)


class Reading(chain[Record[K, V]], Generic[K, V]):
    """What `read` returns: it yields records. Once it has raised an error, each further step raises it again: a
    generator that has raised would just end."""

    _records: Generator[Record[K, V]]

    def __new__(cls, records: Generator[Record[K, V]]) -> Self:
        errors: list[Exception] = []
        made = super().__new__(cls, _noting(records, errors), _Raising(errors))
        made._records = records
        return made

    def close(self) -> None:
        """Close the iterator, and its consumer."""
        self._records.close()


def _noting(records: Iterator[Record[K, V]], errors: list[Exception]) -> Iterator[Record[K, V]]:
    try:
        yield from records
    except Exception as error:
        errors.append(error)
        raise


class _Raising:
    def __init__(self, errors: list[Exception]) -> None:
        self._errors = errors

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> NoReturn:
        if not self._errors:
            raise StopIteration
        raise self._errors[0].with_traceback(None)


def _without_resets(config: Mapping[str, object], keywords: Mapping[str, object]) -> Mapping[str, object]:
    """The settings, by default without a reset, and without making a topic that is missing by asking for it.

    A reset would go on behind records that are lost. Without one, `read` seeks to the beginning itself.
    """
    given = {**config, **keywords}
    for name, value in (("auto_offset_reset", "none"), ("allow_auto_create_topics", False)):
        if {name, name.replace("_", ".")}.isdisjoint(given):
            given[name] = value
    return given


def _range(
    consumer: Consumer[K, V], topics: tuple[str, ...], start: Bound | None, end: Bound | None
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where to seek to, unless `auto_offset_reset` does that; and the ends of the partitions that have something."""
    found = _partitions(consumer, topics)
    begins, log_ends = consumer.beginning_offsets(found), consumer.end_offsets(found)

    def within_log(bound: Bound) -> dict[TopicPartition, int]:
        if isinstance(bound, int) and bound in AS_MILLISECONDS and all(bound > end for end in log_ends.values()):
            raise InvalidArgumentError(f"{bound} is behind the end of the topic; if it is a time, give a datetime")
        at = _offsets(consumer, bound, log_ends)
        return {tp: min(max(offset, begins[tp]), log_ends[tp]) for tp, offset in at.items()}

    starts = begins if start is None else within_log(start)
    ends = log_ends if end is None else within_log(end)
    ends = {tp: offset for tp, offset in ends.items() if starts[tp] < offset}
    resets = start is None and consumer.config.auto_offset_reset.kind is not ResetKind.NONE
    return {} if resets else {tp: starts[tp] for tp in ends}, ends


def _partitions(consumer: Consumer[K, V], topics: tuple[str, ...]) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    for topic in map(checked_topic, topics):
        infos = consumer.partitions_for(topic)
        if not infos:
            raise InvalidArgumentError(f"there is no topic {topic!r}, or this client may not see it")
        found += [TopicPartition(info.topic, info.partition) for info in infos]
    return found


def _offsets(
    consumer: Consumer[K, V], bound: Bound, log_ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    if isinstance(bound, datetime):
        found = consumer.offsets_for_times(dict.fromkeys(log_ends, bound))
        return {tp: log_ends[tp] if at is None else at.offset for tp, at in found.items()}
    return {tp: bound if bound >= 0 else end + bound for tp, end in log_ends.items()}


def _records(
    consumer: Consumer[K, V], starts: Mapping[TopicPartition, int], ends: dict[TopicPartition, int]
) -> Generator[Record[K, V]]:
    """Its first item is no record. `read` takes that one, so that the generator has begun: from then on closing or
    dropping it closes the consumer."""
    silent_ms = float(consumer.config.default_api_timeout_ms)
    with consumer:
        yield cast("Record[K, V]", None)
        consumer.assign(ends.keys())
        for tp, offset in starts.items():
            consumer.seek(tp, offset)
        read_to: dict[TopicPartition, int] = {}
        deadline = Deadline.after(silent_ms)
        while ends:
            try:
                records = consumer.poll(POLL_SECONDS)
                reached = _reached(consumer, records, ends)
            except OffsetOutOfRangeError as error:
                begin_anew(consumer, error, read_to, ends)
                records, reached = Records(), {}
            for tp in records.partitions():
                rows = records[tp]
                _check_goes_on(tp, read_to.get(tp, starts.get(tp, 0)), rows[0].offset)
                yield from (record for record in rows if tp in ends and record.offset < ends[tp])
            if records:
                read_to |= reached
            if through := [tp for tp, offset in reached.items() if offset >= ends.get(tp, offset + 1)]:
                consumer.pause(through)
                ends = {tp: end for tp, end in ends.items() if tp not in through}
            if records or through:
                deadline = Deadline.after(silent_ms)
            elif deadline.expired:
                which = ", ".join(map(str, sorted(ends)))
                raise KafkaTimeoutError(f"nothing came of {which} for {silent_ms:.0f} ms{_why(consumer, ends)}")


def _reached(
    consumer: Consumer[K, V], records: Records[K, V], ends: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """The positions. A log may end in batches that have no records: only the position tells."""
    if records:
        return {tp: at.offset for tp, at in records.next_offsets().items()}
    return {tp: consumer.position(tp) for tp in ends}


def _why(consumer: Consumer[K, V], partitions: Collection[TopicPartition]) -> str:
    """Why no records of these come, as `describe()` says it."""
    found = consumer.describe()
    waiting = [each for each in found.partitions if TopicPartition(each.topic, each.partition) in partitions]
    causes = [*found.causes, *(cause for each in waiting for cause in each.causes)]
    texts = dict.fromkeys(f"{cause.text}{f': {cause.error}' if cause.error else ''}" for cause in causes)
    return f": {'; '.join(texts)}" if texts else ""


def _check_goes_on(tp: TopicPartition, wanted: int, offset: int) -> None:
    """Raise if a reset has gone back: what comes now is in another log than what came before, or was to come."""
    if offset < wanted:
        error = LogTruncationError({tp: wanted}, {})
        where = f"{tp} begins anew at offset {offset}, where it was to be read from offset {wanted} on"
        error.args = (f"{where}: {ANOTHER_LOG}",)
        raise error
