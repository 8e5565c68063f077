"""A call to a service for each record, hundreds at a time on one event loop; records of one key one after the other.

A slow answer holds up its own key alone. Commits say which records are done behind those that are not, so after a crash
only the unfinished ones are sent again.
"""

from __future__ import annotations

import asyncio
import random
import time

from arguments import parse

from kwire import Consumer, Record
from kwire.processing import Processor, Retry


class Service:
    """Stands for an HTTP client: put yours here."""

    async def put(self, _path: str, _body: bytes) -> int:
        await asyncio.sleep(random.uniform(0.001, 0.02))
        return 503 if random.random() < 0.01 else 200


service = Service()


async def send(record: Record[bytes, bytes]) -> None:
    status = await service.put(f"/customers/{(record.key or b'').decode()}", record.value or b"")
    if status != 200:
        raise ConnectionError(f"answered with {status}")
    print(f"{(record.key or b'').decode()}: {(record.value or b'').decode()}")


def main(argv: list[str] | None = None) -> None:
    wanted = parse("A call to a service for each record, in order by key.", argv)
    consumer: Consumer[bytes, bytes] = Consumer(
        wanted.topic,
        bootstrap_servers=wanted.bootstrap_servers,
        group_id=wanted.group_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    retry = Retry(max_attempts=10, backoff=0.05)
    with consumer, Processor(consumer, send, ordering="key", workers=500, retry=retry) as processor:
        quiet_since_s, handled = time.monotonic(), 0
        while time.monotonic() - quiet_since_s < wanted.idle_seconds:
            time.sleep(0.1)
            if handled != (handled := processor.status().handled):
                quiet_since_s = time.monotonic()
    print(f"{processor.status().handled} records handled")


if __name__ == "__main__":
    main()
