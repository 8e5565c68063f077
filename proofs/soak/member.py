"""The program of a member: `member.py WAY TOPIC SETTINGS_FILE`. It reads until SIGTERM, and tells as JSON what.

WAY is how it reads: `sync`, `async`, `processor`, `parallel` (parallel rebalance), `guest` (as `sync`; it may be
killed, so it tells of each poll before the next one, which is the first that may commit it), or `control`, another
client in a group of its own, which shows what the machine itself does.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from proofs.soak.coverage import runs_of
from proofs.soak.writer import sent_at_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kwire import Record

WAYS = ("sync", "async", "processor", "parallel")
"""Of the group. They live as long as the run."""
GUEST, CONTROL = "guest", "control"
TELL_EVERY_S = 10.0
COUNT_EVERY_S = 60.0
"""Objects: it takes 50 ms."""
COUNT_WITHIN_S = 30
STEP_OBJECTS = 2_000
"""So many more than a minute ago are told by their kinds."""
POLL_S = 0.5

stop = threading.Event()


class Report:
    """The records that were read since the last report. Any thread may write."""

    def __init__(self, *, each_poll: bool) -> None:
        self._each_poll = each_poll
        self._lock = threading.Lock()
        self._told_s = time.monotonic()
        self._counted_s = -COUNT_EVERY_S
        self._offsets: defaultdict[int, list[int]] = defaultdict(list)
        self._latencies_ms: list[float] = []
        self._spoilt = 0
        self._kinds: Counter[str] = Counter()
        self._modules: set[str] = set()

    def take(self, partition: int, offset: int, value: bytes | None) -> None:
        at_ns = sent_at_ns(value)
        with self._lock:
            self._offsets[partition].append(offset)
            if at_ns is None:
                self._spoilt += 1
            else:
                self._latencies_ms.append((time.time_ns() - at_ns) / 1e6)

    def polled(self) -> None:
        """To be called after each poll."""
        if self._each_poll or time.monotonic() - self._told_s >= TELL_EVERY_S:
            self.tell()

    def tell(self) -> None:
        with self._lock:
            offsets, self._offsets = self._offsets, defaultdict(list)
            latencies_ms, self._latencies_ms = self._latencies_ms, []
            spoilt, self._spoilt = self._spoilt, 0
            self._told_s = time.monotonic()
        if offsets or not self._each_poll:
            told = {
                "records": sum(map(len, offsets.values())),
                "runs": {partition: runs_of(found) for partition, found in offsets.items()},
                "spoilt": spoilt,
                **({} if self._each_poll else self._in_use()),
                **({"p50_ms": round(median(latencies_ms), 3)} if latencies_ms else {}),
            }
            print(json.dumps(told), flush=True)

    def _in_use(self) -> dict[str, float | str]:
        """Python's objects, in thousands, once a minute, and what is taken from `malloc`, in MiB."""
        found: dict[str, float | str] = {}
        if (malloc := malloc_mib()) is not None:
            found["malloc"] = malloc
        if (now_s := time.monotonic()) - self._counted_s >= COUNT_EVERY_S:
            self._counted_s = now_s
            kinds, modules = counted_apart(living_objects), set(sys.modules)
            if kinds is None:
                return found
            found["objects"] = kinds.total() / 1000
            if self._kinds and kinds.total() - self._kinds.total() >= STEP_OBJECTS:
                found["step"] = step(kinds - self._kinds, modules - self._modules)
            self._kinds, self._modules = kinds, modules
        return found


def step(more: Counter[str], modules: set[str]) -> str:
    """What there is more of, the most first, and which modules were loaded meanwhile."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in more.most_common(5))
    return f"{kinds}; modules loaded: {', '.join(sorted(modules)) or 'none'}"


class MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc, all in bytes or pieces."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


@cache
def malloc_info() -> Callable[[], MallocInfo] | None:
    """None where the C library has no such call. Kept: each library that is opened is a circle of references."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is not None:
        mallinfo.restype = MallocInfo
    return mallinfo


