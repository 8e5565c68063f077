"""Polls that are cancelled at random moments: `cancelling.py LIBRARY SERVERS TOPIC RECORDS CANCELLATIONS SEED`.

Prints, as JSON, how many polls were cancelled, and what was returned: how many records, lost ones, repeated ones. The
topic is read again and again until enough have been cancelled.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING
from uuid import uuid4

import trio

from kwire import AsyncConsumer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kwire import Records

    AtMost = Callable[[float, Callable[[], Awaitable[Records]]], Awaitable[Records | None]]

LONG_S = 30.0
# Waits for a fetch are longer than this, and what a poll of buffered records takes is shorter.
MAX_S = 0.002
# A record counts as lost if it has not arrived and no record arrived for this long.
IDLE_TIMEOUT_S = 10.0


async def at_most_on_asyncio(seconds: float, function: Callable[[], Awaitable[Records]]) -> Records | None:
    try:
        async with asyncio.timeout(seconds):
            return await function()
    except TimeoutError:
        return None


async def at_most_on_trio(seconds: float, function: Callable[[], Awaitable[Records]]) -> Records | None:
    with trio.move_on_after(seconds):
        return await function()
    return None


async def read(at_most: AtMost, servers: str, topic: str, records: int, wanted: int, seed: int) -> dict[str, int]:
    chance = random.Random(seed)
    cancelled = returned = lost = repeated = 0
    while cancelled < wanted:
        seen: Counter[tuple[int, int]] = Counter()
        async with AsyncConsumer(
            topic,
            bootstrap_servers=servers,
            group_id=f"cancelled-{uuid4().hex[:8]}",
            auto_offset_reset="earliest",
            max_poll_records=chance.choice((1, 3, 20)),
        ) as consumer:
            last_new_s = time.monotonic()
            while len(seen) < records and time.monotonic() - last_new_s < IDLE_TIMEOUT_S:
                found = await at_most(chance.random() * MAX_S, lambda: consumer.poll(LONG_S))
                cancelled += found is None
                before = len(seen)
                seen.update((record.partition, record.offset) for record in found or ())
                if len(seen) > before:
                    last_new_s = time.monotonic()
        returned += len(seen)
        lost += records - len(seen)
        repeated += sum(count - 1 for count in seen.values())
    return {"cancelled": cancelled, "returned": returned, "lost": lost, "repeated": repeated}


def main() -> None:
    library, servers, topic, records, wanted, seed = sys.argv[1:]
    arguments = servers, topic, int(records), int(wanted), int(seed)
    if library == "trio":
        told = trio.run(read, at_most_on_trio, *arguments)
    else:
        told = asyncio.run(read(at_most_on_asyncio, *arguments))
    print(json.dumps(told))


if __name__ == "__main__":
    main()
