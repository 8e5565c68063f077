# ruff: noqa: N818 - names are kafka-python's, from which aiokafka has them
"""The exceptions that kafka-python and aiokafka share. Long, because programs import any of them.

If the two clients name an exception differently, the class has aiokafka's name. Exceptions of only one client are in
its adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from kwire import errors
from kwire.protocol.error_codes import ErrorCode


class KafkaError(RuntimeError):
    """The base class of nearly all exceptions."""

    retriable = False
    invalid_metadata = False


class RetriableError(KafkaError):
    """The same call may succeed later."""

    retriable = True


class InvalidMetadataError(RetriableError):
    """The client's metadata of the cluster is out of date."""

    invalid_metadata = True


class IllegalStateError(KafkaError):
    """The call does not fit what the consumer is doing."""


class IllegalArgumentError(KafkaError):
    """An argument is one that no broker would accept."""


class KafkaConnectionError(InvalidMetadataError):
    """No broker can be reached."""


class KafkaTimeoutError(KafkaError):
    """The time is over."""


class CommitFailedError(KafkaError):
    """The partitions may belong to another member."""


class NoOffsetForPartitionError(KafkaError):
    """Nothing is committed, and `auto_offset_reset` is "none"."""


class AuthenticationFailedError(KafkaError):
    """A broker does not let this client in."""


class UnsupportedCodecError(KafkaError):
    """Records are compressed in a way that cannot be read."""


class RecordDeserializationError(KafkaError):
    """A deserializer has raised; the class is kwire's, aiokafka raises the deserializer's exception.

    `__cause__` is kwire's error, whose `__cause__` is the deserializer's exception."""


class BrokerResponseError(KafkaError):
    """A broker has answered with an error code."""

    errno = -1
    message = "UNKNOWN"
    description = ErrorCode.UNKNOWN_SERVER_ERROR.meaning

    def __init_subclass__(cls) -> None:
        cls.description = ErrorCode.of(cls.errno).meaning

    def __str__(self) -> str:
        # Not of super(), which is the other client's class in an exception of both: it adds the number as well.
        return f"[Error {self.errno}] {KafkaError.__str__(self)}"


class AuthorizationError(BrokerResponseError):
    """The broker does not permit it."""


class UnknownError(BrokerResponseError):
    """A broker has answered with an error code that has no class here."""


class OffsetOutOfRangeError(BrokerResponseError):
    errno = 1
    message = "OFFSET_OUT_OF_RANGE"


class CorruptRecordException(BrokerResponseError):
    errno = 2
    message = "CORRUPT_MESSAGE"


class UnknownTopicOrPartitionError(InvalidMetadataError, BrokerResponseError):
    errno = 3
    message = "UNKNOWN_TOPIC_OR_PARTITION"


class InvalidFetchRequestError(BrokerResponseError):
    errno = 4
    message = "INVALID_FETCH_SIZE"


class LeaderNotAvailableError(InvalidMetadataError, BrokerResponseError):
    errno = 5
    message = "LEADER_NOT_AVAILABLE"


class NotLeaderForPartitionError(InvalidMetadataError, BrokerResponseError):
    errno = 6
    message = "NOT_LEADER_FOR_PARTITION"


class RequestTimedOutError(RetriableError, BrokerResponseError):
    errno = 7
    message = "REQUEST_TIMED_OUT"


class BrokerNotAvailableError(BrokerResponseError):
    errno = 8
    message = "BROKER_NOT_AVAILABLE"


class ReplicaNotAvailableError(BrokerResponseError):
    errno = 9
    message = "REPLICA_NOT_AVAILABLE"


class OffsetMetadataTooLargeError(BrokerResponseError):
    errno = 12
    message = "OFFSET_METADATA_TOO_LARGE"


class GroupLoadInProgressError(RetriableError, BrokerResponseError):
    errno = 14
    message = "COORDINATOR_LOAD_IN_PROGRESS"


class GroupCoordinatorNotAvailableError(RetriableError, BrokerResponseError):
    errno = 15
    message = "COORDINATOR_NOT_AVAILABLE"


