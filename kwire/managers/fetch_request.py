"""The Fetch request that a session's next step is written as. Pure; used by the fetch manager."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

if TYPE_CHECKING:
    from uuid import UUID

    from kwire.config import ConsumerConfig
    from kwire.fetching.session import SessionRequest


def fetch_request(
    config: ConsumerConfig,
    session: SessionRequest,
    *,
    max_bytes: int,
    max_wait_ms: float,
) -> FetchRequest:
    topics: list[FetchTopic] = []
    for tp, spec in session.specs.items():
        # In the order of `specs`: a topic whose partitions do not stand together is named twice, as by the Java client.
        if not topics or topics[-1].topic != tp.topic or topics[-1].topic_id != spec.topic_id:
            topics.append(FetchTopic(topic=tp.topic, topic_id=spec.topic_id, partitions=[]))
        topics[-1].partitions.append(
            FetchPartition(  # last_fetched_epoch is for replicas (KIP-595): consumers leave it out, as Java's does
                partition=tp.partition,
                current_leader_epoch=spec.leader_epoch,
                fetch_offset=spec.offset,
                partition_max_bytes=spec.max_bytes,
            )
        )
    forgotten: defaultdict[tuple[str, UUID], list[int]] = defaultdict(list)
    for tp, topic_id in session.forgotten.items():
        forgotten[tp.topic, topic_id].append(tp.partition)
    return FetchRequest(
        max_wait_ms=int(max_wait_ms),
        min_bytes=config.fetch_min_bytes,
        max_bytes=max_bytes,
        isolation_level=config.isolation_level.value,
        session_id=session.session_id,
        session_epoch=session.session_epoch,
        topics=topics,
        forgotten_topics_data=[
            ForgottenTopic(topic=name, topic_id=id_, partitions=ps) for (name, id_), ps in forgotten.items()
        ],
        rack_id=config.client_rack,
    )
