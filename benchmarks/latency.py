"""`scripts/bench latency`: from a producer's `produce()` until the record is in the application's hands.

1,000 records of 100 bytes a second into four partitions, `fetch.min.bytes=1`, the producer in a process of its own and
going on all the time. The producer's and the broker's share is the same for all participants, and in all figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.feed import feed
from benchmarks.places import place
from benchmarks.turns import OWN, Figures, Target, run_worker, take_turns

CASE = "1,000 records/s"
TOPIC = "latency"
PARTITIONS = 4
PER_SECOND = 1_000
VALUE_BYTES = 100
PEER = "confluent-kafka poll"
ASYNC, ASYNC_PEER = f"{OWN}, AsyncConsumer", "aiokafka"
PARTICIPANTS = (OWN, PEER, "confluent-kafka consume", ASYNC, ASYNC_PEER, "kafka-python")
TARGETS = (
    *(Target(case=CASE, figure=name, limit=1.1, to=PEER) for name in ("p50_ms", "p99_ms")),
    *(Target(case=CASE, figure=name, limit=1.1, of=ASYNC, to=ASYNC_PEER) for name in ("p50_ms", "p99_ms")),
)


def run(*, rounds: int, seconds: float, participants: Sequence[str] = PARTICIPANTS) -> list[Figures]:
    """Measure everything.

    Raises:
        ClusterError: There is no broker to be had.
        WrongAnswerError: A participant missed a record.
    """
    with place() as at:
        at.make(TOPIC, PARTITIONS)
        with feed(at.servers, TOPIC, partitions=PARTITIONS, per_second=PER_SECOND, value_bytes=VALUE_BYTES):
            turn = partial(
                run_worker, "latency", servers=at.servers, topics=TOPIC, partitions=PARTITIONS, seconds=seconds
            )
            turn(participants[-1])  # not counted: a broker that has just started is seconds behind its producer
            return take_turns(CASE, rounds, {name: partial(turn, name) for name in participants})
