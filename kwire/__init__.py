"""kwire: a Kafka consumer written from scratch in Python. These are its public names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.config import ConsumerConfig
from kwire.config.properties import load_properties
from kwire.consumer.access import ThreadAccessKey
from kwire.consumer.async_consumer import AsyncConsumer
from kwire.consumer.async_listener import AsyncRebalanceConsumer, AsyncRebalanceListener
from kwire.consumer.describe_on_signal import describe_on_signal
from kwire.consumer.listener import RebalanceConsumer, RebalanceListener
from kwire.consumer.reading import read
from kwire.consumer.sync import Consumer
from kwire.errors import (
    AssignorError,
    AuthenticationError,
    AuthorizationError,
    BootstrapError,
    BrokerError,
    ClusterAuthorizationError,
    CommitFailedError,
    ConcurrentModificationError,
    ConfigError,
    CorruptRecordError,
    DisconnectError,
    FencedInstanceIdError,
    ForkedConsumerError,
    GroupAuthorizationError,
    GroupMaxSizeReachedError,
    IllegalSaslStateError,
    IllegalStateError,
    IllegalTransitionError,
    InconsistentGroupProtocolError,
    InternalError,
    InvalidArgumentError,
    InvalidGroupIdError,
    InvalidRegularExpressionError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    NoOffsetForPartitionError,
    NoThreadError,
    NoTokenError,
    OffsetOutOfRangeError,
    ProcessingError,
    ProtocolError,
    RebalanceInProgressError,
    RebalanceListenerError,
    RebootstrapRequiredError,
    RecordDeserializationError,
    RetriableBrokerError,
    RetriableCommitFailedError,
    RetriableError,
    SaslAuthenticationError,
    SchemaRegistryUnavailableError,
    SslAuthenticationError,
    TopicAuthorizationError,
    TransactionalIdAuthorizationError,
    UnknownTopicOrPartitionError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
    WakeupError,
    WorkerError,
)
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
    "AsyncConsumer",
    "AsyncRebalanceConsumer",
    "AsyncRebalanceListener",
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
    "load_properties",
    "read",
    # exceptions
    "AssignorError",
    "AuthenticationError",
    "AuthorizationError",
    "BootstrapError",
    "BrokerError",
    "ClusterAuthorizationError",
    "CommitFailedError",
    "ConcurrentModificationError",
    "ConfigError",
    "CorruptRecordError",
    "DisconnectError",
    "FencedInstanceIdError",
    "ForkedConsumerError",
    "GroupAuthorizationError",
    "GroupMaxSizeReachedError",
    "IllegalSaslStateError",
    "IllegalStateError",
    "IllegalTransitionError",
    "InconsistentGroupProtocolError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidGroupIdError",
    "InvalidRegularExpressionError",
    "InvalidTopicError",
    "KafkaError",
    "KafkaTimeoutError",
    "LogTruncationError",
    "NoOffsetForPartitionError",
    "NoThreadError",
    "NoTokenError",
    "OffsetOutOfRangeError",
    "ProcessingError",
    "ProtocolError",
    "RebalanceInProgressError",
    "RebalanceListenerError",
    "RebootstrapRequiredError",
    "RecordDeserializationError",
    "RetriableBrokerError",
    "RetriableCommitFailedError",
    "RetriableError",
    "SaslAuthenticationError",
    "SchemaRegistryUnavailableError",
    "SslAuthenticationError",
    "TopicAuthorizationError",
    "TransactionalIdAuthorizationError",
    "UnknownTopicOrPartitionError",
    "UnreleasedInstanceIdError",
    "UnsupportedAssignorError",
    "UnsupportedSaslMechanismError",
    "UnsupportedVersionError",
    "WakeupError",
    "WorkerError",
]


if not TYPE_CHECKING:  # with `__getattr__`, a type checker would accept every misspelt name

    def __getattr__(name: str) -> object:
        """Says of other clients' names what there is in their place. `from kwire import` hides the text of an
        AttributeError, so it alone gets an ImportError: `hasattr` and its kin expect the former."""
        import sys

        from kwire.import_hints import import_hint

        hint = import_hint(name, __all__)
        if hint and sys._getframe(1).f_code.co_name == "_handle_fromlist":  # importlib asks a package so
            raise ImportError(hint, name=__name__)
        raise AttributeError(hint or f"module {__name__!r} has no attribute {name!r}", name=name)