def malloc_mib() -> float | None:
    """What is taken from `malloc`, where it tells.

    The memory that a process holds is more: the allocators keep what was given back.
    """
    if (asked := malloc_info()) is None:
        return None
    info = asked()
    taken_bytes: int = info.uordblks + info.hblkhd
    return taken_bytes / 1024 / 1024


def counted_apart(count: Callable[[], Counter[str]]) -> Counter[str] | None:
    """What `count` finds in a copy of this process; None where that one did not come to its end.

    Counting takes some ten MiB, and the allocators keep part of it for later. In the process itself, that would be
    found as its memory.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(COUNT_WITHIN_S)  # it ends the copy, should something that its threads held stop it
            os.write(writer, json.dumps(count()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return Counter(json.loads(found)) if found else None


def living_objects() -> Counter[str]:
    """How many objects there are, by the names of their types: all containers, and what they hold (but for texts that
    are keys of a dict).

    Not `sys.getallocatedblocks`, which counts what lies in the interpreter's free lists as well: some thousand more
    after a queue that was long once, until the next full collection, which is hours away. And nothing is collected for
    it, so circles of references that nobody can reach are in it, as they are in the memory of who does not collect.
    """
    found = gc.get_objects()
    seen: set[int] = set()
    kinds: Counter[str] = Counter()
    while found:
        new = {id(each): each for each in found}  # no reference to `seen`: a closure would be found, and all in it
        for known in seen.intersection(new):
            del new[known]
        seen.update(new)
        kinds.update(type(each).__name__ for each in new.values())
        found = gc.get_referents(*new.values())
    return kinds


# --- the ways ---------------------------------------------------------------------------------------------------------


def read_sync(topic: str, settings: dict[str, str], report: Report) -> None:
    from kwire import Consumer

    with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        while not stop.is_set():
            note(consumer.poll(POLL_S), report)


def read_async(topic: str, settings: dict[str, str], report: Report) -> None:
    from kwire import AsyncConsumer

    async def read() -> None:
        async with AsyncConsumer(settings) as consumer:
            await consumer.subscribe([topic])
            while not stop.is_set():
                note(await consumer.poll(POLL_S), report)

    asyncio.run(read())


def read_processor(topic: str, settings: dict[str, str], report: Report) -> None:
    from kwire import Consumer
    from kwire.processing import Processor

    def handle(record: Record[bytes, bytes]) -> None:
        report.take(record.partition, record.offset, record.value)

    with Consumer({**settings, "enable.auto.commit": "false"}) as consumer:
        consumer.subscribe([topic])
        with Processor(consumer, handle, ordering="key", workers=4):
            while not stop.wait(POLL_S):
                report.polled()


def read_parallel(topic: str, settings: dict[str, str], report: Report) -> None:
    read_sync(topic, {**settings, "enable.parallel.rebalance": "true"}, report)


def read_control(topic: str, settings: dict[str, str], report: Report) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(settings)
    consumer.subscribe([topic])
    while not stop.is_set():
        # Not `consume`, which waits until it has so many: its latency would be the timeout, whatever the machine does.
        message = consumer.poll(POLL_S)
        if message is not None and message.error() is None:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            report.take(partition, offset, message.value())
        report.polled()
    consumer.close()


def note(records: Iterable[Record[bytes, bytes]], report: Report) -> None:
    for record in records:
        report.take(record.partition, record.offset, record.value)
    report.polled()


READ: dict[str, Callable[[str, dict[str, str], Report], None]] = {
    "sync": read_sync,
    "async": read_async,
    "processor": read_processor,
    "parallel": read_parallel,
    GUEST: read_sync,
    CONTROL: read_control,
}


def main() -> None:
    way, topic, settings_file = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    report = Report(each_poll=way == GUEST)
    READ[way](topic, json.loads(Path(settings_file).read_text()), report)
    report.tell()


if __name__ == "__main__":
    main()
