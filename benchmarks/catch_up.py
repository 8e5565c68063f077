"""`scripts/bench catch-up`: a consumer comes back to a long lag. How long until it has what is written after that, and
how long until it has all of the lag?

Each turn is a group whose commit stands at the beginning of a topic. As soon as its one member has got its first
records, one more is written: that it comes is *fresh_s* later. *lag_s* is from the member's start to its last record.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from uuid import uuid4

from benchmarks.places import place
from benchmarks.turns import OWN, Figures, Target, run_worker, take_turns
from kwire import Consumer, OffsetAndMetadata, TopicPartition

TOPIC = "lag"
PARTITIONS = 4
RECORDS = 5_000_000
VALUE_BYTES = 100
CASE = "a lag"
NEWEST_FIRST = "kwire, newest first"
PEER = "confluent-kafka"
WORKER = Path(__file__).with_name("catch_up_worker.py")
TARGETS = (
    Target(case=CASE, figure="lag_s", limit=1.1, of=NEWEST_FIRST, to=OWN),
    Target(case=CASE, figure="cpu_s", limit=1.1, of=NEWEST_FIRST, to=OWN),
)


def run(*, rounds: int, records: int = RECORDS) -> list[Figures]:
    """Measure all three in turns.

    Raises:
        ClusterError: There is no broker to be had.
        WrongAnswerError: One of them failed, or has read something else.
    """
    with place() as at:
        at.make(TOPIC, PARTITIONS)
        at.fill(TOPIC, partitions=PARTITIONS, records=records // PARTITIONS, value_bytes=VALUE_BYTES)
        turns = {name: partial(turn, at.servers, name) for name in (NEWEST_FIRST, OWN, PEER)}
        return take_turns(CASE, rounds, turns)


def turn(servers: str, participant: str) -> dict[str, float]:
    """One member of a group that was never there before."""
    group = f"lag-{uuid4().hex[:8]}"
    commit_beginning(servers, group)
    return run_worker(
        "catch-up", participant, worker=WORKER, servers=servers, group=group, topic=TOPIC, partitions=PARTITIONS
    )


def commit_beginning(servers: str, group: str) -> None:
    """As a crashed consumer left it."""
    with Consumer[bytes, bytes](bootstrap_servers=servers, group_id=group, enable_auto_commit=False) as consumer:
        tps = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        consumer.assign(tps)
        consumer.commit_sync({tp: OffsetAndMetadata(0) for tp in tps})
