"""The exceptions of kafka-python 2 and 3, and their translation from kwire's. Long, because programs import any of
them.

Exceptions that kafka-python shares with aiokafka are in `kwire.compat.python_errors`. Texts of `description` are
kwire's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from kwire import errors
from kwire.compat import python_errors, their_exceptions
from kwire.compat.python_errors import *  # noqa: F403 - programs import any of them
from kwire.compat.python_errors import (
    BY_KIND,
    AuthenticationFailedError,
    BrokerResponseError,
    ConcurrentTransactions,
    CorruptRecordException,
    DelegationTokenAuthDisabled,
    DelegationTokenAuthorizationFailed,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    DelegationTokenRequestNotAllowed,
    DuplicateSequenceNumber,
    FetchSessionIdNotFound,
    GroupIdNotFound,
    IllegalSaslStateError,
    IllegalStateError,
    InvalidFetchSessionEpoch,
    InvalidMetadataError,
    InvalidPrincipalType,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    InvalidTxnState,
    KafkaError,
    KafkaProtocolError,
    Kinds,
    ListenerNotFound,
    LogDirNotFound,
    MemberIdRequired,
    NoBrokersAvailable,
    NonEmptyGroup,
    OperationNotAttempted,
    OutOfOrderSequenceNumber,
    ReassignmentInProgress,
    RetriableError,
    SaslAuthenticationFailed,
    SecurityDisabled,
    TransactionalIdAuthorizationFailed,
    TransactionCoordinatorFenced,
    UnknownError,
    UnknownProducerId,
    UnsupportedSaslMechanismError,
    by_code,
    translated,
)

if TYPE_CHECKING:
    from kwire.model import TopicPartition

__all__ = ["BrokerResponseError", "KafkaError", "NoBrokersAvailable", "error_of", "raises_theirs"]

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=BaseException)
THEIR_ERRORS = "kafka.errors"

# Classes with an ignored no-redef replace aiokafka's.


class KafkaTimeoutError(python_errors.KafkaTimeoutError, RetriableError):  # type: ignore[no-redef]
    """The time is over."""


class BootstrapTimeoutError(KafkaTimeoutError, NoBrokersAvailable):
    """No broker has answered the constructor. kafka-python 3 raises a KafkaTimeoutError, version 2
    NoBrokersAvailable."""


class KafkaConfigurationError(python_errors.KafkaConfigurationError, ValueError):  # type: ignore[no-redef]
    """A setting is unknown, has a bad value, or contradicts another."""


class LogTruncationError(KafkaError):
    """The cluster has lost records up to the position.

    Attributes:
        divergent_offsets: Where the log begins to differ from what was read.
    """

    def __init__(self, divergent_offsets: Mapping[TopicPartition, object], *args: object) -> None:
        self.divergent_offsets = divergent_offsets
        super().__init__(*args or (f"the log was truncated: {divergent_offsets}",))


class InvalidReceiveError(KafkaProtocolError):
    """Defined for programs that import it; kwire never raises it."""

    retriable = False


class UnknownBrokerIdError(KafkaError):
    """Defined for programs that import it; kwire never raises it."""


class TransactionAbortedError(KafkaError):
    """Defined for programs that import it; kwire never raises it."""


class ReplicaNotAvailableError(InvalidMetadataError, python_errors.ReplicaNotAvailableError):  # type: ignore[no-redef]
    """Retriable in kafka-python, and not in aiokafka."""


class NetworkExceptionError(InvalidMetadataError, BrokerResponseError):
    errno = 13
    message = "NETWORK_EXCEPTION"


class SaslAuthenticationFailedError(SaslAuthenticationFailed, AuthenticationFailedError):
    """The broker refuses user name and password, or the token."""


# --- exceptions that have another name in aiokafka, or other flags ------------------------------------------------


class ConcurrentTransactionsError(RetriableError, ConcurrentTransactions):
    """Retriable in kafka-python, and not in aiokafka."""


class FetchSessionIdNotFoundError(RetriableError, FetchSessionIdNotFound):
    """Retriable in kafka-python, and not in aiokafka."""


class InvalidFetchSessionEpochError(RetriableError, InvalidFetchSessionEpoch):
    """Retriable in kafka-python, and not in aiokafka."""


class ListenerNotFoundError(InvalidMetadataError, ListenerNotFound):
    """Retriable in kafka-python, and not in aiokafka."""


CorruptRecordError = CorruptRecordException
OutOfOrderSequenceNumberError = OutOfOrderSequenceNumber
DuplicateSequenceNumberError = DuplicateSequenceNumber
InvalidProducerEpochError = InvalidProducerEpoch
InvalidTxnStateError = InvalidTxnState
InvalidProducerIdMappingError = InvalidProducerIdMapping
InvalidTransactionTimeoutError = InvalidTransactionTimeout
TransactionCoordinatorFencedError = TransactionCoordinatorFenced
TransactionalIdAuthorizationFailedError = TransactionalIdAuthorizationFailed
SecurityDisabledError = SecurityDisabled
OperationNotAttemptedError = OperationNotAttempted
LogDirNotFoundError = LogDirNotFound
UnknownProducerIdError = UnknownProducerId
ReassignmentInProgressError = ReassignmentInProgress
DelegationTokenAuthDisabledError = DelegationTokenAuthDisabled
DelegationTokenNotFoundError = DelegationTokenNotFound
DelegationTokenOwnerMismatchError = DelegationTokenOwnerMismatch
DelegationTokenRequestNotAllowedError = DelegationTokenRequestNotAllowed
DelegationTokenAuthorizationFailedError = DelegationTokenAuthorizationFailed
DelegationTokenExpiredError = DelegationTokenExpired
InvalidPrincipalTypeError = InvalidPrincipalType
NonEmptyGroupError = NonEmptyGroup
GroupIdNotFoundError = GroupIdNotFound
MemberIdRequiredError = MemberIdRequired


# --- exceptions that aiokafka does not have -----------------------------------------------------------------------
# ----------------------------------------------------------------------------


class TopicDeletionDisabledError(BrokerResponseError):
    errno = 73
    message = "TOPIC_DELETION_DISABLED"


class FencedLeaderEpochError(InvalidMetadataError, BrokerResponseError):
    errno = 74
    message = "FENCED_LEADER_EPOCH"


class UnknownLeaderEpochError(InvalidMetadataError, BrokerResponseError):
    errno = 75
    message = "UNKNOWN_LEADER_EPOCH"


class UnsupportedCompressionTypeError(BrokerResponseError):
    errno = 76
    message = "UNSUPPORTED_COMPRESSION_TYPE"


class StaleBrokerEpochError(BrokerResponseError):
    errno = 77
    message = "STALE_BROKER_EPOCH"


class OffsetNotAvailableError(RetriableError, BrokerResponseError):
    errno = 78
    message = "OFFSET_NOT_AVAILABLE"


class PreferredLeaderNotAvailableError(InvalidMetadataError, BrokerResponseError):
    errno = 80
    message = "PREFERRED_LEADER_NOT_AVAILABLE"


class GroupMaxSizeReachedError(BrokerResponseError):
    errno = 81
    message = "GROUP_MAX_SIZE_REACHED"


class FencedInstanceIdError(BrokerResponseError):
    errno = 82
    message = "FENCED_INSTANCE_ID"


class EligibleLeadersNotAvailableError(InvalidMetadataError, BrokerResponseError):
    errno = 83
    message = "ELIGIBLE_LEADERS_NOT_AVAILABLE"


class ElectionNotNeededError(InvalidMetadataError, BrokerResponseError):
    errno = 84
    message = "ELECTION_NOT_NEEDED"


class NoReassignmentInProgressError(BrokerResponseError):
    errno = 85
    message = "NO_REASSIGNMENT_IN_PROGRESS"


class GroupSubscribedToTopicError(BrokerResponseError):
    errno = 86
    message = "GROUP_SUBSCRIBED_TO_TOPIC"


class InvalidRecordError(BrokerResponseError):
    errno = 87
    message = "INVALID_RECORD"


class UnstableOffsetCommitError(RetriableError, BrokerResponseError):
    errno = 88
    message = "UNSTABLE_OFFSET_COMMIT"


class ThrottlingQuotaExceededError(RetriableError, BrokerResponseError):
    errno = 89
    message = "THROTTLING_QUOTA_EXCEEDED"


class ProducerFencedError(BrokerResponseError):
    errno = 90
    message = "PRODUCER_FENCED"


class ResourceNotFoundError(BrokerResponseError):
    errno = 91
    message = "RESOURCE_NOT_FOUND"


class DuplicateResourceError(BrokerResponseError):
    errno = 92
    message = "DUPLICATE_RESOURCE"


class UnacceptableCredentialError(BrokerResponseError):
    errno = 93
    message = "UNACCEPTABLE_CREDENTIAL"


class InconsistentVoterSetError(BrokerResponseError):
    errno = 94
    message = "INCONSISTENT_VOTER_SET"


class InvalidUpdateVersionError(BrokerResponseError):
    errno = 95
    message = "INVALID_UPDATE_VERSION"


class FeatureUpdateFailedError(BrokerResponseError):
    errno = 96
    message = "FEATURE_UPDATE_FAILED"


class PrincipalDeserializationFailureError(BrokerResponseError):
    errno = 97
    message = "PRINCIPAL_DESERIALIZATION_FAILURE"


class SnapshotNotFoundError(BrokerResponseError):
    errno = 98
    message = "SNAPSHOT_NOT_FOUND"


class PositionOutOfRangeError(BrokerResponseError):
    errno = 99
    message = "POSITION_OUT_OF_RANGE"


class UnknownTopicIdError(InvalidMetadataError, BrokerResponseError):
    errno = 100
    message = "UNKNOWN_TOPIC_ID"


class DuplicateBrokerRegistrationError(BrokerResponseError):
    errno = 101
    message = "DUPLICATE_BROKER_REGISTRATION"


class BrokerIdNotRegisteredError(BrokerResponseError):
    errno = 102
    message = "BROKER_ID_NOT_REGISTERED"


class InconsistentTopicIdError(InvalidMetadataError, BrokerResponseError):
    errno = 103
    message = "INCONSISTENT_TOPIC_ID"


class InconsistentClusterIdError(BrokerResponseError):
    errno = 104
    message = "INCONSISTENT_CLUSTER_ID"


class TransactionalIdNotFoundError(BrokerResponseError):
    errno = 105
    message = "TRANSACTIONAL_ID_NOT_FOUND"


class FetchSessionTopicIdError(RetriableError, BrokerResponseError):
    errno = 106
    message = "FETCH_SESSION_TOPIC_ID_ERROR"


class IneligibleReplicaError(BrokerResponseError):
    errno = 107
    message = "INELIGIBLE_REPLICA"


class NewLeaderElectedError(BrokerResponseError):
    errno = 108
    message = "NEW_LEADER_ELECTED"


class OffsetMovedToTieredStorageError(BrokerResponseError):
    errno = 109
    message = "OFFSET_MOVED_TO_TIERED_STORAGE"


class FencedMemberEpochError(BrokerResponseError):
    errno = 110
    message = "FENCED_MEMBER_EPOCH"


class UnreleasedInstanceIdError(BrokerResponseError):
    errno = 111
    message = "UNRELEASED_INSTANCE_ID"


class UnsupportedAssignorError(BrokerResponseError):
    errno = 112
    message = "UNSUPPORTED_ASSIGNOR"


class StaleMemberEpochError(BrokerResponseError):
    errno = 113
    message = "STALE_MEMBER_EPOCH"


class MismatchedEndpointTypeError(BrokerResponseError):
    errno = 114
    message = "MISMATCHED_ENDPOINT_TYPE"


class UnsupportedEndpointTypeError(BrokerResponseError):
    errno = 115
    message = "UNSUPPORTED_ENDPOINT_TYPE"


class UnknownControllerIdError(BrokerResponseError):
    errno = 116
    message = "UNKNOWN_CONTROLLER_ID"


class UnknownSubscriptionIdError(BrokerResponseError):
    errno = 117
    message = "UNKNOWN_SUBSCRIPTION_ID"


class TelemetryTooLargeError(BrokerResponseError):
    errno = 118
    message = "TELEMETRY_TOO_LARGE"


class InvalidRegistrationError(BrokerResponseError):
    errno = 119
    message = "INVALID_REGISTRATION"


class TransactionAbortableError(BrokerResponseError):
    errno = 120
    message = "TRANSACTION_ABORTABLE"


class InvalidRecordStateError(BrokerResponseError):
    errno = 121
    message = "INVALID_RECORD_STATE"


class ShareSessionNotFoundError(RetriableError, BrokerResponseError):
    errno = 122
    message = "SHARE_SESSION_NOT_FOUND"


class InvalidShareSessionEpochError(RetriableError, BrokerResponseError):
    errno = 123
    message = "INVALID_SHARE_SESSION_EPOCH"


class FencedStateEpochError(BrokerResponseError):
    errno = 124
    message = "FENCED_STATE_EPOCH"


class InvalidVoterKeyError(BrokerResponseError):
    errno = 125
    message = "INVALID_VOTER_KEY"


class DuplicateVoterError(BrokerResponseError):
    errno = 126
    message = "DUPLICATE_VOTER"


class VoterNotFoundError(BrokerResponseError):
    errno = 127
    message = "VOTER_NOT_FOUND"


# --- translation from kwire's exceptions --------------------------------------------------------------------------
# ------------------------------------------------------------------------------------

kafka_errors = by_code(globals())
# Checked before the entries that both clients share.
_BY_KIND: Kinds = (
    (errors.KafkaTimeoutError, KafkaTimeoutError),
    (errors.SaslAuthenticationError, SaslAuthenticationFailedError),
    (errors.UnsupportedSaslMechanismError, UnsupportedSaslMechanismError),
    (errors.IllegalSaslStateError, IllegalSaslStateError),
    (errors.ConfigError, KafkaConfigurationError),
    (errors.InvalidGroupIdError, IllegalStateError),
    *BY_KIND,
)


@cache
def for_code(error_code: int) -> type[BrokerResponseError]:
    """The exception for a broker's error code; for an unknown code, an exception with that `errno`."""
    return kafka_errors.get(error_code) or type("UnrecognizedBrokerError", (UnknownError,), {"errno": error_code})


