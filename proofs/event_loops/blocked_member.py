"""A member of a group whose handler blocks its event loop: `blocked_member.py CLIENT SERVERS TOPIC GROUP SESSION_MS S`.

It prints "blocked" when the first record has come and its loop stands still for so many seconds, and "through" after
that. Then it reads on, until it is killed. CLIENT is kwire-asyncio, kwire-trio or aiokafka.
"""

from __future__ import annotations

import asyncio
import sys
import time


def block(seconds: float) -> None:
    """What should not be done on an event loop."""
    print("blocked", flush=True)
    time.sleep(seconds)
    print("through", flush=True)


async def kwire_member(servers: str, topic: str, group: str, session_ms: int, seconds: float) -> None:
    from kwire import AsyncConsumer

    async with AsyncConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=session_ms // 3,
        auto_offset_reset="earliest",
    ) as consumer:
        async for _ in consumer:
            block(seconds)
            break
        while True:
            await consumer.poll(1.0)


async def aiokafka_member(servers: str, topic: str, group: str, session_ms: int, seconds: float) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=session_ms // 3,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[RangePartitionAssignor],  # the other member knows it
    )
    await consumer.start()
    await consumer.getone()
    block(seconds)
    while True:
        await consumer.getmany(timeout_ms=1000)


def main() -> None:
    client, servers, topic, group, session_ms, seconds = sys.argv[1:]
    arguments = servers, topic, group, int(session_ms), float(seconds)
    if client == "kwire-trio":
        import trio

        trio.run(kwire_member, *arguments)
    elif client == "kwire-asyncio":
        asyncio.run(kwire_member(*arguments))
    else:
        asyncio.run(aiokafka_member(*arguments))


if __name__ == "__main__":
    main()