class NotCoordinatorForGroupError(RetriableError, BrokerResponseError):
    errno = 16
    message = "NOT_COORDINATOR"


class InvalidTopicError(BrokerResponseError):
    errno = 17
    message = "INVALID_TOPIC"


class IllegalGenerationError(BrokerResponseError):
    errno = 22
    message = "ILLEGAL_GENERATION"


class InconsistentGroupProtocolError(BrokerResponseError):
    errno = 23
    message = "INCONSISTENT_GROUP_PROTOCOL"


class InvalidGroupIdError(BrokerResponseError):
    errno = 24
    message = "INVALID_GROUP_ID"


class UnknownMemberIdError(BrokerResponseError):
    errno = 25
    message = "UNKNOWN_MEMBER_ID"


class InvalidSessionTimeoutError(BrokerResponseError):
    errno = 26
    message = "INVALID_SESSION_TIMEOUT"


class RebalanceInProgressError(BrokerResponseError):
    errno = 27
    message = "REBALANCE_IN_PROGRESS"


class InvalidCommitOffsetSizeError(BrokerResponseError):
    errno = 28
    message = "INVALID_COMMIT_OFFSET_SIZE"


class TopicAuthorizationFailedError(AuthorizationError):
    errno = 29
    message = "TOPIC_AUTHORIZATION_FAILED"


class GroupAuthorizationFailedError(AuthorizationError):
    errno = 30
    message = "GROUP_AUTHORIZATION_FAILED"


class ClusterAuthorizationFailedError(AuthorizationError):
    errno = 31
    message = "CLUSTER_AUTHORIZATION_FAILED"


class InvalidTimestampError(BrokerResponseError):
    errno = 32
    message = "INVALID_TIMESTAMP"


class UnsupportedSaslMechanismError(BrokerResponseError):
    errno = 33
    message = "UNSUPPORTED_SASL_MECHANISM"


class IllegalSaslStateError(BrokerResponseError):
    errno = 34
    message = "ILLEGAL_SASL_STATE"


class UnsupportedVersionError(BrokerResponseError):
    errno = 35
    message = "UNSUPPORTED_VERSION"


class InvalidRequestError(BrokerResponseError):
    errno = 42
    message = "INVALID_REQUEST"


class UnsupportedForMessageFormatError(BrokerResponseError):
    errno = 43
    message = "UNSUPPORTED_FOR_MESSAGE_FORMAT"


class PolicyViolationError(BrokerResponseError):
    errno = 44
    message = "POLICY_VIOLATION"


class TransactionalIdAuthorizationFailed(AuthorizationError):
    errno = 53
    message = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


class KafkaStorageError(InvalidMetadataError, BrokerResponseError):
    errno = 56
    message = "KAFKA_STORAGE_ERROR"


# --- those that a consumer hardly ever meets ----------------------------------------------------------------


class NoBrokersAvailable(InvalidMetadataError):
    """No broker is known."""


class NodeNotReadyError(RetriableError):
    """Defined for programs that import it; kwire never raises it."""


class KafkaProtocolError(RetriableError):
    """A broker has sent bytes that are no message."""


class CorrelationIdError(KafkaProtocolError):
    """A broker has answered another request."""


class Cancelled(RetriableError):
    """Defined for programs that import it; kwire never raises it."""


class TooManyInFlightRequests(RetriableError):
    """Defined for programs that import it; kwire never raises it."""


class StaleMetadata(InvalidMetadataError):
    """Defined for programs that import it; kwire never raises it."""


class MetadataEmptyBrokerList(RetriableError):
    """Defined for programs that import it; kwire never raises it."""


class UnrecognizedBrokerVersion(KafkaError):
    """Defined for programs that import it; kwire never raises it."""


class IncompatibleBrokerVersion(KafkaError):
    """Defined for programs that import it; kwire never raises it."""


class AuthenticationMethodNotSupported(KafkaError):
    """Defined for programs that import it; kwire never raises it."""


class KafkaUnavailableError(KafkaError):
    """Defined for programs that import it; kwire never raises it."""


class KafkaConfigurationError(KafkaError):
    """Defined for programs that import it; kwire never raises it."""


