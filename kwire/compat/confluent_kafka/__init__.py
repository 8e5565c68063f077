"""The adapter for confluent-kafka: its consumers, over kwire's. `error` stands for its module of that name."""

from __future__ import annotations

from kwire.compat.confluent_kafka.consumer import Consumer
from kwire.compat.confluent_kafka.deserializing_consumer import DeserializingConsumer
from kwire.compat.confluent_kafka.kafka_error import KafkaError, KafkaException
from kwire.compat.confluent_kafka.values import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
    TopicPartition,
)
from kwire.compat.confluent_kafka.versions import libversion, version

__all__ = [
    "Consumer",
    "DeserializingConsumer",
    "KafkaError",
    "KafkaException",
    "Message",
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "TopicPartition",
    "libversion",
    "version",
]
