"""Clients that kwire has no part in, at a cluster with TLS and SASL: confluent-kafka and kafka-python read a topic.

kafka-python warns on import, and pytest makes errors of warnings: `IGNORED` is for the tests that use it.
"""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import confluent_kafka

if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[..., list[bytes]]

TIMEOUT_S = 20.0
IGNORED = "ignore:.*is deprecated. Use files:DeprecationWarning"


def read_with_confluent(config: Mapping[str, str], topic: str, token: str | None = None) -> list[bytes]:
    """All values of the topic's first partition, read in a group; raises what the client complains of."""
    failures: list[confluent_kafka.KafkaError] = []
    settings: dict[str, object] = {
        **_for_librdkafka(config),
        "group.id": "confluent",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "error_cb": failures.append,
        "log_level": 0,
    }
    if token is not None:
        settings["oauth_cb"] = lambda _config: (token, 4_000_000_000.0)
    consumer = confluent_kafka.Consumer(settings)
    try:
        consumer.subscribe([topic])
        return _read(consumer, failures)
    finally:
        consumer.close()


def _for_librdkafka(config: Mapping[str, str]) -> dict[str, str]:
    """The same settings under librdkafka's names."""
    names = {"ssl.truststore.location": "ssl.ca.location"}
    return {names.get(name, name): value for name, value in config.items() if name != "ssl.truststore.type"}


def _read(consumer: confluent_kafka.Consumer, failures: list[confluent_kafka.KafkaError]) -> list[bytes]:
    values: list[bytes] = []
    until_s = time.monotonic() + TIMEOUT_S
    while True:
        assert time.monotonic() < until_s, f"{len(values)} records, and no end, after {TIMEOUT_S} s"
        message = consumer.poll(0.1)
        telling = [one for one in failures if one.code() != confluent_kafka.KafkaError._ALL_BROKERS_DOWN]
        if telling:
            raise confluent_kafka.KafkaException(telling[0])
        if message is None:
            continue
        error = message.error()
        if error is None:
            values.append(message.value() or b"")
        elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
            return values
        else:
            raise confluent_kafka.KafkaException(error)


def read_with_kafka_python(config: Mapping[str, str], topic: str, token: str | None = None) -> list[bytes]:
    """The same with kafka-python, without a group. It forgets to close sockets that it tried in vain."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            return _read_with_kafka_python(config, topic, token)
        finally:
            gc.collect()


def _read_with_kafka_python(config: Mapping[str, str], topic: str, token: str | None) -> list[bytes]:
    import kafka
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class FixedToken(AbstractTokenProvider):  # type: ignore[misc]  # it ships no types
        def token(self) -> str:
            return token or ""

    given: dict[str, object] = {
        "bootstrap_servers": config["bootstrap.servers"],
        "security_protocol": config["security.protocol"],
        "ssl_cafile": config.get("ssl.truststore.location"),
    }
    if "sasl.mechanism" in config:
        given["sasl_mechanism"] = config["sasl.mechanism"]
        given["sasl_plain_username"] = config.get("sasl.username")
        given["sasl_plain_password"] = config.get("sasl.password")
    if token is not None:
        given["sasl_oauth_token_provider"] = FixedToken()
    consumer = kafka.KafkaConsumer(**given, consumer_timeout_ms=TIMEOUT_S * 1000)
    try:
        place = kafka.TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets([place])[place]
        values: list[bytes] = []
        while consumer.position(place) < end:
            values += [record.value for records in consumer.poll(1_000).values() for record in records]
        return values
    finally:
        consumer.close()
