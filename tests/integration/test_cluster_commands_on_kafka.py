"""`kwire topics`, `groups`, `produce` and `doctor` against both Kafkas: what the one in the process answers, real ones
answer, too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from kwire import Consumer
from kwire.cli.commands import app

if TYPE_CHECKING:
    from kwire.testing.kafka import KafkaCluster
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.kafkas import SharedKafka

pytestmark = pytest.mark.slow

PROTOCOLS = ["classic", "consumer"]
BESIDE = "a listener for each security protocol"


def run(kafka: SharedKafka, *arguments: str, code: int = 0, typed: str | None = None) -> str:
    done = CliRunner().invoke(app, [*arguments, "-b", kafka.bootstrap_servers], input=typed)
    assert done.exit_code == code, done.output
    return done.stdout


def commit_all(kafka: SharedKafka, topic: str, group: str, protocol: str) -> None:
    """The group reads the topic to its end, commits and leaves."""
    with Consumer(
        topic,
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=group,
        group_protocol=protocol,
        auto_offset_reset="earliest",
    ) as consumer:
        count = 0
        while count < 6:
            count += len(consumer.poll(1.0))


@pytest.fixture
def filled(topic: MakeTopic, produce: Produce) -> str:
    """Three records in each of two partitions."""
    name = topic(2)
    for partition in range(2):
        produce(name, [b"a", b"b", b"c"], partition=partition)
    return name


def lags(kafka: SharedKafka, group: str) -> tuple[str, list[int | None]]:
    (found,) = json.loads(run(kafka, "groups", "describe", group, "--json"))
    return found["state"], [row["lag"] for row in found["partitions"]]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_is_described_and_reset(kafka: SharedKafka, filled: str, protocol: str) -> None:
    group = f"{filled}-{protocol}"
    commit_all(kafka, filled, group, protocol)
    assert lags(kafka, group) == ("Empty", [0, 0])
    run(kafka, "groups", "reset", group, "--all-topics", "--shift-by", "-2")
    assert lags(kafka, group) == ("Empty", [0, 0])
    run(kafka, "groups", "reset", group, "--all-topics", "--shift-by", "-2", "--execute")
    assert lags(kafka, group) == ("Empty", [2, 2])
    run(kafka, "groups", "reset", group, "--topic", f"{filled}:1", "--to", "earliest", "--execute")
    assert lags(kafka, group) == ("Empty", [2, 3])
    assert group in run(kafka, "groups", "list", filled)


def test_topics_and_offsets(kafka: SharedKafka, filled: str) -> None:
    assert run(kafka, "topics", "list", f"^{filled}$").split()[-3:-1] == [filled, "2"]
    rows = json.loads(run(kafka, "topics", "offsets", filled, "--at", "-1h", "--json"))
    assert [(row["begin"], row["end"], row["at"]) for row in rows] == [(0, 3, 0), (0, 3, 0)]


def test_what_is_produced_is_read(kafka: SharedKafka, topic: MakeTopic) -> None:
    name = topic(1)
    run(kafka, "produce", name, "-K", ":", "-H", "trace=1", typed="k:one\nk:two\n")
    assert run(kafka, "consume", name, "-e", "-f", r"%k=%s %h\n") == "k=one trace=1\nk=two trace=1\n"


def test_doctor_finds_nothing_wrong(kafka: SharedKafka, filled: str) -> None:
    checks = json.loads(run(kafka, "doctor", "--topic", filled, "--group", f"{filled}-doctor", "--json"))
    assert [check["name"] for check in checks if check["ok"]] == [
        "DNS", "TCP", "versions", "broker", "topic", "group",
    ]  # fmt: skip


@pytest.mark.only("kafka", reason=BESIDE)
@pytest.mark.parametrize(
    ("listener", "spoken", "said"),
    [
        ("SSL", "PLAINTEXT", "is a listener with TLS, and security_protocol=PLAINTEXT is without"),
        ("PLAINTEXT", "SSL", "is a listener without TLS, and security_protocol=SSL begins with TLS"),
        ("SSL", "SSL", "is not trusted"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "wants a login, and security_protocol=PLAINTEXT has none"),
    ],
)
def test_doctor_tells_listeners_apart(secured_kafka: KafkaCluster, listener: str, spoken: str, said: str) -> None:
    where = ["-b", secured_kafka.bootstrap(listener), "-X", f"security.protocol={spoken}"]
    done = CliRunner().invoke(app, ["doctor", *where, "--json"])
    assert done.exit_code == 1
    assert said in json.loads(done.stdout)[-1]["said"]
