"""The errors of the data source, in the words of Spark's `kafka` source, so that they are found where Spark users look.

Options that cannot be are `ValueError`s, as elsewhere in Python; what the cluster does not have any more is a
`DataLossError`, which `failOnDataLoss` decides about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwire.errors import CorruptRecordError, KafkaError
from kwire.model import TopicPartition

# What Spark says in front of every reason.
_DATA_LOSS = (
    "Some data may have been lost because they are not available in Kafka any more; either the data was aged out by "
    "Kafka or the topic may have been deleted before all the data in the topic was processed. If you don't want your "
    "streaming query to fail on such cases, set the source option failOnDataLoss to false. Reason: "
)
GROUP_ID_WARNING = (
    "Kafka option 'kafka.group.id' has been set on this query. It changes nothing: ranges of offsets are read without "
    "a group. For progress in a group, for tools that show lag, there is the option kwire.commitOffsetsToGroup."
)


class OptionError(ValueError):
    """An option is missing, unknown, or has a value that cannot be."""


class OffsetsError(ValueError):
    """Offsets that do not go together: with each other, or with what is subscribed."""


class DataLossError(KafkaError):
    """Records that were to be read are not there any more; with `failOnDataLoss=false` this is a warning.

    `condition` is Spark's name for the case, such as KAFKA_DATA_LOSS.PARTITIONS_DELETED.
    """

    def __init__(self, case: str, reason: str) -> None:
        self.condition = f"KAFKA_DATA_LOSS.{case}"
        self.reason = reason
        super().__init__(f"[{self.condition}] {_DATA_LOSS}{reason}")


class MalformedTimestampError(KafkaError):
    """A record whose time does not fit into Spark's."""


def names(partitions: Iterable[TopicPartition]) -> str:
    """Partitions as Spark prints a set of them."""
    return f"Set({', '.join(map(str, sorted(partitions)))})"


