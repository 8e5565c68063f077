"""`scripts/bench throughput`: how fast a topic is read from its start to its end, by kwire and by every peer.

Real broker, on the same machine. Each topic is written once and read once without being timed, so that broker and file
cache are warm; then the clients read it in turns (A B C, A B C, ...), each time in a fresh process and a group of
its own. What counts is the median over the rounds of one client's rate to another's in the same round. A client
that reads anything else than what was written has failed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient

from benchmarks.throughput.topics import CASES, TIMEOUT_S, Case, Content
from benchmarks.throughput.turn import CLIENTS, CONSUME, Client, Turn, WrongAnswerError, take
from kwire.testing.kafka import ClusterError, KafkaCluster
from kwire.testing.kafka.jars import first_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WRITER = Path(__file__).with_name("topics.py")
# The tests' brokers start fast; this one shall be fast.
BROKER_OPTIONS = ("-Xms1g", "-Xmx1g")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All rounds of one client in one case; None is a round that failed."""

    case: str
    title: str
    client: str
    client_title: str
    content: Content
    turns: tuple[Turn | None, ...]
    failures: tuple[str, ...] = ()

    @property
    def done(self) -> list[Turn]:
        return [turn for turn in self.turns if turn is not None]

    @property
    def rate(self) -> float:
        """Records per second, from before the first poll to the last record; 0 when every round failed."""
        return median([turn.rate for turn in self.done] or [0.0])

    @property
    def steady_rate(self) -> float:
        return median([turn.steady_rate for turn in self.done] or [0.0])

    @property
    def mb_rate(self) -> float:
        """Million bytes of keys and values per second."""
        return self.rate * self.content.size_bytes / self.content.records / 1e6

    @property
    def cpu_s_per_million(self) -> float:
        return median([turn.cpu_s for turn in self.done] or [0.0]) / self.content.records * 1e6

    @property
    def peak_mb(self) -> float:
        return max((turn.peak_bytes for turn in self.done), default=0) / 1e6

    def to_json(self) -> dict[str, object]:
        return {
            "case": self.case,
            "client": self.client,
            "records": self.content.records,
            "bytes": self.content.size_bytes,
            "rate": round(self.rate),
            "steady_rate": round(self.steady_rate),
            "mb_rate": round(self.mb_rate, 1),
            "cpu_s_per_million": round(self.cpu_s_per_million, 3),
            "peak_mb": round(self.peak_mb),
            "rates": [None if turn is None else round(turn.rate) for turn in self.turns],
            "failures": list(self.failures),
        }


def run(
    *,
    rounds: int,
    scale: float,
    chosen: Sequence[Case] = (),
    clients: Sequence[Client] = CLIENTS,
    defaults: bool = False,
) -> list[Result]:
    """Measure everything.

    Args:
        rounds: How often each client has its turn.
        scale: What part of each topic is written.
        chosen: Which cases; all by default.
        clients: The clients to measure.
        defaults: Whether all keep their defaults, instead of what makes them fast.

    Raises:
        ClusterError: There is no broker to be had, or it did not take the records.
        PeerError: A peer cannot be installed.
        WrongAnswerError: The topic cannot be read at all.
    """
    results: list[Result] = []
    with KafkaCluster(jvm_options=BROKER_OPTIONS) as kafka:
        for case in chosen or CASES.values():
            results += measure_case(
                case,
                kafka.bootstrap_servers,
                rounds=rounds,
                scale=scale,
                clients=clients,
                extra={"defaults": True} if defaults else None,
            )
    return results


def measure_case(
    case: Case,
    bootstrap_servers: str,
    *,
    rounds: int,
    scale: float,
    clients: Sequence[Client],
    extra: Mapping[str, object] | None = None,
) -> list[Result]:
    """One case: its topic, and everybody's turns."""
    topic = f"bench-{case.name}"
    content = written(case, bootstrap_servers, topic, case.scaled(scale))
    take(CONSUME, bootstrap_servers, topic, content)
    turns: dict[str, list[Turn | None]] = {client.name: [] for client in clients}
    failures: dict[str, list[str]] = {client.name: [] for client in clients}
    for number in range(rounds):
        print(f"{case.name}: round {number + 1} of {rounds}", file=sys.stderr)
        for client in clients:
            try:
                turns[client.name].append(take(client, bootstrap_servers, topic, content, extra))
            except WrongAnswerError as error:
                turns[client.name].append(None)
                failures[client.name].append(str(error))
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})  # bound, or it is gone before the answer comes
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    return [
        Result(
            case=case.name,
            title=case.title,
            client=client.name,
            client_title=client.title,
            content=content,
            turns=tuple(turns[client.name]),
            failures=tuple(failures[client.name]),
        )
        for client in clients
    ]


def written(case: Case, bootstrap_servers: str, topic: str, records: int) -> Content:
    """Have the topic written.

    Raises:
        ClusterError: It could not be.
    """
    print(f"{case.name}: writing {records:,} records of {case.title}", file=sys.stderr)
    command = [sys.executable, str(WRITER), bootstrap_servers, topic, case.name, str(records)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"{topic} could not be written: {first_error(done.stderr)}")
    return Content(**json.loads(done.stdout.strip().splitlines()[-1]))
