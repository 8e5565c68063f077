"""One turn of one consumer that moves in a topic, in a process of its own; prints its figures as a line of JSON.

    python seeking_worker.py TASK PARTICIPANT OPTIONS_AS_JSON

The tasks are those of `seeking.CASES`. Started by `turns.run_worker`. Another record than the one that was sought ends
the turn with an error instead of figures.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, Protocol
from uuid import uuid4

POLL_S = 1.0
WORK_S = 0.02
TAIL = 10
BATCH = 500
QUIET_S = (0.6, 1.2)
GIVE_UP_S = 60.0
HEAD_START_S = 1.0
WORKED_ON_PER_S = 10_000
"""How many records a second a program with a backlog works on: five partitions have enough for 25 s."""

Found = Sequence[tuple[int, int]]
"""Partition and offset of each record."""


class Mover(Protocol):
    """A consumer of any library. Partitions go by their numbers; all of them are assigned, from the start on."""

    ends: Mapping[int, int]
    """The offset behind the last record of each, of when the consumer began."""
    write: Callable[[int], None]
    """Appends a record to a partition, by way of another client."""

    def seek(self, offsets: Mapping[int, int]) -> None: ...
    def pause(self, partitions: Collection[int]) -> None: ...
    def resume(self, partitions: Collection[int]) -> None: ...

    def read(self, wait_s: float) -> Found:
        """What one call of the library hands out."""

    def look_up_ends(self) -> Mapping[int, int]:
        """Asks the broker."""

    def commit(self, partition: int, offset: int) -> None:
        """Waits until it is done."""

    def close(self) -> None: ...


class Kwire(Mover):
    """kwire."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        from kwire import Consumer, TopicPartition

        self._consumer: Consumer[bytes, bytes] = Consumer(
            bootstrap_servers=servers, group_id=uuid4().hex, auto_offset_reset="earliest", enable_auto_commit=False
        )
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self._consumer.assign(self._partitions)
        self.ends = self.look_up_ends()

    def seek(self, offsets: Mapping[int, int]) -> None:
        for number, offset in offsets.items():
            self._consumer.seek(self._partitions[number], offset)

    def pause(self, partitions: Collection[int]) -> None:
        self._consumer.pause([self._partitions[number] for number in partitions])

    def resume(self, partitions: Collection[int]) -> None:
        self._consumer.resume([self._partitions[number] for number in partitions])

    def read(self, wait_s: float) -> Found:
        return [(record.partition, record.offset) for record in self._consumer.poll(wait_s)]

    def look_up_ends(self) -> Mapping[int, int]:
        return {tp.partition: offset for tp, offset in self._consumer.end_offsets(self._partitions).items()}

    def commit(self, partition: int, offset: int) -> None:
        from kwire import OffsetAndMetadata

        self._consumer.commit_sync({self._partitions[partition]: OffsetAndMetadata(offset)})

    def close(self) -> None:
        self._consumer.close()


class Confluent(Mover):
    """librdkafka by way of confluent-kafka."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        from confluent_kafka import Consumer, TopicPartition

        config = {"bootstrap.servers": servers, "group.id": uuid4().hex, "enable.auto.commit": False}
        self._consumer: Consumer = Consumer(config)
        self._topic, self._make = topic, TopicPartition
        self._partitions = [TopicPartition(topic, number, 0) for number in range(partitions)]
        self._consumer.assign(self._partitions)
        self.ends = self.look_up_ends()

    def seek(self, offsets: Mapping[int, int]) -> None:
        for number, offset in offsets.items():
            self._consumer.seek(self._make(self._topic, number, offset))

    def pause(self, partitions: Collection[int]) -> None:
        self._consumer.pause([self._partitions[number] for number in partitions])

    def resume(self, partitions: Collection[int]) -> None:
        self._consumer.resume([self._partitions[number] for number in partitions])

    def read(self, wait_s: float) -> Found:
        found = []
        for message in self._consumer.consume(BATCH, wait_s):
            partition, offset = message.partition(), message.offset()
            if message.error() is not None or partition is None or offset is None:
                raise SystemExit(f"confluent-kafka: {message.error()}")
            found.append((partition, offset))
        return found

    def look_up_ends(self) -> Mapping[int, int]:
        found = {}
        for number, partition in enumerate(self._partitions):
            marks = self._consumer.get_watermark_offsets(partition, timeout=GIVE_UP_S)
            if marks is None:
                raise SystemExit(f"confluent-kafka: no watermarks of partition {number}")
            found[number] = marks[1]
        return found

    def commit(self, partition: int, offset: int) -> None:
        self._consumer.commit(offsets=[self._make(self._topic, partition, offset)], asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class KafkaPython(Mover):
    """kafka-python."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        from kafka import KafkaConsumer
        from kafka.structs import TopicPartition

        self._consumer = KafkaConsumer(
            bootstrap_servers=servers, group_id=uuid4().hex, auto_offset_reset="earliest", enable_auto_commit=False
        )
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self._consumer.assign(self._partitions)
        self.ends = self.look_up_ends()

    def seek(self, offsets: Mapping[int, int]) -> None:
        for number, offset in offsets.items():
            self._consumer.seek(self._partitions[number], offset)

    def pause(self, partitions: Collection[int]) -> None:
        self._consumer.pause(*[self._partitions[number] for number in partitions])

    def resume(self, partitions: Collection[int]) -> None:
        self._consumer.resume(*[self._partitions[number] for number in partitions])

    def read(self, wait_s: float) -> Found:
        batches = self._consumer.poll(timeout_ms=int(wait_s * 1000)).values()
        return [(record.partition, record.offset) for batch in batches for record in batch]

    def look_up_ends(self) -> Mapping[int, int]:
        return {tp.partition: offset for tp, offset in self._consumer.end_offsets(self._partitions).items()}

    def commit(self, partition: int, offset: int) -> None:
        from kafka.structs import OffsetAndMetadata

        self._consumer.commit({self._partitions[partition]: OffsetAndMetadata(offset, "", -1)})

    def close(self) -> None:
        self._consumer.close()