class QuotaViolationError(KafkaError):
    """Defined for programs that import it; kwire never raises it."""


class ProducerClosed(KafkaError):
    """Defined for programs that import it; kwire never raises it."""


class ProducerFenced(KafkaError):
    """Another producer has its transactional id."""


class NoError(BrokerResponseError):
    errno = 0
    message = "NO_ERROR"


class MessageSizeTooLargeError(BrokerResponseError):
    errno = 10
    message = "MESSAGE_SIZE_TOO_LARGE"


class StaleControllerEpochError(BrokerResponseError):
    errno = 11
    message = "STALE_CONTROLLER_EPOCH"


class StaleLeaderEpochCodeError(BrokerResponseError):
    errno = 13
    message = "STALE_LEADER_EPOCH_CODE"


class RecordListTooLargeError(BrokerResponseError):
    errno = 18
    message = "RECORD_LIST_TOO_LARGE"


class NotEnoughReplicasError(RetriableError, BrokerResponseError):
    errno = 19
    message = "NOT_ENOUGH_REPLICAS"


class NotEnoughReplicasAfterAppendError(RetriableError, BrokerResponseError):
    errno = 20
    message = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"


class InvalidRequiredAcksError(BrokerResponseError):
    errno = 21
    message = "INVALID_REQUIRED_ACKS"


class TopicAlreadyExistsError(BrokerResponseError):
    errno = 36
    message = "TOPIC_ALREADY_EXISTS"


class InvalidPartitionsError(BrokerResponseError):
    errno = 37
    message = "INVALID_PARTITIONS"


class InvalidReplicationFactorError(BrokerResponseError):
    errno = 38
    message = "INVALID_REPLICATION_FACTOR"


class InvalidReplicationAssignmentError(BrokerResponseError):
    errno = 39
    message = "INVALID_REPLICATION_ASSIGNMENT"


class InvalidConfigurationError(BrokerResponseError):
    errno = 40
    message = "INVALID_CONFIG"


class NotControllerError(RetriableError, BrokerResponseError):
    errno = 41
    message = "NOT_CONTROLLER"


class OutOfOrderSequenceNumber(BrokerResponseError):
    errno = 45
    message = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class DuplicateSequenceNumber(BrokerResponseError):
    errno = 46
    message = "DUPLICATE_SEQUENCE_NUMBER"


class InvalidProducerEpoch(BrokerResponseError):
    errno = 47
    message = "INVALID_PRODUCER_EPOCH"


class InvalidTxnState(BrokerResponseError):
    errno = 48
    message = "INVALID_TXN_STATE"


class InvalidProducerIdMapping(BrokerResponseError):
    errno = 49
    message = "INVALID_PRODUCER_ID_MAPPING"


class InvalidTransactionTimeout(BrokerResponseError):
    errno = 50
    message = "INVALID_TRANSACTION_TIMEOUT"


class ConcurrentTransactions(BrokerResponseError):
    errno = 51
    message = "CONCURRENT_TRANSACTIONS"


class TransactionCoordinatorFenced(BrokerResponseError):
    errno = 52
    message = "TRANSACTION_COORDINATOR_FENCED"


class SecurityDisabled(BrokerResponseError):
    errno = 54
    message = "SECURITY_DISABLED"


class OperationNotAttempted(BrokerResponseError):
    errno = 55
    message = "OPERATION_NOT_ATTEMPTED"


class LogDirNotFound(BrokerResponseError):
    errno = 57
    message = "LOG_DIR_NOT_FOUND"


class SaslAuthenticationFailed(BrokerResponseError):
    errno = 58
    message = "SASL_AUTHENTICATION_FAILED"


class UnknownProducerId(BrokerResponseError):
    errno = 59
    message = "UNKNOWN_PRODUCER_ID"


class ReassignmentInProgress(BrokerResponseError):
    errno = 60
    message = "REASSIGNMENT_IN_PROGRESS"


class DelegationTokenAuthDisabled(BrokerResponseError):
    errno = 61
    message = "DELEGATION_TOKEN_AUTH_DISABLED"


