"""One turn of a `Processor`, in a process of its own: works on a topic as the task says, prints its figures as JSON.

    python processing_worker.py TASK PARTICIPANT OPTIONS_AS_JSON

Tasks: `drain`, a whole topic; `steady`, as much as is done in some seconds. Participants: `plain` (polls, iterated
over), `threads`, `asyncio`, `trio`. Started by `turns.run_worker`. A client that is not done with each record
once has failed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import NamedTuple, TypeAlias
from uuid import uuid4

import trio

from kwire import Consumer, Record, Records
from kwire.processing import Ordering, Processor

POLL_INTERVAL_S = 0.01
IDLE_TIMEOUT_S = 60.0
WARM_UP_S = 1.0  # the first records also pay for imports, connections and threads
BUFFERED = 10_000
SLEEPS: dict[str, Callable[[float], Awaitable[None]]] = {"asyncio": asyncio.sleep, "trio": trio.sleep}

BytesRecord: TypeAlias = Record[bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    servers: str
    topic: str
    records: int = 0
    ordering: str = "partition"
    workers: int = 16
    least_ms: float = 0.0
    most_ms: float = 0.0
    seconds: float = 1.0


class Clock(NamedTuple):
    wall_s: float
    cpu_s: float
    """Of this process, all its threads."""

    @classmethod
    def now(cls) -> Clock:
        return cls(time.monotonic(), time.process_time())


class TimedConsumer(Consumer[bytes, bytes]):
    """Knows when the first records came: the clock starts there for everybody."""

    first: Clock | None = None

    def poll(self, timeout: float | timedelta = 0.0, *, max_records: int | None = None) -> Records[bytes, bytes]:
        records = super().poll(timeout, max_records=max_records)
        if self.first is None and records:
            self.first = Clock.now()
        return records


def consumer(options: Options) -> TimedConsumer:
    return TimedConsumer(
        options.topic,
        bootstrap_servers=options.servers,
        group_id=f"bench-{uuid4().hex}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


def handler(participant: str, options: Options) -> Callable[[BytesRecord], object]:
    """Takes as long for a record as its offset says, the same in each turn."""
    least_s, span_s = options.least_ms / 1e3, (options.most_ms - options.least_ms) / 1e3
    pauses = [least_s + span_s * Random(number).random() for number in range(1_000)]
    is_free = options.most_ms == 0.0

    if participant == "threads":
        return (lambda _record: None) if is_free else (lambda record: time.sleep(pauses[record.offset % 1_000]))
    sleep = SLEEPS[participant]

    async def handle(record: BytesRecord) -> None:
        if not is_free:
            await sleep(pauses[record.offset % 1_000])

    return handle


def processor(participant: str, options: Options, source: TimedConsumer) -> Processor[bytes, bytes]:
    return Processor(
        source,
        handler(participant, options),
        ordering=Ordering(options.ordering),
        workers=options.workers,
        backend="trio" if participant == "trio" else "asyncio",
        max_buffered_records=max(BUFFERED, 10 * options.workers),
    )


def drain(participant: str, options: Options) -> dict[str, float]:
    """All of a topic, from its first records to the last one that is done with."""
    with consumer(options) as source:
        done, end = iterated(source, options) if participant == "plain" else processed(participant, options, source)
    if done != options.records:
        raise SystemExit(f"{done} records were done with, of {options.records}")
    assert source.first is not None
    took_s, cpu_s = end.wall_s - source.first.wall_s, end.cpu_s - source.first.cpu_s
    return {"seconds": took_s, "thousand_per_s": done / took_s / 1e3, "cpu_us": cpu_s / done * 1e6}


def iterated(source: TimedConsumer, options: Options) -> tuple[int, Clock]:
    """How many records, and when that was."""
    done, until_s = 0, time.monotonic() + IDLE_TIMEOUT_S
    while done < options.records and time.monotonic() < until_s:
        for _record in source.poll(1.0):
            done += 1
    return done, Clock.now()


def processed(participant: str, options: Options, source: TimedConsumer) -> tuple[int, Clock]:
    own = processor(participant, options, source)
    with own:
        until_s = time.monotonic() + IDLE_TIMEOUT_S
        while own.status().handled < options.records and time.monotonic() < until_s:
            time.sleep(POLL_INTERVAL_S)
        end = Clock.now()
        own.stop(drain=False)
    return own.status().handled, end


def steady(participant: str, options: Options) -> dict[str, float]:
    """How many records a second, once it runs; and that as a share of what so many workers could do at most."""
    with consumer(options) as source, processor(participant, options, source) as own:
        until_s = time.monotonic() + IDLE_TIMEOUT_S
        while not own.status().handled and time.monotonic() < until_s:
            time.sleep(POLL_INTERVAL_S)
        time.sleep(WARM_UP_S)
        before, began_s = own.status().handled, time.monotonic()
        time.sleep(options.seconds)
        status, took_s = own.status(), time.monotonic() - began_s
        own.stop(drain=False)
    if not status.waiting:
        raise SystemExit("the topic is too short: it was read to its end")
    per_second = (status.handled - before) / took_s
    at_most = options.workers / (options.most_ms / 1e3)
    return {"thousand_per_s": per_second / 1e3, "efficiency_percent": 100.0 * per_second / at_most}


if __name__ == "__main__":
    task, participant, options = sys.argv[1:]
    print(json.dumps({"drain": drain, "steady": steady}[task](participant, Options(**json.loads(options)))))
