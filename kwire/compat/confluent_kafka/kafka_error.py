"""`KafkaError` and `KafkaException`, with confluent-kafka's API."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import total_ordering
from typing import TypeAlias, TypeVar

from kwire import errors
from kwire.compat import their_exceptions
from kwire.compat.confluent_kafka.codes import NAMES, Codes, text_of

# The class has a method of this name.
Text: TypeAlias = str


@total_ordering
class KafkaError(Codes, Exception):
    """An error with a code of librdkafka's. Mostly an attribute or argument, seldom raised, but `except` may name
    it."""

    def __init__(
        self,
        error: int,
        reason: Text | None = None,
        fatal: bool = False,
        retriable: bool = False,
        txn_requires_abort: bool = False,
    ) -> None:
        super().__init__(error, reason, fatal, retriable, txn_requires_abort)  # for pickle
        self._code = error
        self._reason = reason
        self._fatal = fatal
        self._retriable = retriable
        self._requires_abort = txn_requires_abort

    def code(self) -> int:
        return self._code

    def name(self) -> Text:
        return NAMES.get(self._code) or f"ERR_{self._code}?"

    def str(self) -> Text:
        return self._reason or text_of(self._code)

    def fatal(self) -> bool:
        return self._fatal

    def retriable(self) -> bool:
        return self._retriable

    def txn_requires_abort(self) -> bool:
        return self._requires_abort

    def __eq__(self, other: object) -> bool:
        return self._code == (other.code() if isinstance(other, KafkaError) else other)

    def __lt__(self, other: KafkaError | int) -> bool:
        return self._code < (other.code() if isinstance(other, KafkaError) else other)

    def __hash__(self) -> int:
        return hash(self._code)

    def __repr__(self) -> Text:
        fatal = "FATAL," if self._fatal else ""
        return f'KafkaError{{{fatal}code={self.name()},val={self._code},str="{self.str()}"}}'

    __str__ = __repr__


class KafkaException(Exception):  # noqa: N818  confluent-kafka's name
    """The exception that calls raise. Its first argument is the `KafkaError`."""


T = TypeVar("T", bound=KafkaException)


def as_theirs(kind: type[T]) -> type[T]:
    """The class; if the program has imported confluent-kafka's `KafkaException`, a subclass of both."""
    return their_exceptions.as_theirs(kind, "confluent_kafka", "KafkaException")


_CODES: tuple[tuple[type[errors.KafkaError], int], ...] = (
    (errors.KafkaTimeoutError, KafkaError._TIMED_OUT),
    (errors.BootstrapError, KafkaError._ALL_BROKERS_DOWN),
    (errors.AuthenticationError, KafkaError._AUTHENTICATION),
    (errors.LogTruncationError, KafkaError._AUTO_OFFSET_RESET),
    (errors.OffsetOutOfRangeError, KafkaError._AUTO_OFFSET_RESET),
    (errors.NoOffsetForPartitionError, KafkaError._AUTO_OFFSET_RESET),
    (errors.CorruptRecordError, KafkaError._BAD_MSG),
    (errors.InvalidTopicError, KafkaError.UNKNOWN_TOPIC_OR_PART),
    (errors.RebalanceInProgressError, KafkaError.REBALANCE_IN_PROGRESS),
    (errors.CommitFailedError, KafkaError.UNKNOWN_MEMBER_ID),
    (errors.InvalidArgumentError, KafkaError._INVALID_ARG),
    (errors.ConfigError, KafkaError._INVALID_ARG),
    (errors.IllegalStateError, KafkaError._STATE),
    (errors.DisconnectError, KafkaError._TRANSPORT),
)


# Another member has this one's `group.instance.id`. If this member joined again, it would fence that one, which would
# join again too.
_OF_INSTANCE_ID = (errors.FencedInstanceIdError, errors.UnreleasedInstanceIdError)


def ends_consumer(error: errors.KafkaError) -> bool:
    """Whether librdkafka refuses to go on after this error of a poll."""
    return isinstance(error, _OF_INSTANCE_ID)


def error_of(error: errors.KafkaError) -> KafkaError:
    """The `KafkaError` for an error of kwire."""
    if ends_consumer(error):
        code = KafkaError._FATAL
    elif isinstance(error, errors.BrokerError):
        code = int(error.code)
    else:
        code = next((code for kind, code in _CODES if isinstance(error, kind)), KafkaError._FAIL)
    return KafkaError(code, str(error), fatal=error.fatal, retriable=error.retriable)


def place_of(error: errors.KafkaError) -> tuple[str | None, int | None, int | None]:
    """The topic, partition and offset that an error is about, the first if there are several. As in librdkafka, the
    partition is 0 if the error is about a whole topic."""
    match error:
        case errors.TopicAuthorizationError(topics=topics) | errors.InvalidTopicError(topics=topics):
            return min(topics), 0, None
        case errors.NoOffsetForPartitionError(partitions=partitions):
            return *min(partitions), None
        case errors.OffsetOutOfRangeError(offsets=offsets):
            partition, offset = min(offsets.items())
            return *partition, offset
        case errors.CorruptRecordError(topic=topic, partition=number, offset=offset):
            return topic, number, offset
        case _:
            return None, None, None


@contextlib.contextmanager
def exceptions() -> Iterator[None]:
    """Raise confluent-kafka's exceptions in place of kwire's."""
    try:
        with exceptions_of_callbacks():
            yield
    except errors.KafkaError as error:
        raise as_theirs(KafkaException)(error_of(error)) from error


@contextlib.contextmanager
def exceptions_of_callbacks() -> Iterator[None]:
    """Raise the exception that a rebalance callback has raised, without kwire's around it."""
    try:
        yield
        return
    except errors.RebalanceListenerError as error:
        raised = error if error.__cause__ is None else error.__cause__
    raise raised


def exception(code: int, reason: str) -> KafkaException:
    return as_theirs(KafkaException)(KafkaError(code, reason))
