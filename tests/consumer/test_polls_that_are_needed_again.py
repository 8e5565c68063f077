"""What needs a poll, and comes up while a poll waits that has told the network thread already.

A poll tells it once that the application polls, as told for each record it would do nothing else. What came up later in
the same poll waited for the next one: with a timeout of an hour, for an hour.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from kwire import AsyncConsumer, Consumer
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.leave_group import LeaveGroupRequest
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire import RebalanceConsumer
    from kwire.model import Partitions

WAIT_S = 10.0
LEAVE_EPOCH = -1


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    settings = {"group.initial.rebalance.delay.ms": 0, "group.consumer.heartbeat.interval.ms": 50}
    with Cluster(topics={"orders": 1, "idle": 1}, settings=settings) as cluster:
        cluster.produce("orders", b"an order")
        yield cluster


def settings(cluster: Cluster, protocol: str) -> dict[str, str | int]:
    heartbeats = {"heartbeat_interval_ms": 50} if protocol == "classic" else {}
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "billing",
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        **heartbeats,
    }


def noting_leaves(cluster: Cluster) -> threading.Event:
    has_left = threading.Event()
    heartbeats = cluster.control.on(ConsumerGroupHeartbeatRequest, where=lambda r, _: r.member_epoch == LEAVE_EPOCH)
    heartbeats.observe(lambda *_: has_left.set())
    cluster.control.on(LeaveGroupRequest).observe(lambda *_: has_left.set())
    return has_left


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_was_late_in_a_callback_joins_again_within_the_poll(cluster: Cluster, protocol: str) -> None:
    has_left = noting_leaves(cluster)

    def wait_until_left(_consumer: RebalanceConsumer, _partitions: Partitions) -> None:
        assert has_left.wait(WAIT_S)

    with Consumer[bytes, bytes]({**settings(cluster, protocol), "max_poll_interval_ms": 200}) as consumer:
        consumer.subscribe("orders", on_assigned=wait_until_left)
        assert consumer.poll(WAIT_S).values() == [b"an order"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_subscription_that_another_task_replaces_is_joined_by_the_poll_that_waits(
    cluster: Cluster, protocol: str
) -> None:
    async def main() -> list[bytes | None]:
        async with AsyncConsumer[bytes, bytes]("idle", config=settings(cluster, protocol)) as consumer:
            waiting = asyncio.create_task(consumer.poll(WAIT_S))
            while not consumer.assignment():
                await asyncio.sleep(0)
            await consumer.unsubscribe()
            await consumer.subscribe("orders")
            return (await waiting).values()

    assert asyncio.run(main()) == [b"an order"]
