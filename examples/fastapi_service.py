"""A web service on FastAPI that reads a topic beside its requests: the newest order of each key, and a probe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import uvicorn
from arguments import Wanted, parse
from fastapi import FastAPI, HTTPException, Response

from kwire import AsyncConsumer, WakeupError


def make_app(wanted: Wanted) -> FastAPI:
    newest: dict[str, str] = {}

    async def read(consumer: AsyncConsumer) -> None:
        with suppress(WakeupError):  # the server ends
            async for record in consumer:
                newest[(record.key or b"").decode()] = (record.value or b"").decode()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        """The consumer lives as long as the application.

        It has no group: `newest` is empty at each start, so each start reads the whole topic, and each process all
        partitions.
        """
        async with AsyncConsumer(
            wanted.topic, bootstrap_servers=wanted.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            app.state.consumer = consumer
            app.state.reading = asyncio.create_task(read(consumer))
            yield
            consumer.wakeup()
            await app.state.reading  # raises what it failed over

    app = FastAPI(lifespan=lifespan)

    @app.get("/orders/{key}")
    async def order(key: str) -> dict[str, str]:
        if key not in newest:
            raise HTTPException(404, f"no order {key!r} has been read yet")
        return {"key": key, "value": newest[key]}

    @app.get("/healthz")
    async def healthz(response: Response) -> dict[str, str]:
        """Alive as long as the task reads, and the consumer says that it is well."""
        health = await app.state.consumer.healthy()
        is_well = bool(health) and not app.state.reading.done()
        response.status_code = 200 if is_well else 503
        return {"consumer": str(health), "task": "done" if app.state.reading.done() else "reads"}

    return app


def main(argv: list[str] | None = None) -> None:
    wanted = parse("A web service that reads a topic.", argv)
    uvicorn.run(make_app(wanted), host="127.0.0.1", port=8000)


if __name__ == "__main__":
    main()
