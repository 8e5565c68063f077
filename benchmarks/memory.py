"""`scripts/bench memory`: a consumer a hundred times slower than the producer keeps within its bound.

The figure is by how much the process has grown at its highest since it began to read: what is bounded is what it holds
of the topic, not what Python and its libraries take. Plain records, and ones that multiply by decompression; few
partitions, and so many that one answer fills the buffer. For confluent-kafka the bound is `queued.max.messages.kbytes`,
per partition in effect, so it is shown and not held against the target.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.feed import feed
from benchmarks.places import Place, place
from benchmarks.turns import OWN, Figures, Target, Turn, run_worker, take_turns

BUFFER_MIB = 64
SLACK_MIB = 32
TIMES_SLOWER = 100
VALUE_BYTES = 1_000
HEAD_START = 200_000  # records: more than three buffers are waiting when the consumer comes
PEER = "confluent-kafka consume"
PARTICIPANTS = (OWN, PEER)
BOUNDS = {
    OWN: {"fetch.buffer.bytes": BUFFER_MIB * 1024 * 1024, "max.poll.records": 500},
    PEER: {"queued.max.messages.kbytes": BUFFER_MIB * 1024, "queued.min.messages": 100_000},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A topic, and who writes it how."""

    title: str
    topic: str
    partitions: int
    compression: str


CASES = (
    Case(title="4 partitions, plain", topic="memory-plain", partitions=4, compression="none"),
    Case(title="100 partitions, plain", topic="memory-wide", partitions=100, compression="none"),
    Case(title="4 partitions, zstd", topic="memory-zstd", partitions=4, compression="zstd"),
)
TARGETS = tuple(Target(case=case.title, figure="grown_mib", limit=BUFFER_MIB + SLACK_MIB) for case in CASES)


def run(
    *,
    rounds: int,
    seconds: float,
    per_second: int,
    cases: Sequence[Case] = CASES,
    participants: Sequence[str] = PARTICIPANTS,
) -> list[Figures]:
    """Measure everything.

    Args:
        rounds: How often each participant has its turn.
        seconds: How long a turn takes.
        per_second: Records the producer writes a second; the consumer takes a hundredth of it.

    Raises:
        ClusterError: There is no broker to be had.
        WrongAnswerError: A participant missed a record.
    """
    found: list[Figures] = []
    with place() as at:
        for case in cases:
            at.make(case.topic, case.partitions)
            share = HEAD_START // case.partitions
            at.fill(case.topic, partitions=case.partitions, records=share, value_bytes=VALUE_BYTES)
            with feed(
                at.servers,
                case.topic,
                partitions=case.partitions,
                per_second=per_second,
                value_bytes=VALUE_BYTES,
                compression=case.compression,
            ):
                turns = {name: slow(at, case, name, seconds, per_second) for name in participants}
                found += take_turns(case.title, rounds, turns)
    return found


def slow(at: Place, case: Case, participant: str, seconds: float, per_second: int) -> Turn:
    return partial(
        run_worker,
        "slow",
        participant,
        servers=at.servers,
        topics=case.topic,
        partitions=case.partitions,
        seconds=seconds,
        rate=per_second / TIMES_SLOWER,
        settings=json.dumps(BOUNDS[participant]),
    )
