"""Fetch: records of many partitions, at once or when there are enough, in a session or without (KIP-74, KIP-227)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)
from kwire.testing.cluster.fetch_reading import HINTS_FROM, read_partitions, topic_at
from kwire.testing.cluster.fetch_sessions import FetchedPartition
from kwire.testing.cluster.leader_hints import LeaderHint, hinted_brokers

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.fetch_reading import Reading
    from kwire.testing.cluster.fetch_sessions import FetchContext

Found = list[tuple[FetchedPartition, PartitionData]]


async def handle(request: FetchRequest, call: Call) -> FetchResponse:
    """Answer when there are `min_bytes`, when there is news that cannot wait, or when the time is up."""
    context = call.broker.fetch_sessions.context(request, call.version, call.cluster.now_ms())
    if context.error is not ErrorCode.NONE:
        return FetchResponse(error_code=context.error)
    reading = await _read(request, call, context)
    return _response(call, context.session_id, context.told(reading.found))


async def _read(request: FetchRequest, call: Call, context: FetchContext) -> Reading:
    cluster = call.cluster
    deadline_ms = cluster.now_ms() + request.max_wait_ms
    enough_bytes = min(request.min_bytes, request.max_bytes, cluster.settings.fetch_max_bytes)
    while True:
        reading = read_partitions(call, request, context.partitions)
        left_ms = deadline_ms - cluster.now_ms()
        if reading.size_bytes >= enough_bytes or reading.is_urgent or not context.partitions or left_ms <= 0:
            return reading
        await cluster.changed.wait_any(_keys(call, context.partitions), left_ms)


def _keys(call: Call, places: Iterable[FetchedPartition]) -> list[Hashable]:
    """What to wait for: all that was read is there."""
    topics = ((place, topic_at(call, place)) for place in places)
    found = (topic.partition(place.partition) for place, topic in topics if topic is not None)
    return [partition.key for partition in found if partition is not None]


def _response(call: Call, session_id: int, found: Found) -> FetchResponse:
    response = FetchResponse(session_id=session_id)
    for (name, topic_id), group in groupby(found, key=lambda one: one[0][:2]):
        partitions = [data for _, data in group]
        response.responses.append(FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=partitions))
    if call.version >= HINTS_FROM:
        leaders = (data.current_leader for _, data in found)
        hints = [LeaderHint(leader.leader_id, leader.leader_epoch) for leader in leaders]
        response.node_endpoints = [
            NodeEndpoint(node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
            for broker in hinted_brokers(call.cluster, hints)
        ]
    return response
