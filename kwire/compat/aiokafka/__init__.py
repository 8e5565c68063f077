"""The adapter for aiokafka: `AIOKafkaConsumer` with aiokafka's API, over kwire's `AsyncConsumer`.

The modules have aiokafka's names, so that a program changes only the name of the package.
"""

from __future__ import annotations

from kwire.compat.aiokafka.abc import ConsumerRebalanceListener
from kwire.compat.aiokafka.consumer import AIOKafkaConsumer
from kwire.compat.aiokafka.errors import ConsumerStoppedError, IllegalOperation
from kwire.compat.aiokafka.structs import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

__all__ = [
    "AIOKafkaConsumer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerStoppedError",
    "IllegalOperation",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
]
