"""Contenders of `scripts/bench throughput` in turns, for suites that compare some of them in some other way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.throughput.measure import BROKER_OPTIONS, written
from benchmarks.throughput.topics import CASES, Content
from benchmarks.throughput.turn import Contender, take
from benchmarks.turns import Figures, take_turns
from kwire.testing.kafka import KafkaCluster

RATE = "records_per_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A contestant: the client that reads, and further arguments of `reader.py`."""

    contender: Contender
    extra: Mapping[str, object]


def read_in_turns(
    contestants: Mapping[str, Contestant], *, rounds: int, scale: float, cases: Sequence[str]
) -> list[Figures]:
    """Let all of them read each topic: records a second, and what a million of them cost.

    Args:
        contestants: By their titles.
        rounds: How often each has its turn.
        scale: What part of each topic is written.
        cases: Names of topics.
    """
    results: list[Figures] = []
    with KafkaCluster(jvm_options=BROKER_OPTIONS) as kafka:
        for name in cases:
            case = CASES[name]
            content = written(case, kafka.bootstrap_servers, name, case.scaled(scale))
            turns = {
                title: partial(_turn, contestant, kafka.bootstrap_servers, name, content)
                for title, contestant in contestants.items()
            }
            results += take_turns(case.title, rounds, turns)
    return results


def _turn(contestant: Contestant, servers: str, topic: str, content: Content) -> dict[str, float]:
    turn = take(contestant.contender, servers, topic, content, contestant.extra)
    return {RATE: turn.rate, "cpu_s_per_million": turn.cpu_s / content.records * 1e6}
