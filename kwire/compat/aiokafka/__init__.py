"""`AIOKafkaConsumer` as aiokafka has it, over `AsyncConsumer`.

The modules have aiokafka's names, so that a program changes the name of the package and nothing else.
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
