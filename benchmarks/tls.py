"""`scripts/bench tls`: what TLS costs, beside an idle and a busy application.

A topic is read in plain text and over TLS by kwire, as rows and as columns, and by confluent-kafka, in turns, each in a
fresh process. Busy means that another thread of the process computes in pure Python all the time. That thread competes
for the interpreter's lock, which Python releases for each TLS record of 16 KiB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks.throughput.measure import BROKER_OPTIONS, written
from benchmarks.throughput.topics import CASES, Case, Content
from benchmarks.throughput.turn import COLUMNS, CONSUME, ROWS, Client, take
from benchmarks.turns import Figures, Target, Turn, take_turns
from kwire.testing.kafka import KafkaCluster, Security

LISTENERS = {"plain": "PLAINTEXT", "TLS": "SSL"}
CLIENTS = {"kwire": ROWS, "kwire columns": COLUMNS, "confluent": CONSUME}
TOPICS = ("plain", "lz4", "random")
APPLICATIONS = ("idle", "busy")
RATE = "mb_per_s"


def run(*, rounds: int, scale: float, cases: Sequence[str]) -> list[Figures]:
    """Measure.

    Args:
        rounds: How often each client has its turn.
        scale: What part of each topic is written.
        cases: Names of topics.
    """
    results: list[Figures] = []
    with KafkaCluster(jvm_options=BROKER_OPTIONS, security=Security()) as kafka:
        for name in cases:
            case = CASES[name]
            topic = f"tls-{name}"
            content = written(case, kafka.bootstrap_servers, topic, case.scaled(scale))
            for application in APPLICATIONS:
                turns = _turns(kafka, topic, content, application)
                results += take_turns(f"{case.title}, {application}", rounds, turns)
    return results


def _turns(kafka: KafkaCluster, topic: str, content: Content, application: str) -> dict[str, Turn]:
    return {
        f"{name}, {how}": partial(
            _turn,
            client,
            kafka.bootstrap(listener),
            topic,
            content,
            {"settings": _settings(kafka, listener), "busy": application == "busy"},
        )
        for name, client in CLIENTS.items()
        for how, listener in LISTENERS.items()
    }


def _settings(kafka: KafkaCluster, listener: str) -> dict[str, str]:
    if listener == "PLAINTEXT":
        return {}
    return {"security.protocol": listener, "ssl.truststore.location": str(kafka.certificates.path)}


def _turn(client: Client, servers: str, topic: str, content: Content, extra: Mapping[str, object]) -> dict[str, float]:
    turn = take(client, servers, topic, content, extra)
    return {
        RATE: turn.rate * content.size_bytes / content.records / 1e6,
        "cpu_s_per_million": turn.cpu_s / content.records * 1e6,
    }


def targets(cases: Sequence[str]) -> list[Target]:
    """TLS against plain text, of kwire's rows and columns."""
    return [target for name in cases for target in _targets(CASES[name])]


def _targets(case: Case) -> list[Target]:
    return [
        Target(
            case=f"{case.title}, {application}",
            figure=RATE,
            limit=limit,
            of=f"{own}, TLS",
            to=f"{own}, plain",
            at_least=True,
        )
        for own in ("kwire", "kwire columns")
        for application, limit in (("idle", 0.7), ("busy", 0.6))
    ]
