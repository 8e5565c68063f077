"""A consumer of a topic on asyncio: one task reads and handles, another one looks after its progress meanwhile."""

from __future__ import annotations

import asyncio

from arguments import parse

from kwire import AsyncConsumer, AsyncRebalanceConsumer, Record, TopicPartition


async def handle(record: Record) -> None:
    """What a service does with a record: it waits for others, mostly."""
    await asyncio.sleep(0)
    print(f"{record.topic_partition}@{record.offset}: {record.key!r} {record.value!r}")


async def greet(consumer: AsyncRebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
    """Before the first record of new partitions; may wait, too."""
    committed = await consumer.committed(partitions)
    print(f"{len(partitions)} partitions, {sum(found is not None for found in committed.values())} read before")


async def watch(consumer: AsyncConsumer) -> None:
    """Beside the task that polls: all but polling is allowed."""
    while True:
        lags = [await consumer.current_lag(tp) for tp in consumer.assignment()]
        print(f"{sum(lag or 0 for lag in lags)} records to go")
        await asyncio.sleep(1.0)


async def main(argv: list[str] | None = None) -> None:
    wanted = parse("A consumer of a topic on asyncio.", argv)
    async with AsyncConsumer(
        bootstrap_servers=wanted.bootstrap_servers, group_id=wanted.group_id, auto_offset_reset="earliest"
    ) as consumer:
        await consumer.subscribe(wanted.topic, on_assigned=greet)
        watching = asyncio.create_task(watch(consumer))
        while records := await consumer.poll(wanted.idle_seconds):
            for record in records:
                await handle(record)
        watching.cancel()


if __name__ == "__main__":
    asyncio.run(main())
