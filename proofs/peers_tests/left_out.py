"""The tests of the peers that are not run, by name, and why."""

from __future__ import annotations

from collections.abc import Mapping

KAFKA_PYTHON: Mapping[str, str] = {
    "test_consumer": "looks into the client: `_client.cluster`",
    "test_group": "looks into the coordinator: `_coordinator.heartbeat`",
    "test_heartbeat_thread": "looks into the coordinator: `_coordinator.heartbeat`",
    "test_kafka_consumer_unsupported_encoding": "replaces a function of `kafka.codec`; kwire has codecs of its own",
    "test_kafka_version_infer": "`api_version` has no effect: brokers are asked what they speak, for each request",
}

AIOKAFKA: Mapping[str, str] = {}

CONFLUENT_KAFKA: Mapping[str, str] = {}
