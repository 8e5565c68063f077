"""The tests of the peers that are not run, by name, and why."""

from __future__ import annotations

from collections.abc import Mapping

KAFKA_PYTHON: Mapping[str, str] = {
    "test_consumer": "reads the client's table of brokers, `_client.cluster`",
}

AIOKAFKA: Mapping[str, str] = {}

CONFLUENT_KAFKA: Mapping[str, str] = {}
