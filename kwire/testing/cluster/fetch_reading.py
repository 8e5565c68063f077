"""Reading partitions for one Fetch request, within its limits: Kafka's ReplicaManager.readFromLog.

Knows the rules of which replica may be read (KIP-320, KIP-392), where logs diverge (KIP-595), and how many bytes go
into an answer (KIP-74); nothing of sessions or waiting. Called by the Fetch handler whenever something changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    LeaderIdAndEpoch,
    PartitionData,
)
from kwire.testing.cluster.access import Operation
from kwire.testing.cluster.fetch_sessions import TOPIC_IDS_FROM
from kwire.testing.cluster.leader_hints import leader_hint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.fetch_sessions import FetchedPartition
    from kwire.testing.cluster.topics import Partition, Topic

READ_COMMITTED = 1
FOLLOWERS_FROM = 11
"""From this version on consumers may read from followers (KIP-392)."""

HINTS_FROM = 16
"""From this version on a refusal names the leader (KIP-951)."""

_HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


@dataclass(slots=True)
class Reading:
    """The result of reading all partitions once.

    Attributes:
        found: The result of each partition.
        size_bytes: The records in it.
        is_urgent: Whether some result must not wait for more bytes: an error, or another replica to read.
    """

    found: list[tuple[FetchedPartition, PartitionData]]
    size_bytes: int = 0
    is_urgent: bool = False


def read_partitions(call: Call, request: FetchRequest, wanted: Mapping[FetchedPartition, FetchPartition]) -> Reading:
    """Read the records that are there now, in order, until the limit of the request is reached."""
    reading = Reading([])
    limit_bytes = min(request.max_bytes, call.cluster.settings.fetch_max_bytes)
    for place, one in wanted.items():
        room_bytes = max(0, limit_bytes - reading.size_bytes)
        data = _read(call, request, place, one, min(one.partition_max_bytes, room_bytes), reading.size_bytes == 0)
        reading.found.append((place, data))
        reading.size_bytes += len(data.records or b"")
        reading.is_urgent |= _is_urgent(data)
    reading.is_urgent |= all(_is_forbidden(data) for _place, data in reading.found)
    return reading


def _is_urgent(data: PartitionData) -> bool:
    is_error = data.error_code != ErrorCode.NONE and not _is_forbidden(data)
    return is_error or data.preferred_read_replica >= 0 or data.diverging_epoch.epoch >= 0


def _is_forbidden(data: PartitionData) -> bool:
    """Whether the client may not read this. Kafka finds that out before it reads and waits, and answers it
    afterwards."""
    return data.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def topic_at(call: Call, place: FetchedPartition) -> Topic | None:
    """The topic that a request of this version means."""
    if call.version >= TOPIC_IDS_FROM:
        return call.cluster.topic_by_id(place.topic_id)
    return call.cluster.topics.get(place.name)


def _read(
    call: Call,
    request: FetchRequest,
    place: FetchedPartition,
    wanted: FetchPartition,
    max_bytes: int,
    whole_first: bool,
) -> PartitionData:
    topic = topic_at(call, place)
    name = place.name if topic is None else topic.name
    if name and not call.may(Operation.READ, name):
        return _refused(place.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic is None:
        by_id = call.version >= TOPIC_IDS_FROM
        return _refused(place.partition, ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.partition(place.partition)
    if partition is None:
        return _refused(place.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    error = _readable(call, partition, wanted)
    if error is not ErrorCode.NONE:
        data = _refused_by_log(place.partition, error)
        if error in _HINTED and call.version >= HINTS_FROM:
            hint = leader_hint(call.cluster, topic.name, place.partition)
            data.current_leader = LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
        return data
    return _read_log(call, request, partition, wanted, max_bytes, whole_first)


def _readable(call: Call, partition: Partition, wanted: FetchPartition) -> ErrorCode:
    """Whether this broker lets this reader read the partition."""
    node_id = call.broker.node_id
    if node_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    epoch = wanted.current_leader_epoch
    if 0 <= epoch != partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < partition.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
    if node_id != partition.leader and (call.version < FOLLOWERS_FROM or node_id not in partition.isr):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def _read_log(
    call: Call, request: FetchRequest, partition: Partition, wanted: FetchPartition, max_bytes: int, whole_first: bool
) -> PartitionData:
    log = partition.log
    data = PartitionData(
        partition_index=partition.index,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=None,
        records=b"",
    )
    if wanted.last_fetched_epoch >= 0:
        end = log.end_offset_for_epoch(wanted.last_fetched_epoch)
        if end.leader_epoch < 0 or wanted.fetch_offset < log.log_start_offset:
            return _refused_by_log(partition.index, ErrorCode.OFFSET_OUT_OF_RANGE)
        if end.leader_epoch < wanted.last_fetched_epoch or end.end_offset < wanted.fetch_offset:
            data.diverging_epoch = EpochEndOffset(epoch=end.leader_epoch, end_offset=end.end_offset)
            return data
    if not log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset:
        return _refused_by_log(partition.index, ErrorCode.OFFSET_OUT_OF_RANGE)
    data.preferred_read_replica = _preferred_replica(call, request.rack_id, partition)
    if data.preferred_read_replica >= 0:
        return data
    committed_only = request.isolation_level == READ_COMMITTED
    found = log.read(wanted.fetch_offset, max_bytes, committed_only=committed_only, whole_first=whole_first)
    data.records = found.records
    if found.aborted is not None:
        data.aborted_transactions = [
            AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in found.aborted
        ]
    return data


def _preferred_replica(call: Call, rack: str, partition: Partition) -> int:
    """KIP-392: the replica in sync in the reader's rack, unless the leader, who is asked, is in it too; -1 for none."""
    cluster = call.cluster
    if not rack or not cluster.settings.replica_selector_is_rack_aware or call.broker.node_id != partition.leader:
        return -1
    near = [
        node_id
        for node_id in sorted(partition.isr)
        if cluster.brokers[node_id].is_active and cluster.brokers[node_id].rack == rack
    ]
    return -1 if not near or partition.leader in near else near[0]


def _refused(index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=index, error_code=error, high_watermark=-1, records=b"")


def _refused_by_log(index: int, error: ErrorCode) -> PartitionData:
    """An error that Kafka finds in the log: the list of aborted transactions is then null, not empty."""
    data = _refused(index, error)
    data.aborted_transactions = None
    return data
