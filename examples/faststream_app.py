"""FastStream's application and validation, its broker to publish with, and kwire to read with.

FastStream has brokers of its own that read, and no public way to put another one in their place: what a broker consists
of is in `faststream._internal`. So the application starts a task that reads, and hands each record to a function whose
arguments FastStream's library for dependencies fills in and checks, as it does for a subscriber.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from arguments import Wanted, parse
from fast_depends import Depends, inject
from faststream import FastStream
from faststream.confluent import KafkaBroker
from pydantic import BaseModel

from kwire import AsyncConsumer, WakeupError


class Order(BaseModel):
    number: int
    cents: int


class Invoice(BaseModel):
    number: int
    cents_with_tax: int


def tax_percent() -> int:
    return 19


@inject
async def bill(order: Order, percent: int = Depends(tax_percent)) -> Invoice:
    return Invoice(number=order.number, cents_with_tax=order.cents * (100 + percent) // 100)


def make_app(wanted: Wanted) -> FastStream:
    broker = KafkaBroker(wanted.bootstrap_servers)
    invoices = broker.publisher("invoices")
    app = FastStream(broker)
    running: list[tuple[AsyncConsumer, asyncio.Task[None]]] = []

    async def read(consumer: AsyncConsumer) -> None:
        """Records count as processed when the loop polls again: their invoices are written then."""
        async with consumer:
            while records := await consumer.poll(wanted.idle_seconds):
                for record in records:
                    order = Order.model_validate_json(record.value or b"")
                    await invoices.publish(await bill(order), key=record.key)

    @app.after_startup
    async def start() -> None:
        consumer = AsyncConsumer(
            wanted.topic,
            bootstrap_servers=wanted.bootstrap_servers,
            group_id=wanted.group_id,
            auto_offset_reset="earliest",
        )
        task = asyncio.create_task(read(consumer))
        running.append((consumer, task))
        task.add_done_callback(lambda _: app.exit())

    @app.on_shutdown
    async def stop() -> None:
        for consumer, task in running:
            consumer.wakeup()  # `cancel` would end it in the middle of a record
            with suppress(WakeupError):
                await task  # raises what it failed over

    return app


def main(argv: list[str] | None = None) -> None:
    asyncio.run(make_app(parse("Orders to invoices, with FastStream.", argv)).run())


if __name__ == "__main__":
    main()