class Aiokafka(KafkaPython):
    """aiokafka, whose calls are kafka-python's. Its event loop is started for each one that needs it."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        self._runner = asyncio.Runner()
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]

        async def opened() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=servers, group_id=uuid4().hex, auto_offset_reset="earliest", enable_auto_commit=False
            )
            await consumer.start()
            consumer.assign(self._partitions)
            return consumer

        self._consumer = self._runner.run(opened())
        self.ends = self.look_up_ends()

    def pause(self, partitions: Collection[int]) -> None:
        async def paused() -> None:
            super(Aiokafka, self).pause(partitions)

        self._runner.run(paused())

    def read(self, wait_s: float) -> Found:
        batches = self._runner.run(self._consumer.getmany(timeout_ms=int(wait_s * 1000), max_records=BATCH))
        return [(record.partition, record.offset) for batch in batches.values() for record in batch]

    def look_up_ends(self) -> Mapping[int, int]:
        ends = self._runner.run(self._consumer.end_offsets(self._partitions))
        return {tp.partition: offset for tp, offset in ends.items()}

    def commit(self, partition: int, offset: int) -> None:
        self._runner.run(self._consumer.commit({self._partitions[partition]: offset}))

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


# --- tasks -----------------------------------------------------------------------------------------------------------


def look_up(mover: Mover, seconds: float) -> dict[str, float]:
    """One record after the other, anywhere in one partition."""
    chance = random.Random(1)
    mover.pause([number for number in mover.ends if number])
    return _mean_ms(seconds, lambda: _get(mover, 0, chance.randrange(mover.ends[0])))


def tail(mover: Mover, seconds: float) -> dict[str, float]:
    """As a page does that shows the newest records."""

    def look() -> None:
        ends = mover.look_up_ends()
        missing = {(number, end - ago) for number, end in ends.items() for ago in range(1, TAIL + 1)}
        mover.seek({number: end - TAIL for number, end in ends.items()})
        deadline_s = time.monotonic() + GIVE_UP_S
        while missing:
            missing.difference_update(mover.read(POLL_S))
            _check(deadline_s, f"{len(missing)} records of the last ones")

    return _mean_ms(seconds, look)


def back(mover: Mover, seconds: float) -> dict[str, float]:
    """Once in a while, where nothing else comes: as a program does that tries a record again."""
    chance, end_s = random.Random(1), time.monotonic() + seconds
    mover.seek(dict(mover.ends))
    took_s = []
    while time.monotonic() < end_s:
        quiet_s = time.monotonic() + chance.uniform(*QUIET_S)
        while time.monotonic() < quiet_s:
            mover.read(0.1)
        begin_s = time.monotonic()
        _get(mover, 0, mover.ends[0] - TAIL)
        took_s.append(time.monotonic() - begin_s)
    return {"ms": 1e3 * sum(took_s) / len(took_s)}


def rotation(mover: Mover, seconds: float) -> dict[str, float]:
    """A poll of one partition, a poll of the next one."""
    turn, numbers = 0, sorted(mover.ends)

    def read() -> int:
        nonlocal turn
        mover.pause([number for number in numbers if number != turn])
        mover.resume([turn])
        turn = (turn + 1) % len(numbers)
        return len(mover.read(0.1))

    return _rate(sum(mover.ends.values()), seconds, read)


def backpressure(mover: Mover, seconds: float) -> dict[str, float]:
    """What is read of a partition is worked on for 20 ms, while polls go on for the sake of the group."""
    mover.seek({number: end if number else 0 for number, end in mover.ends.items()})

    def read() -> int:
        count = len(mover.read(POLL_S))
        mover.pause([0])
        done_s = time.monotonic() + WORK_S
        while time.monotonic() < done_s:
            count += len(mover.read(WORK_S / 2))
        mover.resume([0])
        return count

    return _rate(mover.ends[0], seconds, read)


def backlog(mover: Mover, seconds: float) -> dict[str, float]:
    """As a program has one behind an outage: while it catches up, the other partitions are not to wait."""
    last = max(mover.ends)
    end = mover.ends[last]
    mover.seek({number: end if number == last else 0 for number in mover.ends})
    begin_s = time.monotonic()
    _work(mover, until_s=begin_s + HEAD_START_S)
    took_s: list[float] = []
    while not took_s or time.monotonic() < begin_s + seconds:
        written_s = time.monotonic()
        mover.write(last)
        took_s.append(_work(mover, until_s=written_s + GIVE_UP_S, wanted=(last, end)) - written_s)
        end += 1
        _work(mover, until_s=time.monotonic() + WORK_S)
    return {"ms": 1e3 * sum(took_s) / len(took_s)}


def _work(mover: Mover, until_s: float, wanted: tuple[int, int] | None = None) -> float:
    """Work on what comes, at a steady pace, until a record is there or the time is over; which time that is."""
    while (now_s := time.monotonic()) < until_s:
        found = mover.read(POLL_S)
        if wanted in found:
            return time.monotonic()
        time.sleep(len(found) / WORKED_ON_PER_S)
    if wanted is not None:
        _check(until_s, f"record {wanted[1]} of partition {wanted[0]}")
    return now_s


def commit(mover: Mover, seconds: float) -> dict[str, float]:
    """After each record, as a program does that must not handle one twice."""
    mover.pause([number for number in mover.ends if number])
    offsets = count(1)
    return _mean_ms(seconds, lambda: mover.commit(0, next(offsets)))


def _get(mover: Mover, partition: int, offset: int) -> None:
    mover.seek({partition: offset})
    deadline_s = time.monotonic() + GIVE_UP_S
    while (partition, offset) not in mover.read(POLL_S):
        _check(deadline_s, f"record {offset} of partition {partition}")


def _check(deadline_s: float, what: str) -> None:
    if time.monotonic() > deadline_s:
        raise SystemExit(f"{what}: not there after {GIVE_UP_S:.0f} s")


def _mean_ms(seconds: float, move: Callable[[], None]) -> dict[str, float]:
    """The first one also pays for connections, the second one is measured however long it takes."""
    move()
    count, begin_s, cpu_s = 0, time.monotonic(), time.process_time()
    while not count or time.monotonic() < begin_s + seconds:
        move()
        count += 1
    return {
        "ms": 1e3 * (time.monotonic() - begin_s) / count,
        "cpu_ms": 1e3 * (time.process_time() - cpu_s) / count,
    }


def _rate(wanted: int, seconds: float, read: Callable[[], int]) -> dict[str, float]:
    """Until the time is over, or all that is wanted is read."""
    count, begin_s = 0, time.monotonic()
    while time.monotonic() < begin_s + seconds and count < wanted:
        count += read()
    return {"thousand_per_s": count / 1e3 / (time.monotonic() - begin_s)}


MOVERS: Mapping[str, Callable[[str, str, int], Mover]] = {
    "kwire": Kwire,
    "confluent-kafka": Confluent,
    "aiokafka": Aiokafka,
    "kafka-python": KafkaPython,
}
TASKS: Mapping[str, Callable[[Mover, float], dict[str, float]]] = {
    "look-up": look_up,
    "tail": tail,
    "back": back,
    "rotation": rotation,
    "backpressure": backpressure,
    "backlog": backlog,
    "commit": commit,
}


def _write(servers: str, topic: str, partition: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, b"new", partition=partition)
    producer.flush()


def main(task: str, participant: str, options: Mapping[str, Any]) -> None:
    mover = MOVERS[participant](options["servers"], options["topic"], options["partitions"])
    mover.write = partial(_write, options["servers"], options["topic"])
    print(json.dumps(TASKS[task](mover, options["seconds"])), flush=True)
    mover.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
