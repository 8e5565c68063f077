"""Clients of `scripts/bench throughput` in turns, for suites that compare some of them in some other way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.throughput.measure import BROKER_OPTIONS, written
from benchmarks.throughput.topics import CASES, Content
from benchmarks.throughput.turn import Client, take
from benchmarks.turns import Figures, take_turns
from kwire.testing.kafka import KafkaCluster

RATE = "records_per_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRun:
    """A client with the further arguments that `reader.py` gets for it."""

    client: Client
    extra: Mapping[str, object]


def read_in_turns(runs: Mapping[str, ClientRun], *, rounds: int, scale: float, cases: Sequence[str]) -> list[Figures]:
    """Let all of them read each topic: records a second, and what a million of them cost.

    Args:
        runs: By their titles.
        rounds: How often each has its turn.
        scale: What part of each topic is written.
        cases: Names of topics.
    """
    results: list[Figures] = []
    with KafkaCluster(jvm_options=BROKER_OPTIONS) as kafka:
        for name in cases:
            case = CASES[name]
            content = written(case, kafka.bootstrap_servers, name, case.scaled(scale))
            turns = {title: partial(_turn, run, kafka.bootstrap_servers, name, content) for title, run in runs.items()}
            results += take_turns(case.title, rounds, turns)
    return results


def _turn(run: ClientRun, servers: str, topic: str, content: Content) -> dict[str, float]:
    turn = take(run.client, servers, topic, content, run.extra)
    return {RATE: turn.rate, "cpu_s_per_million": turn.cpu_s / content.records * 1e6}
