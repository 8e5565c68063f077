"""`KafkaError` and `KafkaException` as confluent-kafka has them."""

from __future__ import annotations

from typing import TypeAlias

from kwire import errors
from kwire.protocol.error_codes import ErrorCode

# The class has a method of this name.
Text: TypeAlias = str


class KafkaError:
    """What went wrong, by librdkafka's codes: negative ones are the client's, the others Kafka's."""

    _PARTITION_EOF = -191
    _TIMED_OUT = -185
    _TRANSPORT = -195
    _ALL_BROKERS_DOWN = -187
    _NO_OFFSET = -168
    _INVALID_ARG = -186
    _STATE = -172
    _AUTHENTICATION = -169
    _FATAL = -150
    _VALUE_DESERIALIZATION = -159
    _KEY_DESERIALIZATION = -160
    _BAD_MSG = -199
    _FAIL = -196
    _AUTO_OFFSET_RESET = -140
    _UNKNOWN_PARTITION = -190
    _RESOLVE = -193
    _UNKNOWN_TOPIC = -188
    _SSL = -181
    _WAIT_COORD = -180
    _UNKNOWN_GROUP = -179
    _IN_PROGRESS = -178
    _CONFLICT = -173
    _UNKNOWN_PROTOCOL = -171
    _NOT_IMPLEMENTED = -170
    _INTR = -163
    _MAX_POLL_EXCEEDED = -147
    _FENCED = -144
    _ASSIGNMENT_LOST = -142
    _LOG_TRUNCATION = -139
    NO_ERROR = 0
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PART = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_FOR_PARTITION = 6
    REQUEST_TIMED_OUT = 7
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    TOPIC_EXCEPTION = 17
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    SASL_AUTHENTICATION_FAILED = 58
    FENCED_INSTANCE_ID = 82

    def __init__(self, error: int, reason: Text | None = None, fatal: bool = False, retriable: bool = False) -> None:
        self._code = error
        self._reason = reason
        self._fatal = fatal
        self._retriable = retriable

    def code(self) -> int:
        return self._code

    def name(self) -> Text:
        return _LOCAL.get(self._code) or ErrorCode.of(self._code).name

    def str(self) -> Text:
        return self._reason or self.name()

    def fatal(self) -> bool:
        return self._fatal

    def retriable(self) -> bool:
        return self._retriable

    def txn_requires_abort(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return self._code == (other.code() if isinstance(other, KafkaError) else other)

    def __hash__(self) -> int:
        return hash(self._code)

    def __repr__(self) -> Text:
        return f'KafkaError{{code={self.name()},val={self._code},str="{self.str()}"}}'


_LOCAL = {code: name for name, code in vars(KafkaError).items() if isinstance(code, int) and code < 0}


class KafkaException(Exception):  # noqa: N818  confluent-kafka's name
    """Its first argument is the `KafkaError`."""


_CODES: tuple[tuple[type[errors.KafkaError], int], ...] = (
    (errors.KafkaTimeoutError, KafkaError._TIMED_OUT),
    (errors.BootstrapError, KafkaError._ALL_BROKERS_DOWN),
    (errors.AuthenticationError, KafkaError._AUTHENTICATION),
    (errors.LogTruncationError, KafkaError._AUTO_OFFSET_RESET),
    (errors.OffsetOutOfRangeError, KafkaError._AUTO_OFFSET_RESET),
    (errors.NoOffsetForPartitionError, KafkaError._AUTO_OFFSET_RESET),
    (errors.CorruptRecordError, KafkaError._BAD_MSG),
    (errors.RebalanceInProgressError, KafkaError.REBALANCE_IN_PROGRESS),
    (errors.CommitFailedError, KafkaError.UNKNOWN_MEMBER_ID),
    (errors.InvalidArgumentError, KafkaError._INVALID_ARG),
    (errors.ConfigError, KafkaError._INVALID_ARG),
    (errors.IllegalStateError, KafkaError._STATE),
    (errors.DisconnectError, KafkaError._TRANSPORT),
)


def error_of(error: errors.KafkaError) -> KafkaError:
    """kwire's error in librdkafka's terms."""
    if isinstance(error, errors.BrokerError):
        code = error.code
    else:
        code = next((code for kind, code in _CODES if isinstance(error, kind)), KafkaError._FAIL)
    return KafkaError(code, str(error), fatal=error.fatal, retriable=error.retriable)
