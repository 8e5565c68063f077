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

from kwire import AsyncConsumer


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
    tasks: list[asyncio.Task[None]] = []

    async def read() -> None:
        """A record counts as processed when the loop comes back for the next one: its invoice is written then."""
        async with AsyncConsumer(
            wanted.topic,
            bootstrap_servers=wanted.bootstrap_servers,
            group_id=wanted.group_id,
            auto_offset_reset="earliest",
        ) as consumer:
            while records := await consumer.poll(wanted.idle_seconds):
                for record in records:
                    order = Order.model_validate_json(record.value or b"")
                    await invoices.publish(await bill(order), key=record.key)

    @app.after_startup
    async def start() -> None:
        tasks.append(asyncio.create_task(read()))
        tasks[0].add_done_callback(lambda _: app.exit())

    @app.on_shutdown
    async def stop() -> None:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task  # raises what it failed over

    return app


def main(argv: list[str] | None = None) -> None:
    asyncio.run(make_app(parse("Orders to invoices, with FastStream.", argv)).run())


if __name__ == "__main__":
    main()
