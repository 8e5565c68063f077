"""A consumer of kwire, confluent-kafka and Java each, which reads a topic as a member of a group."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import confluent_kafka

from kwire import Consumer
from kwire.errors import KafkaError
from kwire.testing.kafka.jars import find_java
from kwire.testing.kafka.tools import tools_class_path

USERS = {"alice": "alice-secret"}
PACKAGE = "org.apache.kafka.common.security"
UNSIGNED = f'{PACKAGE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";'
GROUP_PROTOCOLS = ("classic", "consumer")
TIMEOUT_S = 60.0


class Way(NamedTuple):
    """A listener, and how one logs in there; "" for no login."""

    listener: str
    mechanism: str = ""

    def __str__(self) -> str:
        return f"{self.listener} {self.mechanism}".strip()


SASL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
WAYS = [
    Way("PLAINTEXT"),
    Way("SSL"),
    *(Way(listener, mechanism) for listener in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in SASL),
]


class Outcome(NamedTuple):
    """How many records came within how long, or why not."""

    records: int
    took_s: float
    error: str = ""

    def __str__(self) -> str:
        return self.error or f"{self.records} in {self.took_s:.1f} s"


def java_settings(way: Way, authority: Path) -> dict[str, str]:
    """The settings as a properties file of Java has them; kwire reads the same."""
    settings = {"security.protocol": way.listener}
    if "SSL" in way.listener:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
    if way.mechanism:
        settings |= {"sasl.mechanism": way.mechanism, "sasl.jaas.config": login_of(way.mechanism)}
    return settings


def login_of(mechanism: str, password: str = USERS["alice"]) -> str:
    """The login as Java's text."""
    if mechanism == "OAUTHBEARER":
        return UNSIGNED
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f'{PACKAGE}.{module} required username="alice" password="{password}";'


def with_kwire(servers: str, topic: str, group: str, protocol: str, settings: Mapping[str, str], count: int) -> Outcome:
    began, found = time.monotonic(), 0
    config = {
        "bootstrap.servers": servers,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        **settings,
    }
    try:
        consumer: Consumer[bytes, bytes]
        with Consumer(topic, config=config) as consumer:
            while found < count and time.monotonic() < began + TIMEOUT_S:
                found += len(consumer.poll(0.5))
            took_s = time.monotonic() - began
            consumer.commit_sync()
    except KafkaError as error:
        return Outcome(found, time.monotonic() - began, f"{type(error).__name__}: {error}")
    return Outcome(found, took_s)


def with_confluent(
    servers: str, topic: str, group: str, protocol: str, settings: Mapping[str, str], count: int
) -> Outcome:
    began, found = time.monotonic(), 0
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **_as_librdkafka_has_them(settings),
        }
    )
    try:
        consumer.subscribe([topic])
        while found < count and time.monotonic() < began + TIMEOUT_S:
            found += sum(message.error() is None for message in consumer.consume(500, 0.5))
        took_s = time.monotonic() - began
        consumer.commit(asynchronous=False)
    except confluent_kafka.KafkaException as error:
        return Outcome(found, time.monotonic() - began, str(error))
    finally:
        consumer.close()
    return Outcome(found, took_s)


def _as_librdkafka_has_them(settings: Mapping[str, str]) -> dict[str, str]:
    found = {"security.protocol": settings["security.protocol"]}
    if "ssl.truststore.location" in settings:
        found["ssl.ca.location"] = settings["ssl.truststore.location"]
    if "sasl.mechanism" in settings:
        found["sasl.mechanism"] = settings["sasl.mechanism"]
    if found.get("sasl.mechanism") == "OAUTHBEARER":
        found |= {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=alice"}
    elif "sasl.mechanism" in found:
        found |= {"sasl.username": "alice", "sasl.password": USERS["alice"]}
    return found


def with_java(servers: str, topic: str, group: str, protocol: str, settings: Mapping[str, str], count: int) -> Outcome:
    """Kafka's own console consumer, in a JVM of its own; its start is part of the time."""
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        file = Path(folder, "client.properties")
        lines = {"group.protocol": protocol, "auto.offset.reset": "earliest", **settings}
        file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        command = [
            *(
                str(find_java()),
                "-Xmx256m",
                "-XX:TieredStopAtLevel=1",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
            ),
            *("-cp", tools_class_path(), "org.apache.kafka.tools.consumer.ConsoleConsumer"),
            *("--bootstrap-server", servers, "--topic", topic, "--group", group),
            *("--command-config", str(file), "--max-messages", str(count), "--timeout-ms", str(int(TIMEOUT_S * 1000))),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S * 2, env=os.environ, check=False
        )
    found = done.stdout.count("\n")
    error = "" if found == count else (done.stderr.strip().splitlines() or ["no error"])[-1]
    return Outcome(found, time.monotonic() - began, error)


Read = Callable[[str, str, str, str, Mapping[str, str], int], Outcome]
CLIENTS: dict[str, Read] = {"kwire": with_kwire, "confluent-kafka": with_confluent, "Java": with_java}
