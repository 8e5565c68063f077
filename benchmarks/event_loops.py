"""`scripts/bench async`: what reading on an event loop costs, beside code that blocks, and beside peers that await.

Each client reads the same topic, in turns, in a fresh process. kwire reads it with `Consumer` and with `AsyncConsumer`:
as rows of whole polls, as columns, and record by record. The peers are aiokafka and confluent-kafka's AIOConsumer.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.throughput.in_turns import RATE, ClientRun, read_in_turns
from benchmarks.throughput.topics import CASES
from benchmarks.throughput.turn import AIOKAFKA, COLUMNS, ROWS, Client
from benchmarks.turns import Figures, Target

CLIENTS = (
    ROWS,
    Client(name="kwire-async-rows", title="kwire async, rows"),
    COLUMNS,
    Client(name="kwire-async-columns", title="kwire async, columns"),
    Client(name="kwire-records", title="kwire, for"),
    Client(name="kwire-async-records", title="kwire async, async for"),
    AIOKAFKA,
    Client(name="aiokafka-records", title="aiokafka, async for", is_installed_apart=True),
    Client(name="confluent-aio", title="confluent AIOConsumer.consume()"),
)
TOPICS = ("plain", "lz4", "random")


def run(*, rounds: int, scale: float, cases: Sequence[str], defaults: bool) -> list[Figures]:
    """Measure.

    Args:
        rounds: How often each client has its turn.
        scale: What part of each topic is written.
        cases: Names of topics.
        defaults: Whether all keep their defaults, instead of what makes them fast.
    """
    runs = {each.title: ClientRun(client=each, extra={"defaults": defaults}) for each in CLIENTS}
    return read_in_turns(runs, rounds=rounds, scale=scale, cases=cases)


def targets(cases: Sequence[str]) -> list[Target]:
    """The event loop against code that blocks."""
    return [
        Target(
            case=CASES[name].title,
            figure=RATE,
            limit=0.9,
            of=f"kwire async, {what}",
            to=f"kwire, {what}",
            at_least=True,
        )
        for name in cases
        for what in ("rows", "columns")
    ]