def as_theirs(kind: type[E], name: str | None = None) -> type[E]:
    """The class; if the program has imported kafka-python's exceptions, a subclass of kafka-python's class, too: by
    default of the one with any of its names, which differ between versions 2 and 3."""
    theirs = sys.modules.get(THEIR_ERRORS)
    if name is None and theirs is not None:
        name = next((each for each, ours in globals().items() if ours is kind and hasattr(theirs, each)), None)
    return their_exceptions.as_theirs(kind, THEIR_ERRORS, name)


def error_of(error: errors.KafkaError) -> KafkaError:
    """kafka-python's exception for an error of kwire."""
    if isinstance(error, errors.LogTruncationError):
        return as_theirs(LogTruncationError)(error.divergent_offsets, str(error))
    found = translated(error, _BY_KIND, for_code)
    return as_theirs(type(found))(*found.args)


def bootstrap_timeout(text: str) -> BootstrapTimeoutError:
    """The error of a constructor that no broker has answered."""
    of_version_2 = as_theirs(BootstrapTimeoutError, "NoBrokersAvailable")
    kind = as_theirs(BootstrapTimeoutError) if of_version_2 is BootstrapTimeoutError else of_version_2
    return kind(text)


def raises_theirs(call: Callable[P, T]) -> Callable[P, T]:
    """Have the call raise kafka-python's exceptions in place of kwire's. A deserializer's exception is raised
    unchanged."""

    @wraps(call)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except errors.RecordDeserializationError as error:
            failure = _of_deserializer(error)
        except errors.KafkaError as error:
            raise error_of(error) from error
        raise failure  # out here, so that it is not shown as what came of itself

    return called


def _of_deserializer(error: errors.RecordDeserializationError) -> BaseException:
    """The deserializer's exception, with a note that names the record; not a StopIteration, which would end a loop."""
    failure = error.__cause__
    if failure is None or isinstance(failure, StopIteration):
        failure = error_of(error)
        failure.__cause__ = error
    elif str(error) not in getattr(failure, "__notes__", ()):
        failure.add_note(str(error))
    return failure
