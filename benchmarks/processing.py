"""`scripts/bench processing`: what a `Processor` costs, and how much it keeps in work, on a real broker.

Figures that others have published were measured on other machines, with other clients: they stand beside ours to say
what is possible, and a target is a multiple of them. Whatever can be compared in one run is: with plain iteration over
the same topic, and with what so many workers could do at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log2
from pathlib import Path
from random import Random
from typing import TypeAlias
from uuid import UUID

from benchmarks.places import Place, place
from benchmarks.turns import Figures, Target, Turn, run_worker, take_turns
from kwire.processing import OffsetMap, decode, encode
from kwire.processing.offset_map import LIMIT_CHARS
from tools.topic_filling import Entry, fill

Work: TypeAlias = dict[str, str | float]
"""Options of a turn; see `processing_worker.Options`."""

WORKER = Path(__file__).with_name("processing_worker.py")
VALUE_BYTES = 100
MANY_PARTITIONS = 4
PLAIN = "plain iteration"

# "Confluent Parallel Consumer" README, section on performance: 10,000 records, random 0-5 ms, ordering by key.
PARALLEL_CONSUMER = "Confluent Parallel Consumer, as published"
PARALLEL_CONSUMER_S = {1: 26.7, 10: 3.3, 100: 2.18, 10_000: 2.13}
KEYS_RECORDS, KEYS_WORKERS = 10_000, 100
# Pyrallel-Consumer's README: 5 ms a record.
PYRALLEL = "Pyrallel-Consumer, as published"
PYRALLEL_THOUSAND_PER_S = 2.206
FIVE_MS_CASE, FIVE_MS_RECORDS, FIVE_MS_KEYS = "5 ms a record, 100 keys", 40_000, 100
NO_OP_CASE, NO_OP_RECORDS, NO_OP_KEYS = "a handler that does nothing", 600_000, 1_000
NO_OPS = {"partition": "threads", "key": "threads", "none": "threads", "none, asyncio": "asyncio", "none, trio": "trio"}
LATENCIES_MS = (0.1, 1.0, 5.0, 50.0)
WORKERS = (1, 16, 100, 1_000)
MODES = ("threads", "asyncio")
UNFINISHED = (0.5, 0.1, 0.01, 0.001)
BITS_PER_CHAR = log2(85)
ENTROPY = "entropy bound"


def keys_case(keys: int) -> str:
    return f"0-5 ms a record, {keys:,} keys"


def map_case(share: float) -> str:
    return f"{100 * share:g} % unfinished"


TARGETS: Mapping[str, Sequence[Target]] = {
    "keys": [
        Target(case=keys_case(keys), figure="seconds", of="threads", to=PARALLEL_CONSUMER, limit=1.0)
        for keys in PARALLEL_CONSUMER_S
    ],
    "five-ms": [
        Target(case=FIVE_MS_CASE, figure="thousand_per_s", of=mode, to=PYRALLEL, limit=5.0, at_least=True)
        for mode in MODES
    ],
    "no-op": [
        Target(case=NO_OP_CASE, figure="thousand_per_s", of=name, to=PLAIN, limit=0.5, at_least=True)
        for name, mode in NO_OPS.items()
        if mode == "threads"
    ],
    "efficiency": [],
    "offset-map": [
        Target(case=map_case(share), figure="offsets", to=ENTROPY, limit=0.9, at_least=True) for share in UNFINISHED
    ],
}


def run(*, rounds: int, cases: Sequence[str], scale: float = 1.0, against: Path | None = None) -> list[Figures]:
    """Measure what is asked for.

    Args:
        rounds: How often each participant has its turn; those that take longest have but one.
        cases: Names of `CASES`.
        scale: What part of the records is written.
        against: Another clone: instead of the cases, a handler that does nothing is timed in both.

    Raises:
        ClusterError: There is no broker to be had.
        WrongAnswerError: A record was not done with, or twice.
    """
    results: list[Figures] = []
    with place() as at:
        if against is not None:
            return no_op_in_both(at, rounds, scale, against)
        for name in cases:
            results += CASES[name](at, rounds, scale)
    return results


def targets(cases: Sequence[str]) -> list[Target]:
    return [target for name in cases for target in TARGETS[name]]


# --- the cases --------------------------------------------------------------------------------------------------------


def by_keys(at: Place, rounds: int, scale: float) -> list[Figures]:
    """One partition, and as many at once as its keys allow."""
    results: list[Figures] = []
    for keys, published_s in PARALLEL_CONSUMER_S.items():
        records = round(KEYS_RECORDS * scale)
        topic = filled(at, f"keys-{keys}", partitions=1, records=records, keys=keys)
        work: Work = {"records": records, "ordering": "key", "workers": KEYS_WORKERS, "most_ms": 5.0}
        # One key is one after the other, in any client: half a minute of sleep.
        modes, often = (MODES[:1], 1) if keys == 1 else (MODES, rounds)
        turns: dict[str, Turn] = {mode: turn("drain", mode, at, topic, **work) for mode in modes}
        results += take_turns(keys_case(keys), often, turns)
        results.append(published(keys_case(keys), "seconds", PARALLEL_CONSUMER, published_s, often))
    return results


def five_ms(at: Place, rounds: int, scale: float) -> list[Figures]:
    records = round(FIVE_MS_RECORDS * scale)
    topic = filled(at, "five-ms", partitions=1, records=records, keys=FIVE_MS_KEYS)
    work: Work = {
        "records": records,
        "ordering": "key",
        "workers": FIVE_MS_KEYS,
        "least_ms": 5.0,
        "most_ms": 5.0,
    }
    turns: dict[str, Turn] = {mode: turn("drain", mode, at, topic, **work) for mode in MODES}
    theirs = published(FIVE_MS_CASE, "thousand_per_s", PYRALLEL, PYRALLEL_THOUSAND_PER_S, rounds)
    return [*take_turns(FIVE_MS_CASE, rounds, turns), theirs]


def no_op(at: Place, rounds: int, scale: float) -> list[Figures]:
    """What handing out, taking back and tracking completion costs."""
    records = round(NO_OP_RECORDS * scale)
    topic = filled(at, "no-op", partitions=MANY_PARTITIONS, records=records, keys=NO_OP_KEYS)
    turns: dict[str, Turn] = {PLAIN: turn("drain", "plain", at, topic, records=records)}
    for name, mode in NO_OPS.items():
        turns[name] = turn("drain", mode, at, topic, records=records, ordering=name.split(",")[0])
    return take_turns(NO_OP_CASE, rounds, turns)


def no_op_in_both(at: Place, rounds: int, scale: float, other: Path) -> list[Figures]:
    """The same in this tree and in another, in turns. What CPU a record takes is comparable on a busy machine too."""
    records = round(NO_OP_RECORDS * scale)
    topic = filled(at, "no-op", partitions=MANY_PARTITIONS, records=records, keys=NO_OP_KEYS)
    turns: dict[str, Turn] = {PLAIN: turn("drain", "plain", at, topic, records=records)}
    for name in [name for name, mode in NO_OPS.items() if mode == "threads"]:
        work: Work = {"records": records, "ordering": name}
        turns[f"{name}, there"] = turn("drain", "threads", at, topic, other, **work)
        turns[name] = turn("drain", "threads", at, topic, **work)
    return take_turns(NO_OP_CASE, rounds, turns)


def efficiency(at: Place, rounds: int, scale: float) -> list[Figures]:
    """Of what so many workers could do at most, if nothing else took time."""
    topic = filled(at, "efficiency", partitions=1, records=round(NO_OP_RECORDS * scale), keys=NO_OP_KEYS)
    results: list[Figures] = []
    for latency_ms in LATENCIES_MS:
        for workers in WORKERS:
            work: Work = {
                "ordering": "none",
                "workers": workers,
                "least_ms": latency_ms,
                "most_ms": latency_ms,
            }
            turns: dict[str, Turn] = {mode: turn("steady", mode, at, topic, **work) for mode in MODES}
            results += take_turns(f"{latency_ms:g} ms a record, {workers:,} workers", min(rounds, 1), turns)
    return results


def offset_map(_at: Place, rounds: int, scale: float) -> list[Figures]:
    """How many offsets after a commit its metadata can describe, by the share of records that are unfinished."""
    results: list[Figures] = []
    for share in UNFINISHED:
        bound = reach(share)
        turns: dict[str, Turn] = {
            "kwire": partial(capacity, share, round(1.2 * bound * scale), Random(str(share))),
            ENTROPY: partial(dict[str, float], offsets=bound),
        }
        results += take_turns(map_case(share), rounds, turns)
    return results


CASES: Mapping[str, Callable[[Place, int, float], list[Figures]]] = {
    "keys": by_keys,
    "five-ms": five_ms,
    "no-op": no_op,
    "efficiency": efficiency,
    "offset-map": offset_map,
}


# --- what they are made of --------------------------------------------------------------------------------------------


def turn(task: str, mode: str, at: Place, topic: str, tree: Path | None = None, /, **options: str | float) -> Turn:
    return partial(run_worker, task, mode, tree, worker=WORKER, servers=at.servers, topic=topic, **options)


def published(case: str, name: str, who: str, value: float, rounds: int) -> Figures:
    return Figures(case=case, name=name, participant=who, rounds=(value,) * rounds)


def reach(share: float) -> float:
    """The most offsets that any map of LIMIT_CHARS characters can describe (entropy bound)."""
    bits_each = -share * log2(share) - (1.0 - share) * log2(1.0 - share)
    return LIMIT_CHARS * BITS_PER_CHAR / bits_each


def capacity(share: float, offsets: int, chance: Random) -> dict[str, float]:
    """The last offset after a commit that the map describes, if each record is unfinished with this probability."""
    stretches: list[range] = []
    start = 1
    for offset in range(1, offsets):
        if chance.random() < share:
            if offset > start:
                stretches.append(range(start, offset))
            start = offset + 1
    found = decode(0, encode(0, OffsetMap(UUID(int=chance.getrandbits(128)), 7, tuple(stretches))))
    assert found is not None
    return {"offsets": found.finished[-1].stop}


def filled(at: Place, topic: str, *, partitions: int, records: int, keys: int) -> str:
    """A topic with keys spread evenly."""
    at.make(topic, partitions)
    value = bytes(VALUE_BYTES)
    fill(
        at.servers,
        topic,
        (Entry(number % partitions, value, b"key-%d" % (number // partitions % keys)) for number in range(records)),
    )
    return topic
