"""`scripts/bench adapters`: programs of other clients, as they are and with their import changed to kwire's adapter.

Each kind of program reads the same topic in a fresh process, with its client and with the adapter in turns. None of
them has a setting that makes it fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.throughput.measure import BROKER_OPTIONS, written
from benchmarks.throughput.topics import CASES, Content
from benchmarks.throughput.turn import AIOKAFKA, CONSUME, KAFKA_PYTHON, POLL, Contender, take
from benchmarks.turns import Figures, Target, take_turns
from kwire.testing.kafka import KafkaCluster

PROGRAMS = (
    CONSUME,
    POLL,
    Contender(name="aiokafka", title="aiokafka getmany()", peer=AIOKAFKA.peer),
    Contender(name="aiokafka-records", title="aiokafka async for", peer=AIOKAFKA.peer),
    Contender(name="kafka-python", title="kafka-python poll()", peer=KAFKA_PYTHON.peer),
)
TOPICS = ("plain", "mixed")
RATE = "records_per_s"


def run(*, rounds: int, scale: float, cases: Sequence[str]) -> list[Figures]:
    """Measure.

    Args:
        rounds: How often each program has its turn, with its client and with the adapter.
        scale: What part of each topic is written.
        cases: Names of topics.
    """
    results: list[Figures] = []
    with KafkaCluster(jvm_options=BROKER_OPTIONS) as kafka:
        for name in cases:
            case = CASES[name]
            topic = f"adapters-{name}"
            content = written(case, kafka.bootstrap_servers, topic, case.scaled(scale))
            turns = {
                title(program, adapter=adapter): partial(
                    _turn, program, kafka.bootstrap_servers, topic, content, adapter
                )
                for program in PROGRAMS
                for adapter in (False, True)
            }
            results += take_turns(case.title, rounds, turns)
    return results


def title(program: Contender, *, adapter: bool) -> str:
    return f"{program.title}, kwire" if adapter else program.title


def _turn(program: Contender, servers: str, topic: str, content: Content, adapter: bool) -> dict[str, float]:
    turn = take(program, servers, topic, content, {"defaults": True, "adapter": adapter})
    return {RATE: turn.rate, "cpu_s_per_million": turn.cpu_s / content.records * 1e6}


def targets(cases: Sequence[str]) -> list[Target]:
    """Who changes the import does not get slower."""
    return [
        Target(
            case=CASES[name].title,
            figure=RATE,
            limit=1.0,
            of=title(program, adapter=True),
            to=title(program, adapter=False),
            at_least=True,
        )
        for name in cases
        for program in PROGRAMS
    ]
