"""kwire: a Kafka consumer written from scratch in Python. These are its public names."""

from __future__ import annotations

from kwire.config import ConsumerConfig
from kwire.consumer.access import ThreadAccessKey
from kwire.consumer.describe_on_signal import describe_on_signal
from kwire.consumer.listener import RebalanceConsumer, RebalanceListener
from kwire.consumer.sync import Consumer
from kwire.fetching.columns import Records
from kwire.metrics import MetricName
from kwire.model import (
    CatchUpProgress,
    ConsumerGroupMetadata,
    Cursor,
    Header,
    Node,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    Record,
    SubscriptionPattern,
    TimestampType,
    TopicPartition,
)
from kwire.version import __version__

__all__ = [
    "CatchUpProgress",
    "Consumer",
    "ConsumerConfig",
    "ConsumerGroupMetadata",
    "Cursor",
    "Header",
    "MetricName",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionInfo",
    "RebalanceConsumer",
    "RebalanceListener",
    "Record",
    "Records",
    "SubscriptionPattern",
    "ThreadAccessKey",
    "TimestampType",
    "TopicPartition",
    "__version__",
    "describe_on_signal",
]
