"""`scripts/bench startup`: how long `import` takes, and how long it is from there to the first record.

Measured from the outside, in a fresh process each time: what the interpreter alone takes is measured too, and taken
off. The topic has one record. Each participant reads it twice: from an assigned partition, and as the only member of a
new group.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from uuid import uuid4

from benchmarks.peers import TOP
from benchmarks.places import place
from benchmarks.throughput.turn import WrongAnswerError
from benchmarks.turns import OWN, Figures, Target, Turn, take_turns

TOPIC = "startup"
VALUE_BYTES = 100
IMPORT, FIRST_RECORD, IN_GROUP = "import", "import to first record", "import to first record of a group"
INTERPRETER = "nothing but Python"
PEER = "confluent-kafka"
TIMEOUT_S = 60.0
TARGETS = (
    Target(case=IMPORT, figure="wall_ms", limit=150),
    Target(case=FIRST_RECORD, figure="wall_ms", limit=1.5, to=PEER),
)

IMPORTS: Mapping[str, str] = {
    OWN: "import kwire",
    PEER: "import confluent_kafka",
    "kafka-python": "import kafka",
    "numpy": "import numpy",
    "trio": "import trio",
}
READERS: Mapping[str, str] = {
    OWN: """
from kwire import Consumer, TopicPartition
consumer = Consumer(bootstrap_servers={servers!r}, auto_offset_reset="earliest")
consumer.assign([TopicPartition({topic!r}, 0)])
(record,) = consumer.poll(30)
print(len(record.value), flush=True)
""",
    PEER: """
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
consumer = Consumer({{"bootstrap.servers": {servers!r}, "group.id": "unused"}})
consumer.assign([TopicPartition({topic!r}, 0, OFFSET_BEGINNING)])
print(len(consumer.poll(30).value()), flush=True)
""",
    "kafka-python": """
from kafka import KafkaConsumer, TopicPartition
consumer = KafkaConsumer(bootstrap_servers={servers!r}, auto_offset_reset="earliest")
consumer.assign([TopicPartition({topic!r}, 0)])
print(len(next(consumer).value), flush=True)
""",
}
MEMBERS: Mapping[str, str] = {
    OWN: """
from kwire import Consumer
consumer = Consumer({topic!r}, bootstrap_servers={servers!r}, group_id={group!r}, auto_offset_reset="earliest")
(record,) = consumer.poll(30)
print(len(record.value), flush=True)
""",
    PEER: """
from confluent_kafka import Consumer
consumer = Consumer({{"bootstrap.servers": {servers!r}, "group.id": {group!r}, "auto.offset.reset": "earliest"}})
consumer.subscribe([{topic!r}])
print(len(consumer.poll(30).value()), flush=True)
""",
    "kafka-python": """
from kafka import KafkaConsumer
consumer = KafkaConsumer({topic!r}, bootstrap_servers={servers!r}, group_id={group!r}, auto_offset_reset="earliest")
print(len(next(consumer).value), flush=True)
""",
    "aiokafka": """
import asyncio
from aiokafka import AIOKafkaConsumer
async def main():
    at = dict(bootstrap_servers={servers!r}, group_id={group!r}, auto_offset_reset="earliest")
    consumer = AIOKafkaConsumer({topic!r}, **at)
    await consumer.start()
    print(len((await consumer.getone()).value), flush=True)
    await consumer.stop()
asyncio.run(main())
""",
}


def run(*, rounds: int) -> list[Figures]:
    """Measure everything.

    Raises:
        ClusterError: There is no broker to be had.
        WrongAnswerError: A program failed, or read something else.
    """
    imports = {name: partial(timed, name, code, "") for name, code in {INTERPRETER: "", **IMPORTS}.items()}
    found = less_interpreter(take_turns(IMPORT, rounds, imports))
    with place() as at:
        at.make(TOPIC, 1)
        at.fill(TOPIC, partitions=1, records=1, value_bytes=VALUE_BYTES)
        for case, programs in ((FIRST_RECORD, READERS), (IN_GROUP, MEMBERS)):
            readers: dict[str, Turn] = {
                name: partial(timed_reader, name, code, at.servers)
                for name, code in {INTERPRETER: f"print({VALUE_BYTES})", **programs}.items()
            }
            found += less_interpreter(take_turns(case, rounds, readers))
    return found


def timed_reader(participant: str, code: str, servers: str) -> dict[str, float]:
    """In a group that nobody was in before, where it is in one."""
    program = code.format(servers=servers, topic=TOPIC, group=f"startup-{uuid4()}")
    return timed(participant, program, f"{VALUE_BYTES}\n")


def timed(participant: str, code: str, expected: str) -> dict[str, float]:
    """Until the program has printed its line, or has ended where it prints none, and the CPU time of all of it."""
    before_s, begin_s = _children_cpu_s(), time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=TOP, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        printed = process.stdout.readline()
        took_s = time.monotonic() - begin_s
        _, errors = process.communicate(timeout=TIMEOUT_S)
    if printed != expected:
        raise WrongAnswerError(f"{participant}: printed {printed!r} instead of {expected!r}; {errors.strip()}")
    return {"wall_ms": 1e3 * took_s, "cpu_ms": 1e3 * (_children_cpu_s() - before_s)}


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def less_interpreter(results: Sequence[Figures]) -> list[Figures]:
    """What each took beyond an interpreter with nothing to do, round by round."""
    bare = {each.name: each.rounds for each in results if each.participant == INTERPRETER}
    return [
        Figures(
            case=each.case,
            name=each.name,
            participant=each.participant,
            rounds=tuple(mine - nothing for mine, nothing in zip(each.rounds, bare[each.name], strict=True)),
        )
        for each in results
        if each.participant != INTERPRETER
    ]
