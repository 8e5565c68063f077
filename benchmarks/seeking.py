"""`scripts/bench seeking`: programs that move in a topic instead of reading it from its start to its end.

Everybody at defaults. A figure is the mean over many moves of one consumer, from the call to the record that was
sought, or how many records a second it reads while it pauses and resumes partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.places import place
from benchmarks.turns import OWN, Figures, Target, run_worker, take_turns

TOPIC = "seeking"
PARTITIONS = 6
RECORDS = 50_000  # of each partition
VALUE_BYTES = 500
PEER = "confluent-kafka"
PARTICIPANTS = (OWN, PEER, "aiokafka", "kafka-python")
CASES = {
    "look-up": "a record by its offset",
    "tail": "the last ten of each partition",
    "back": "a record of a topic that is read to its end",
    "rotation": "one partition at a time, the others paused",
    "backpressure": "a partition paused while it is worked on, five others at their ends",
    "backlog": "a new record beside five partitions with a backlog that is worked on",
    "commit": "a synchronous commit",
}
WORKER = Path(__file__).with_name("seeking_worker.py")
TARGETS = (
    Target(case=CASES["look-up"], figure="ms", limit=1.1, to="aiokafka"),
    *(Target(case=CASES[task], figure="ms", limit=1.1, to=PEER) for task in ("look-up", "tail", "back", "backlog")),
    *(
        Target(case=CASES[task], figure="thousand_per_s", limit=1.0, to=PEER, at_least=True)
        for task in ("rotation", "backpressure")
    ),
)


def run(
    *,
    rounds: int,
    seconds: float,
    cases: Sequence[str] = tuple(CASES),
    participants: Sequence[str] = PARTICIPANTS,
) -> list[Figures]:
    """Measure everything.

    Args:
        seconds: How long each turn lasts.

    Raises:
        ClusterError: There is no broker to be had.
        WrongAnswerError: A participant returned another record than the one that was sought.
    """
    with place() as at:
        at.make(TOPIC, PARTITIONS)
        at.fill(TOPIC, partitions=PARTITIONS, records=RECORDS, value_bytes=VALUE_BYTES)
        options: dict[str, str | float] = {
            "servers": at.servers,
            "topic": TOPIC,
            "partitions": PARTITIONS,
            "seconds": seconds,
        }
        return [
            figure
            for task in cases
            for figure in take_turns(
                CASES[task],
                rounds,
                {name: partial(run_worker, task, name, worker=WORKER, **options) for name in participants},
            )
        ]