class DelegationTokenNotFound(BrokerResponseError):
    errno = 62
    message = "DELEGATION_TOKEN_NOT_FOUND"


class DelegationTokenOwnerMismatch(BrokerResponseError):
    errno = 63
    message = "DELEGATION_TOKEN_OWNER_MISMATCH"


class DelegationTokenRequestNotAllowed(BrokerResponseError):
    errno = 64
    message = "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"


class DelegationTokenAuthorizationFailed(AuthorizationError):
    errno = 65
    message = "DELEGATION_TOKEN_AUTHORIZATION_FAILED"


class DelegationTokenExpired(BrokerResponseError):
    errno = 66
    message = "DELEGATION_TOKEN_EXPIRED"


class InvalidPrincipalType(BrokerResponseError):
    errno = 67
    message = "INVALID_PRINCIPAL_TYPE"


class NonEmptyGroup(BrokerResponseError):
    errno = 68
    message = "NON_EMPTY_GROUP"


class GroupIdNotFound(BrokerResponseError):
    errno = 69
    message = "GROUP_ID_NOT_FOUND"


class FetchSessionIdNotFound(BrokerResponseError):
    errno = 70
    message = "FETCH_SESSION_ID_NOT_FOUND"


class InvalidFetchSessionEpoch(BrokerResponseError):
    errno = 71
    message = "INVALID_FETCH_SESSION_EPOCH"


class ListenerNotFound(BrokerResponseError):
    errno = 72
    message = "LISTENER_NOT_FOUND"


class MemberIdRequired(BrokerResponseError):
    errno = 79
    message = "MEMBER_ID_REQUIRED"


InvalidMessageError = CorruptRecordException
CoordinatorLoadInProgressError = GroupLoadInProgressError
CoordinatorNotAvailableError = GroupCoordinatorNotAvailableError
NotCoordinatorError = NotCoordinatorForGroupError

Kinds: TypeAlias = Sequence[tuple[type[errors.KafkaError], type[KafkaError]]]
# The first entry that matches an error counts.
BY_KIND: Kinds = (
    (errors.KafkaTimeoutError, KafkaTimeoutError),
    (errors.BootstrapError, KafkaConnectionError),
    (errors.DisconnectError, KafkaConnectionError),
    (errors.AuthenticationError, AuthenticationFailedError),
    (errors.NoOffsetForPartitionError, NoOffsetForPartitionError),
    (errors.OffsetOutOfRangeError, OffsetOutOfRangeError),
    (errors.CorruptRecordError, CorruptRecordException),
    (errors.RecordDeserializationError, RecordDeserializationError),
    (errors.RebalanceInProgressError, CommitFailedError),
    (errors.CommitFailedError, CommitFailedError),
    (errors.InvalidGroupIdError, InvalidGroupIdError),
    (errors.InvalidTopicError, InvalidTopicError),
    (errors.UnsupportedVersionError, UnsupportedVersionError),
    (errors.InvalidArgumentError, IllegalArgumentError),
    (errors.IllegalStateError, IllegalStateError),
)


def by_code(names: Mapping[str, object]) -> dict[int, type[BrokerResponseError]]:
    """The exceptions of a module by the broker's error code; of several with one code, the last."""
    kinds = [kind for kind in names.values() if isinstance(kind, type) and issubclass(kind, BrokerResponseError)]
    return {kind.errno: kind for kind in kinds if kind not in (BrokerResponseError, AuthorizationError)}


def translated(
    error: errors.KafkaError, kinds: Kinds, for_code: Callable[[int], type[BrokerResponseError]]
) -> KafkaError:
    """The other client's exception for an error of kwire."""
    kind = next((theirs for ours, theirs in kinds if isinstance(error, ours)), None)
    if kind is None and isinstance(error, errors.BrokerError):
        kind = for_code(error.code)
    # These have values.
    if isinstance(error, errors.OffsetOutOfRangeError):
        return (kind or OffsetOutOfRangeError)(error.offsets)
    if isinstance(error, errors.TopicAuthorizationError):
        return TopicAuthorizationFailedError(error.topics)
    return (kind or KafkaError)(str(error))
