"""A consumer that is closed before its first join is answered leaves nobody behind in the group."""

from __future__ import annotations

import asyncio

from kwire import AsyncConsumer
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.messages.leave_group import LeaveGroupRequest
from kwire.testing import Cluster

ANSWERED_AFTER_MS = 200.0


def test_a_poll_that_is_cancelled_while_it_joins_leaves_no_member(kafka_cluster: Cluster) -> None:
    """The next member had no partitions for 45 s: the group waited for the one that the join had made."""
    kafka_cluster.create_topic("t", partitions=1)

    async def main() -> None:
        joining = asyncio.Event()
        loop = asyncio.get_running_loop()

        def note(*_: object) -> None:
            loop.call_soon_threadsafe(joining.set)

        kafka_cluster.control.on(JoinGroupRequest).observe(note)
        kafka_cluster.control.on(JoinGroupRequest, times=1).delay(ANSWERED_AFTER_MS, handled=True)
        async with AsyncConsumer("t", bootstrap_servers=kafka_cluster.bootstrap_servers, group_id="g") as consumer:
            polling = asyncio.create_task(consumer.poll(60.0))
            await joining.wait()
            polling.cancel()

    left = kafka_cluster.control.on(LeaveGroupRequest).observe()
    asyncio.run(main())
    assert left.fired == 1
