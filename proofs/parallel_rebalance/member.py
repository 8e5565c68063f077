"""A member of `scripts/prove parallel-rebalance`: reads, works, commits now and then, and tells each step as a line.

    python prove_catch_up_member.py SERVERS GROUP TOPIC PROTOCOL SEED

It is killed wherever it stands. What it has told is all that it has done: lines are written before the next step.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Collection

from kwire import Consumer, Cursor, OffsetAndMetadata, RebalanceConsumer, RebalanceListener, TopicPartition
from kwire.errors import KafkaError

SESSION_TIMEOUT_MS = 3_000
WORK_S = 0.01
MOST = 60


def tell(what: str, **more: object) -> None:
    """One line, all at once."""
    os.write(1, json.dumps({"what": what, **more}).encode() + b"\n")


class Telling(RebalanceListener):
    """What it has of the topic."""

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        tell("assigned", partitions=sorted(tp.partition for tp in partitions))

    def on_partitions_revoked(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        tell("given up", partitions=sorted(tp.partition for tp in partitions))


def main(servers: str, group: str, topic: str, protocol: str, seed: str) -> None:
    rng = random.Random(seed)
    consumer: Consumer[bytes, bytes] = Consumer(config=settings(servers, group, protocol, rng))
    consumer.subscribe([topic], listener=Telling())
    while True:
        records = consumer.poll(0.5)
        parts = [
            (chunk.topic_partition.partition, int(offsets[0]), int(offsets[-1]) + 1, chunk.cursor is Cursor.CHILD)
            for chunk in records.chunks()
            if len(offsets := chunk.columns.offsets)
        ]
        if parts:
            tell("polled", parts=parts)
            time.sleep(WORK_S)
            tell("processed", parts=parts)
        commit(consumer, topic, parts, rng)


def settings(servers: str, group: str, protocol: str, rng: random.Random) -> dict[str, object]:
    chosen: dict[str, object] = {
        "bootstrap_servers": servers,
        "group_id": group,
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "enable_parallel_rebalance": True,
        "parallel_rebalance_children": rng.choice((1, 2)),
        "max_poll_records": MOST,
    }
    if protocol == "classic":
        chosen |= {"session_timeout_ms": SESSION_TIMEOUT_MS, "heartbeat_interval_ms": SESSION_TIMEOUT_MS // 3}
    return chosen


def commit(
    consumer: Consumer[bytes, bytes], topic: str, parts: list[tuple[int, int, int, bool]], rng: random.Random
) -> None:
    """Everything, or what one cursor was given last, or nothing; and sometimes what stands in the group's log."""
    kind = rng.random()
    try:
        if kind < 0.4:
            consumer.commit_sync()
            tell("committed")
        elif kind < 0.6 and parts:
            partition, _, stop, _ = rng.choice(parts)
            consumer.commit_sync({TopicPartition(topic, partition): OffsetAndMetadata(stop)})
        elif kind < 0.7:
            found = consumer.committed(consumer.assignment())
            tell("low", offsets=[[tp.partition, at.offset] for tp, at in found.items() if at is not None])
    except KafkaError as error:
        tell("refused", error=repr(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
