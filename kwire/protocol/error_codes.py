"""Kafka's error codes, one row each: number, whether a retry may help, what it means, and the exception it becomes.

`ErrorCode.of(code)` never fails: a number that is not in the table behaves like UNKNOWN_SERVER_ERROR and keeps its
value. What a manager does about a code is the manager's business; this is only what the code says (names and
retriability are those of Kafka 4.4).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from kwire.errors import (
    BrokerError,
    ClusterAuthorizationError,
    FencedInstanceIdError,
    GroupAuthorizationError,
    GroupMaxSizeReachedError,
    IllegalSaslStateError,
    InconsistentGroupProtocolError,
    InternalError,
    InvalidGroupIdError,
    InvalidRegularExpressionError,
    InvalidTopicError,
    KafkaError,
    RebalanceInProgressError,
    RetriableBrokerError,
    SaslAuthenticationError,
    TopicAuthorizationError,
    TransactionalIdAuthorizationError,
    UnknownTopicOrPartitionError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
)

if TYPE_CHECKING:
    from collections.abc import Collection

RETRY = True
FINAL = False


class ErrorCode(IntEnum):
    """A code and what is known about it."""

    retriable: bool
    meaning: str
    exception: type[KafkaError]

    def __new__(cls, code: int, retriable: bool, meaning: str, exception: type[KafkaError] | None = None) -> ErrorCode:
        """Make one row; the exception is a (retriable) broker's error unless the row names its own class."""
        row = int.__new__(cls, code)
        row._value_ = code
        row.retriable = retriable
        row.meaning = meaning
        row.exception = exception or (RetriableBrokerError if retriable else BrokerError)
        return row

    UNKNOWN_SERVER_ERROR = -1, FINAL, "the broker failed in a way it has no code for; its log knows more"
    NONE = 0, FINAL, "no error"
    OFFSET_OUT_OF_RANGE = 1, FINAL, "the offset is outside the partition's log"
    CORRUPT_MESSAGE = 2, RETRY, "a record is damaged, too large, or lacks the key that its compacted topic needs"
    UNKNOWN_TOPIC_OR_PARTITION = 3, RETRY, "this broker knows no such topic or partition", UnknownTopicOrPartitionError
    INVALID_FETCH_SIZE = 4, FINAL, "the fetch size is not valid"
    LEADER_NOT_AVAILABLE = 5, RETRY, "the partition has no leader at the moment"
    NOT_LEADER_OR_FOLLOWER = 6, RETRY, "this broker does not lead the partition, or has no replica of it"
    REQUEST_TIMED_OUT = 7, RETRY, "the broker did not finish the request in time"
    BROKER_NOT_AVAILABLE = 8, FINAL, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, RETRY, "the replica is not available"
    MESSAGE_TOO_LARGE = 10, FINAL, "a record is larger than the broker accepts"
    STALE_CONTROLLER_EPOCH = 11, FINAL, "another broker has become the controller"
    OFFSET_METADATA_TOO_LARGE = 12, FINAL, "the metadata text of a commit is longer than the broker accepts"
    NETWORK_EXCEPTION = 13, RETRY, "the broker lost a connection that it needed for the answer"
    COORDINATOR_LOAD_IN_PROGRESS = 14, RETRY, "the coordinator is still loading its state"
    COORDINATOR_NOT_AVAILABLE = 15, RETRY, "there is no coordinator at the moment"
    NOT_COORDINATOR = 16, RETRY, "this broker is not the coordinator; look it up again"
    INVALID_TOPIC_EXCEPTION = 17, FINAL, "the topic's name is not valid, or the topic is internal", InvalidTopicError
    RECORD_LIST_TOO_LARGE = 18, FINAL, "a record batch is larger than a log segment"
    NOT_ENOUGH_REPLICAS = 19, RETRY, "too few replicas are in sync to accept records"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, RETRY, "the records were written, but to too few replicas"
    INVALID_REQUIRED_ACKS = 21, FINAL, "the number of acknowledgements is not valid"
    ILLEGAL_GENERATION = 22, FINAL, "the group has moved on to another generation"
    INCONSISTENT_GROUP_PROTOCOL = (
        *(23, FINAL),
        "the member shares no assignor with the group, or is of another protocol type",
        InconsistentGroupProtocolError,
    )
    INVALID_GROUP_ID = 24, FINAL, "the group id is not valid", InvalidGroupIdError
    UNKNOWN_MEMBER_ID = 25, FINAL, "the coordinator does not know this member"
    INVALID_SESSION_TIMEOUT = 26, FINAL, "the session timeout is outside the range that the broker allows"
    REBALANCE_IN_PROGRESS = 27, FINAL, "the group is rebalancing; the member has to rejoin", RebalanceInProgressError
    INVALID_COMMIT_OFFSET_SIZE = 28, FINAL, "the commit is too large to be stored"
    TOPIC_AUTHORIZATION_FAILED = 29, FINAL, "no permission on the topic", TopicAuthorizationError
    GROUP_AUTHORIZATION_FAILED = 30, FINAL, "no permission on the group", GroupAuthorizationError
    CLUSTER_AUTHORIZATION_FAILED = 31, FINAL, "no permission on the cluster", ClusterAuthorizationError
    INVALID_TIMESTAMP = 32, FINAL, "a record's timestamp is outside the range that the broker accepts"
    UNSUPPORTED_SASL_MECHANISM = (
        *(33, FINAL),
        "the broker does not offer this SASL mechanism",
        UnsupportedSaslMechanismError,
    )
    ILLEGAL_SASL_STATE = 34, FINAL, "the request does not belong to this step of authentication", IllegalSaslStateError
    UNSUPPORTED_VERSION = 35, FINAL, "the broker does not offer this version of the request", UnsupportedVersionError
    TOPIC_ALREADY_EXISTS = 36, FINAL, "a topic of that name exists"
    INVALID_PARTITIONS = 37, FINAL, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = 38, FINAL, "the replication factor is below 1 or above the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, FINAL, "the assignment of replicas is not valid"
    INVALID_CONFIG = 40, FINAL, "a setting is not valid"
    NOT_CONTROLLER = 41, RETRY, "this broker is not the controller"
    INVALID_REQUEST = 42, FINAL, "the broker finds the request malformed or contradictory; its log knows more"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, FINAL, "the record format on the broker is too old for this"
    POLICY_VIOLATION = 44, FINAL, "a policy of the broker forbids the parameters"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, FINAL, "a sequence number of a producer is missing"
    DUPLICATE_SEQUENCE_NUMBER = 46, FINAL, "a sequence number of a producer was used before"
    INVALID_PRODUCER_EPOCH = 47, FINAL, "the producer's epoch is an old one"
    INVALID_TXN_STATE = 48, FINAL, "the transaction is not in a state that allows this"
    INVALID_PRODUCER_ID_MAPPING = 49, FINAL, "the producer id does not belong to this transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, FINAL, "the transaction timeout is above what the broker allows"
    CONCURRENT_TRANSACTIONS = 51, RETRY, "another operation on the same transaction is going on"
    TRANSACTION_COORDINATOR_FENCED = 52, FINAL, "the transaction coordinator has been replaced"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (
        *(53, FINAL),
        "no permission on the transactional id",
        TransactionalIdAuthorizationError,
    )
    SECURITY_DISABLED = 54, FINAL, "the broker runs without the security feature that this needs"
    OPERATION_NOT_ATTEMPTED = 55, FINAL, "an earlier operation of the same request failed, so this one was not tried"
    KAFKA_STORAGE_ERROR = 56, RETRY, "the broker's disk failed"
    LOG_DIR_NOT_FOUND = 57, FINAL, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, FINAL, "the broker refused the credentials", SaslAuthenticationError
    UNKNOWN_PRODUCER_ID = 59, FINAL, "the broker has no records of this producer any more"
    REASSIGNMENT_IN_PROGRESS = 60, FINAL, "the partition is being reassigned"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, FINAL, "the broker does not use delegation tokens"
    DELEGATION_TOKEN_NOT_FOUND = 62, FINAL, "the broker does not know the delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, FINAL, "the principal neither owns the delegation token nor may renew it"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, FINAL, "this connection's security does not allow delegation tokens"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, FINAL, "no permission on the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, FINAL, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, FINAL, "the broker does not know this type of principal"
    NON_EMPTY_GROUP = 68, FINAL, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, FINAL, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, RETRY, "the broker has dropped the fetch session; start a new one"
    INVALID_FETCH_SESSION_EPOCH = 71, RETRY, "the fetch session is at another epoch; start a new one"
    LISTENER_NOT_FOUND = 72, RETRY, "the partition's leader does not listen where this client could reach it"
    TOPIC_DELETION_DISABLED = 73, FINAL, "the broker does not allow topics to be deleted"
    FENCED_LEADER_EPOCH = 74, RETRY, "the request is from before the last leader election"
    UNKNOWN_LEADER_EPOCH = 75, RETRY, "the broker has not heard of the leader election that the request knows"
    UNSUPPORTED_COMPRESSION_TYPE = 76, FINAL, "the records are compressed in a way that this version does not know"
    STALE_BROKER_EPOCH = 77, FINAL, "the broker has registered anew since"
    OFFSET_NOT_AVAILABLE = 78, RETRY, "the new leader does not know the partition's end yet"
    MEMBER_ID_REQUIRED = 79, FINAL, "join again with the member id that came with this answer"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, RETRY, "the preferred leader is not available"
    GROUP_MAX_SIZE_REACHED = 81, FINAL, "the group has as many members as it may have", GroupMaxSizeReachedError
    FENCED_INSTANCE_ID = 82, FINAL, "another member took over this group instance id", FencedInstanceIdError
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, RETRY, "no replica that could lead is available"
    ELECTION_NOT_NEEDED = 84, RETRY, "the partition has the leader it should have"
    NO_REASSIGNMENT_IN_PROGRESS = 85, FINAL, "the partition is not being reassigned"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, FINAL, "the group still reads the topic, so its offsets cannot be deleted"
    INVALID_RECORD = 87, FINAL, "the broker refused a record"
    UNSTABLE_OFFSET_COMMIT = 88, RETRY, "a transaction that commits this offset is still open"
    THROTTLING_QUOTA_EXCEEDED = 89, RETRY, "too many such requests; wait as long as the answer says"
    PRODUCER_FENCED = 90, FINAL, "a newer producer uses the same transactional id"
    RESOURCE_NOT_FOUND = 91, FINAL, "the request speaks of something that does not exist"
    DUPLICATE_RESOURCE = 92, FINAL, "the request speaks of the same thing twice"
    UNACCEPTABLE_CREDENTIAL = 93, FINAL, "the credential does not meet the broker's rules"
    INCONSISTENT_VOTER_SET = 94, FINAL, "the sender or the receiver is not one of the voters"
    INVALID_UPDATE_VERSION = 95, FINAL, "the version of the update is not valid"
    FEATURE_UPDATE_FAILED = 96, FINAL, "the cluster's features could not be changed"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, FINAL, "a forwarded request names a principal nobody can read"
    SNAPSHOT_NOT_FOUND = 98, FINAL, "there is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, FINAL, "the position is outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, RETRY, "this broker knows no topic with that id"
    DUPLICATE_BROKER_REGISTRATION = 101, FINAL, "the broker id is in use"
    BROKER_ID_NOT_REGISTERED = 102, FINAL, "no broker has registered with that id"
    INCONSISTENT_TOPIC_ID = 103, RETRY, "the log belongs to a topic with another id"
    INCONSISTENT_CLUSTER_ID = 104, FINAL, "the request is meant for another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, FINAL, "there is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, RETRY, "the fetch session mixes topic names and topic ids; start a new one"
    INELIGIBLE_REPLICA = 107, FINAL, "one of the replicas must not be in sync"
    NEW_LEADER_ELECTED = 108, FINAL, "the change worked, and the partition has another leader now"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, FINAL, "the offset is in remote storage"
    FENCED_MEMBER_EPOCH = 110, FINAL, "the coordinator gave the member up; drop all partitions and rejoin"
    UNRELEASED_INSTANCE_ID = (
        *(111, FINAL),
        "another member holds this group instance id and has to leave first",
        UnreleasedInstanceIdError,
    )
    UNSUPPORTED_ASSIGNOR = 112, FINAL, "the broker does not have this assignor", UnsupportedAssignorError
    STALE_MEMBER_EPOCH = 113, FINAL, "the member's epoch has moved on; wait for the next heartbeat's answer"
    MISMATCHED_ENDPOINT_TYPE = 114, FINAL, "the request is for a controller, and this is a broker, or vice versa"
    UNSUPPORTED_ENDPOINT_TYPE = 115, FINAL, "the broker does not know this type of endpoint"
    UNKNOWN_CONTROLLER_ID = 116, FINAL, "there is no controller with that id"
    UNKNOWN_SUBSCRIPTION_ID = 117, FINAL, "the telemetry subscription has changed"
    TELEMETRY_TOO_LARGE = 118, FINAL, "the telemetry is larger than the broker accepts"
    INVALID_REGISTRATION = 119, FINAL, "the controller refused the broker's registration"
    TRANSACTION_ABORTABLE = 120, FINAL, "the transaction failed; it can be aborted, and the producer used again"
    INVALID_RECORD_STATE = 121, FINAL, "the record cannot be acknowledged in its state"
    SHARE_SESSION_NOT_FOUND = 122, RETRY, "the broker has dropped the share session; start a new one"
    INVALID_SHARE_SESSION_EPOCH = 123, RETRY, "the share session is at another epoch; start a new one"
    FENCED_STATE_EPOCH = 124, FINAL, "the share group's state has moved on to another epoch"
    INVALID_VOTER_KEY = 125, FINAL, "the voter's key is not the receiver's"
    DUPLICATE_VOTER = 126, FINAL, "the voter is one already"
    VOTER_NOT_FOUND = 127, FINAL, "there is no such voter"
    INVALID_REGULAR_EXPRESSION = (
        *(128, FINAL),
        "the broker cannot read the regular expression (it uses RE2's syntax)",
        InvalidRegularExpressionError,
    )
    REBOOTSTRAP_REQUIRED = 129, FINAL, "the client's metadata is too old; start from the bootstrap servers again"
    STREAMS_INVALID_TOPOLOGY = 130, FINAL, "the topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, FINAL, "the topology's epoch is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, FINAL, "the topology's epoch is an old one"
    SHARE_SESSION_LIMIT_REACHED = 133, RETRY, "the broker has as many share sessions as it may have"

    @property
    def is_unknown(self) -> bool:
        """UNKNOWN_SERVER_ERROR, or a number that is not in the table."""
        return self.name == "UNKNOWN_SERVER_ERROR"

    @classmethod
    def of(cls, code: int) -> ErrorCode:
        """The row of a code. A number without one gets a row like UNKNOWN_SERVER_ERROR's, with the number kept."""
        known = cls._value2member_map_.get(code)
        if isinstance(known, ErrorCode):
            return known
        row = int.__new__(cls, code)
        row._name_, row._value_ = "UNKNOWN_SERVER_ERROR", code
        row.retriable, row.exception = cls.UNKNOWN_SERVER_ERROR.retriable, cls.UNKNOWN_SERVER_ERROR.exception
        row.meaning = f"the broker answered with error code {code}, which is newer than this version of kwire"
        return row


def error_for(code: int, message: str | None = None, *, topics: Collection[str] = ()) -> KafkaError:
    """The exception for an error code.

    Args:
        code: Kafka's number, not 0.
        message: What was being done, to stand in front of the code's own meaning.
        topics: The topics it is about, for the exceptions that carry them.
    """
    row = ErrorCode.of(code)
    if row is ErrorCode.NONE:
        raise InternalError("error code 0 means success; there is no exception for it")
    text = f"{row.name} ({code}): {row.meaning}"
    if message is not None:
        text = f"{message}: {text}"
    if issubclass(row.exception, TopicAuthorizationError | InvalidTopicError):
        error: KafkaError = row.exception(topics)
        if message is not None or not topics:
            error.args = (": ".join([text, *([", ".join(sorted(topics))] if topics else [])]),)
        return error
    if issubclass(row.exception, BrokerError):
        return row.exception(text, code=code, name=row.name)
    return row.exception(text)
