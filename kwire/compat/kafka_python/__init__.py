"""The adapter for kafka-python: `KafkaConsumer` with kafka-python's API, over kwire.

The modules have kafka-python's names, so that a program changes only the name of the package.
"""

from __future__ import annotations

from kwire.compat.kafka_python.consumer.fetcher import ConsumerRecord
from kwire.compat.kafka_python.consumer.group import KafkaConsumer
from kwire.compat.kafka_python.consumer.subscription_state import (
    AsyncConsumerRebalanceListener,
    ConsumerRebalanceListener,
)
from kwire.compat.kafka_python.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

__all__ = [
    "AsyncConsumerRebalanceListener",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "KafkaConsumer",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
]
