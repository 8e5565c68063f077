"""`scripts/bench adapters`: programs of other clients, as they are and with their import changed to kwire's adapter.

Each kind of program reads the same topic in a fresh process, with its client and with the adapter in turns. None of
them has a setting that makes it fast.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.throughput.in_turns import RATE, ClientRun, read_in_turns
from benchmarks.throughput.topics import CASES
from benchmarks.throughput.turn import AIOKAFKA, CONSUME, KAFKA_PYTHON, POLL, Client
from benchmarks.turns import Figures, Target

PROGRAMS = (
    CONSUME,
    POLL,
    Client(name="confluent-aio", title="AIOConsumer.consume()", is_installed_apart=CONSUME.is_installed_apart),
    Client(name="aiokafka", title="aiokafka getmany()", is_installed_apart=AIOKAFKA.is_installed_apart),
    Client(name="aiokafka-records", title="aiokafka async for", is_installed_apart=AIOKAFKA.is_installed_apart),
    Client(name="kafka-python", title="kafka-python poll()", is_installed_apart=KAFKA_PYTHON.is_installed_apart),
)
TOPICS = ("plain", "mixed")


def run(*, rounds: int, scale: float, cases: Sequence[str]) -> list[Figures]:
    """Measure.

    Args:
        rounds: How often each program has its turn, with its client and with the adapter.
        scale: What part of each topic is written.
        cases: Names of topics.
    """
    runs = {
        title(program, adapter=adapter): ClientRun(client=program, extra={"defaults": True, "adapter": adapter})
        for program in PROGRAMS
        for adapter in (False, True)
    }
    return read_in_turns(runs, rounds=rounds, scale=scale, cases=cases)


def title(program: Client, *, adapter: bool) -> str:
    return f"{program.title}, kwire" if adapter else program.title


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
