"""`scripts/bench scale`: what partitions cost that have nothing to say.

Ten topics on one broker, and data in the first partition of each. Throughput with these ten partitions assigned, and
with all of them; then the CPU time of a consumer whose partitions are all empty. kwire's against confluent-kafka's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.places import Place, place
from benchmarks.turns import OWN, Figures, Target, Turn, run_worker, take_turns

TOPICS = 10
VALUE_BYTES = 100
EMPTY = "empty"
IDLE = "idle"
FEW, MANY = "10 assigned", "all assigned"
PEER = "confluent-kafka consume"
PARTICIPANTS = (OWN, PEER)
IDLE_LIMIT_PERCENT = 2.0
SHARE = 0.8


def throughput_case(partitions: int) -> str:
    return f"10 of {partitions:,} with data"


def idle_case(partitions: int) -> str:
    return f"{partitions:,} idle"


def targets(partitions: int, idle: int) -> list[Target]:
    case = throughput_case(partitions)
    own_many, own_few = f"{OWN}, {MANY}", f"{OWN}, {FEW}"
    return [
        Target(case=case, figure="million_per_s", of=own_many, to=own_few, limit=SHARE, at_least=True),
        Target(case=idle_case(idle), figure="core_percent", limit=IDLE_LIMIT_PERCENT),
    ]


def run(
    *,
    rounds: int,
    partitions: int,
    idle: int,
    records: int,
    seconds: float,
    participants: Sequence[str] = PARTICIPANTS,
) -> list[Figures]:
    """Measure everything.

    Args:
        rounds: How often each participant has its turn.
        partitions: How many there are, ten of them with data.
        idle: How many empty ones the idle consumer has.
        records: How many records each of the ten partitions has.
        seconds: How long idling is watched.

    Raises:
        ClusterError: There is no broker to be had.
        WrongAnswerError: A participant missed a record, or read one that is not there.
    """
    with place() as at:
        names = [f"scale-{number}" for number in range(TOPICS)]
        for name in names:
            at.make(name, partitions // TOPICS)
            at.fill(name, partitions=1, records=records, value_bytes=VALUE_BYTES)
        at.make(EMPTY, idle)
        reading = {
            f"{name}, {how}": reader(at, name, names, count, records)
            for name in participants
            for how, count in ((FEW, 1), (MANY, partitions // TOPICS))
        }
        idling: dict[str, Turn] = {
            name: partial(run_worker, IDLE, name, servers=at.servers, topics=EMPTY, partitions=idle, seconds=seconds)
            for name in participants
        }
        found = take_turns(throughput_case(partitions), rounds, reading)
        return found + take_turns(idle_case(idle), rounds, idling)


def reader(at: Place, participant: str, names: Sequence[str], partitions: int, records: int) -> Turn:
    topics = ",".join(names)
    wanted = TOPICS * records
    return partial(
        run_worker, "throughput", participant, servers=at.servers, topics=topics, partitions=partitions, records=wanted
    )
