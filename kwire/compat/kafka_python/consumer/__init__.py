"""The consumer, its records and its listeners, in kafka-python's modules."""

from __future__ import annotations

from kwire.compat.kafka_python.consumer.group import KafkaConsumer

__all__ = ["KafkaConsumer"]