def places(offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets of partitions as Spark prints a map of them."""
    return f"Map({', '.join(f'{tp} -> {offsets[tp]}' for tp in sorted(offsets))})"


# --- what does not go together -------------------------------------------------------------------------------


def start_does_not_match(specified: Iterable[TopicPartition], assigned: Iterable[TopicPartition]) -> OffsetsError:
    return OffsetsError(
        "[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED] Partitions specified for Kafka start offsets don't match what "
        "are assigned. Maybe topic partitions are created or deleted while the query is running. Use -1 for latest, -2 "
        f"for earliest. Specified: {names(specified)} Assigned: {names(assigned)}"
    )


def start_is_not_of_all(specified: Iterable[TopicPartition], assigned: Iterable[TopicPartition]) -> OffsetsError:
    return OffsetsError(
        "If startingOffsets contains specific offsets, you must specify all TopicPartitions. Use -1 for latest, -2 for "
        f"earliest, if you don't care. Specified: {names(specified)} Assigned: {names(assigned)}"
    )


def timestamps_do_not_match(
    specified: Iterable[TopicPartition], assigned: Iterable[TopicPartition], *, is_start: bool
) -> OffsetsError:
    position = "start" if is_start else "end"
    return OffsetsError(
        "[KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED] Partitions specified for Kafka timestamp based "
        f"{position} offsets don't match what are assigned. Maybe topic partitions are created or deleted while the "
        "query is running, or you didn't specify all the partitions. "
        f"Specified: {names(specified)} Assigned: {names(assigned)}"
    )


def unmatched_partitions(start: Iterable[TopicPartition], end: Iterable[TopicPartition]) -> OffsetsError:
    return OffsetsError(
        "[MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET] The specified start offset and end offset "
        "should have the same topic-partitions. "
        f"Topic-partitions for start offset: {', '.join(map(str, sorted(start)))}, "
        f"topic-partitions for end offset: {', '.join(map(str, sorted(end)))}."
    )


def start_behind_end(kind: str, start: int, end: int, tp: TopicPartition) -> OffsetsError:
    """Args: kind: "offset" or "timestamp"."""
    return OffsetsError(
        f"[UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The specified start {kind} {start} is greater than the end "
        f"{kind} {end} for topic {tp.topic} partition {tp.partition}."
    )


def resolved_start_behind_end(start: int, end: int, tp: TopicPartition) -> OffsetsError:
    return OffsetsError(
        f"[RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The resolved start offset {start} is greater than the "
        f"resolved end offset {end} for topic {tp.topic} partition {tp.partition}. Please investigate in this order: "
        "1. Check whether start offset is set beyond the end offset or the latest available offset after resolution. "
        "2. Check whether the Kafka topic-partition is deleted and re-created."
    )


def no_offset_at(tp: TopicPartition, timestamp_ms: int) -> OffsetsError:
    return OffsetsError(
        f"No offset matched from request of topic-partition {tp} and timestamp {timestamp_ms}. "
        "With startingOffsetsByTimestampStrategy=latest the read begins at the end of such partitions."
    )


def offsets_of_others(topics: Iterable[str], source_index: int) -> OptionError:
    return OptionError(
        f"the checkpoint has source {source_index} at offsets of {', '.join(sorted(topics))}, which this source does "
        "not read. A query that is to read other topics needs another checkpoint, and a pipeline another table. Each "
        "source of a query that has several needs its own number in the option kwire.sourceIndex: 0, 1, ... in the "
        "order in which the query has them"
    )


# --- what is gone ---------------------------------------------------------------------------------------------


def added_partition_does_not_start_at_zero(tp: TopicPartition, offset: int) -> DataLossError:
    return DataLossError(
        "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO", f"Added partition {tp} starts from {offset} instead of 0."
    )


def initial_offsets_not_found(partitions: Iterable[TopicPartition]) -> DataLossError:
    return DataLossError(
        "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
        f"Cannot find initial offsets for partitions {names(partitions)}. They may have been deleted.",
    )


def partitions_deleted(partitions: Iterable[TopicPartition]) -> DataLossError:
    return DataLossError("PARTITIONS_DELETED", f"Partitions {names(partitions)} have been deleted.")


def partition_offset_changed(tp: TopicPartition, before: int, now: int) -> DataLossError:
    return DataLossError(
        "PARTITION_OFFSET_CHANGED",
        f"Partition {tp} offset was changed from {before} to {now}. This could be either 1) a user error that the "
        "start offset is set beyond available offset when starting query, or 2) the kafka topic-partition is deleted "
        "and re-created.",
    )


def first_batch_began_earlier(ends: Mapping[TopicPartition, int]) -> DataLossError:
    """Args: ends: of a batch that the query was stopped in, of the partitions that begin behind it when asked again."""
    return DataLossError(
        "PARTITION_OFFSET_CHANGED",
        f"The first batch of this query was to end at {places(ends)}, and was not through when the query was stopped. "
        "Where it began is not known any more, because the option that says where to start stands for a later offset "
        "by now. To begin anew, give the query another checkpoint, and give that to the source as well, as "
        "kwire.checkpointLocation: then the source writes down where the query begins.",
    )


def could_not_read(tp: TopicPartition, start: int, end: int) -> DataLossError:
    return DataLossError(
        "COULD_NOT_READ_OFFSET_RANGE", f"Could not read records in offset [{start}, {end}) for topic partition {tp}."
    )


def damaged_batch(error: CorruptRecordError) -> CorruptRecordError:
    """The error, with what to do: a query with a checkpoint cannot seek."""
    told = CorruptRecordError(
        f"{error.problem}; to skip such batches, set the source option kwire.skipDamagedBatches to true",
        topic=error.topic,
        partition=error.partition,
        offset=error.offset,
    )
    told.next_offset = error.next_offset
    return told


def malformed_timestamp(tp: TopicPartition, offset: int, timestamp_ms: int) -> MalformedTimestampError:
    return MalformedTimestampError(
        f"[KAFKA_MALFORMED_RECORD_TIMESTAMP] Record at topic {tp.topic} partition {tp.partition} offset {offset} has "
        f"timestamp value {timestamp_ms} that overflows when converting to Spark's microsecond-precision "
        "TimestampType. Kafka record timestamps must be in milliseconds since epoch per the Kafka protocol. The "
        "provided value suggests the producer may be writing timestamps in microseconds or nanoseconds instead."
    )
