"""Every exception kwire raises: one root, split by whose fault it is and what to do next.

* `KafkaError` is the root. Its two class attributes answer the questions a caller has: `retriable` (the same
  call may succeed later) and `fatal` (this consumer cannot go on; close it and make another).
* Classes carry plain values only, so they pickle and can travel through Spark, multiprocessing or a log.
* Names are those of the Java client with `Error` for `Exception`.

Foreign exceptions (OS, trio, numpy, codecs) never leave the package: the edge maps them and keeps the cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.root_errors import InvalidArgumentError as InvalidArgumentError  # noqa: PLC0414  exported from here
from kwire.root_errors import KafkaError as KafkaError  # noqa: PLC0414  exported from here

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kwire.model import Header, OffsetAndMetadata, TopicPartition


class RetriableError(KafkaError):
    """The same call may succeed later; kwire retries these itself until the call's deadline."""

    retriable = True


# --- your call was wrong -------------------------------------------------------------------------------------


class ConfigError(KafkaError, ValueError):
    """A setting is unknown, has a bad value, or contradicts another."""


class IllegalStateError(KafkaError, RuntimeError):
    """The call does not fit what the consumer is doing: closed, not subscribed, partition not assigned."""


class InvalidGroupIdError(KafkaError):
    """A group operation without a usable `group_id`."""


class InvalidTopicError(KafkaError):
    """Topic names the broker refuses."""

    def __init__(self, topics: Collection[str]) -> None:
        self.topics = frozenset(topics)
        names = ", ".join(sorted(map(repr, self.topics)))
        super().__init__(f"invalid topic name: {names}; use 1 to 249 of a-z A-Z 0-9 . _ -")


class ForkedConsumerError(IllegalStateError):
    """The consumer was made by another process, which has forked this one: connections and membership are its own.

    Make a consumer in the child. `multiprocessing` starts children without forking with the start method "spawn".
    """


class ConcurrentModificationError(IllegalStateError):
    """Two threads used one consumer at the same time; any thread may call `wakeup()`, and then `close()`.

    Inside a callback, another thread or task may use it with the callback's access key, and the callback has to wait
    for it (KIP-944).
    """


# --- the world was not ready ---------------------------------------------------------------------------------


class KafkaTimeoutError(RetriableError, TimeoutError):
    """The deadline of the call passed first. The message says what it was still waiting for."""


class NoThreadError(KafkaError):
    """A consumer cannot run its network thread in this process: gevent or eventlet has patched what it is made of,
    the system or the server around Python allows no more threads, or the interpreter is ending."""


class DisconnectError(RetriableError):
    """A connection closed while an answer was due."""


class RebootstrapRequiredError(DisconnectError):
    """The broker at an address is not the one that metadata names for it, or is of another cluster (KIP-1242): a name
    or a load balancer leads elsewhere. kwire starts from the bootstrap servers again by itself."""


class BootstrapError(RetriableError):
    """No bootstrap server gave a usable answer; the message lists each with its reason."""


class WakeupError(KafkaError):
    """`wakeup()` was called; raised once by the blocking call that it interrupted."""


# --- the peer, or the bytes, were wrong ----------------------------------------------------------------------


class ProtocolError(KafkaError):
    """Bytes that do not follow the protocol. The connection they came from is closed."""


class CorruptRecordError(KafkaError):
    """A record batch is damaged: bad checksum, impossible length, undecodable payload.

    `topic`, `partition` and `offset` are filled in where they are known; `next_offset` is where the next sound batch
    begins, if it was fetched as well. To step over the damage: `seek` there, or else to `offset + 1`.
    """

    next_offset: int | None = None

    def __init__(
        self, problem: str, *, topic: str | None = None, partition: int | None = None, offset: int | None = None
    ) -> None:
        self.problem = problem
        self.topic = topic
        self.partition = partition
        self.offset = offset
        where = f"{topic}-{partition} at offset {offset}: " if topic is not None else ""
        super().__init__(f"{where}{problem}")

    def at(self, topic: str, partition: int, offset: int, next_offset: int | None = None) -> CorruptRecordError:
        """The same problem with the place it was found in.

        Args:
            topic: Of the batch.
            partition: Of the batch.
            offset: Where the damage begins.
            next_offset: The first offset behind it that is known to be sound.

        Returns:
            Another error, to be raised in the place of this one.
        """
        error = CorruptRecordError(self.problem, topic=topic, partition=partition, offset=offset)
        error.next_offset = next_offset
        return error


class UnsupportedVersionError(KafkaError):
    """The broker does not offer an API, or no version of it that can carry what was asked."""


class InternalError(KafkaError):
    """A bug in kwire. Please report it."""

    fatal = True


class IllegalTransitionError(InternalError):
    """A state machine got an event that its table has no row for; the state is unchanged."""


# --- the broker said no --------------------------------------------------------------------------------------


class BrokerError(KafkaError):
    """A broker answered with an error code that has no class of its own. `code` and `name` are Kafka's."""

    def __init__(self, message: str, *, code: int = -1, name: str = "UNKNOWN_SERVER_ERROR") -> None:
        self.code = code
        self.name = name
        super().__init__(message)


class RetriableBrokerError(BrokerError, RetriableError):
    """A broker's error that may go away: a leader moves, a coordinator loads."""


class AuthenticationError(KafkaError):
    """Client and broker do not accept each other: credentials, certificates, or the way to show them are wrong.

    kwire tries again, after pauses, and each `poll` raises the newest refusal. If neither the brokers nor the
    credentials change, this does not help: correct the settings, and make another consumer.
    """

    fatal = True


class SslAuthenticationError(AuthenticationError):
    """The TLS handshake failed over a certificate or what the two sides can speak.

    The message names the certificate: correct the trust store (`ssl_truststore_location`), this client's certificate
    (`ssl_keystore_location`), or the name that the broker is reached by.
    """


class SaslAuthenticationError(AuthenticationError):
    """The broker refused the credentials, or could not prove that it knows them.

    Check user name and password, token or ticket, and that the broker has the user for this `sasl_mechanism`.
    """


class UnsupportedSaslMechanismError(AuthenticationError):
    """The broker's listener does not offer the mechanism: choose one that it has with `sasl_mechanism`."""


class IllegalSaslStateError(AuthenticationError):
    """The broker got, or sent, something that does not belong to this step of authentication.

    A listener without SASL answers so: compare `security_protocol` with the listener's. Or a proxy is in between.
    """


class NoTokenError(AuthenticationError, RetriableError):
    """No valid token to log in with: the login server cannot be reached or answers nonsense, the provider fails, or
    what came has expired. kwire goes on asking, at the pace of `sasl_login_retry_backoff_ms` and `_max_ms`."""

    fatal = False


class AuthorizationError(BrokerError):
    """The broker knows who this is, and does not permit it. Once it is granted, the next poll or call succeeds; nothing
    needs to be recreated."""


class TopicAuthorizationError(AuthorizationError):
    """No permission on the topics."""

    def __init__(self, topics: Collection[str]) -> None:
        self.topics = frozenset(topics)
        names = ", ".join(sorted(self.topics))
        super().__init__(f"not authorized to access topics: {names}", code=29, name="TOPIC_AUTHORIZATION_FAILED")


class GroupAuthorizationError(AuthorizationError):
    """No permission on the group. `poll` raises it for each attempt to become a member; the next one tries again."""


class ClusterAuthorizationError(AuthorizationError):
    """No permission on the cluster."""


class TransactionalIdAuthorizationError(AuthorizationError):
    """No permission on the transactional id."""


class UnknownTopicOrPartitionError(RetriableBrokerError):
    """No broker knows the topic or partition."""


class FencedInstanceIdError(BrokerError):
    """Another member took over this `group_instance_id`."""

    fatal = True


class UnreleasedInstanceIdError(BrokerError):
    """Another member with this `group_instance_id` has not left yet; close it, or wait until its session ends."""

    fatal = True


class UnsupportedAssignorError(BrokerError):
    """The broker does not have the assignor that `group_remote_assignor` names."""

    fatal = True


class InvalidRegularExpressionError(BrokerError):
    """The broker cannot read the expression of a `SubscriptionPattern`; it uses the syntax of RE2/J."""


class GroupMaxSizeReachedError(BrokerError):
    """The group is full."""

    fatal = True


class InconsistentGroupProtocolError(BrokerError):
    """The group's members share no assignor, or are not consumers."""

    fatal = True


# --- offsets -------------------------------------------------------------------------------------------------


class AssignorError(KafkaError):
    """An assignor of your own raised, or made a plan that no group can follow; `__cause__` has the first."""


class CommitFailedError(KafkaError):
    """The member was no longer part of the group; its partitions may have a new owner."""


class RetriableCommitFailedError(CommitFailedError, RetriableError):
    """An asynchronous commit failed for a reason that may pass: a later commit may succeed."""


class RebalanceInProgressError(KafkaError):
    """A commit met a rebalance; poll to finish it, then commit again."""


class RebalanceListenerError(KafkaError):
    """A method of the rebalance listener raised what is not a `KafkaError`; `__cause__` has it."""


class ProcessingError(KafkaError):
    """A `Processor`'s handler failed for good, and its policy is to stop; `__cause__` has what it raised.

    The record was not committed: the next consumer of the partition gets it again. `attempts` is 0 if its key or value
    cannot be deserialized, so that no handler was called.
    """

    what: str = "the handler failed after {} attempts"

    def __init__(self, topic_partition: TopicPartition, offset: int, attempts: int, reason: str) -> None:
        self.topic_partition = topic_partition
        self.offset = offset
        self.attempts = attempts
        what = self.what.format(attempts) if attempts else "not handled"
        super().__init__(f"{topic_partition} offset {offset}: {what}: {reason}")


class WorkerError(ProcessingError):
    """What runs the handler of a `Processor` is broken: a process of its pool died, its executor was closed, no thread
    or event loop can run, memory is exhausted, the dead-letter function keeps raising, or a function returns a
    coroutine or a generator, which nobody runs; `__cause__` says which.

    The record is not at fault: it was in work each time that this happened. It is not committed.
    """

    what = "in work when the workers broke down {} times"


class NoOffsetForPartitionError(KafkaError):
    """No committed offset and `auto_offset_reset="none"`."""

    def __init__(self, partitions: Collection[TopicPartition]) -> None:
        self.partitions = frozenset(partitions)
        names = ", ".join(map(str, sorted(self.partitions)))
        super().__init__(f"no committed offset and auto_offset_reset=none for {names}; seek, or set a reset policy")


class OffsetOutOfRangeError(KafkaError):
    """The fetch position is outside the log and `auto_offset_reset="none"`. Raised by `kwire.read`, too, if records are
    deleted that it has yet to read."""

    def __init__(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.offsets = dict(offsets)
        where = ", ".join(f"{tp} at {offset}" for tp, offset in sorted(self.offsets.items()))
        super().__init__(f"fetch position out of range and auto_offset_reset=none: {where}; seek to a valid offset")


class LogTruncationError(OffsetOutOfRangeError):
    """The log is not the one that the position was taken from. Raised with `auto_offset_reset="none"`, and by
    `kwire.read`.

    Either the log was truncated, as an unclean leader election does (KIP-320): what was read behind the divergent
    offset is gone, and other records are there now. Or the topic was deleted and created again (KIP-516): then its
    partitions are in `recreated`, and the position means nothing in the new topic. `seek_to_beginning` reads all of it.

    Attributes:
        offsets: The position of each partition.
        divergent_offsets: Where a truncated log begins to differ from what was read, with the leader epoch in front of
            it; to go on there: `seek(tp, divergent_offsets[tp])`. Not in here: a partition whose leader cannot tell,
            and one whose topic was deleted and created again.
        recreated: The partitions whose topic was deleted and created again.
    """

    def __init__(
        self,
        offsets: Mapping[TopicPartition, int],
        divergent_offsets: Mapping[TopicPartition, OffsetAndMetadata],
        recreated: Collection[TopicPartition] = (),
    ) -> None:
        super().__init__(offsets)
        self.divergent_offsets = dict(divergent_offsets)
        self.recreated = frozenset(recreated)
        texts: list[str] = []
        if truncated := self._where(self.offsets.keys() - self.recreated):
            texts.append(f"the log was truncated and auto_offset_reset=none: {truncated}; seek to go on")
        if void := self._where(self.recreated):
            what = "the topic was deleted and created again, and auto_offset_reset=none"
            texts.append(f"{what}: {void}; seek_to_beginning to read the new topic")
        self.args = ("; ".join(texts),)

    def _where(self, partitions: Collection[TopicPartition]) -> str:
        return ", ".join(f"{tp} at {self.offsets[tp]}{self._parted(tp)}" for tp in sorted(partitions))

    def _parted(self, tp: TopicPartition) -> str:
        divergent = self.divergent_offsets.get(tp)
        return f" (differs from offset {divergent.offset})" if divergent is not None else ""


class RecordDeserializationError(KafkaError):
    """A deserializer failed. The consumer stays usable: all records in front of this one have been returned, and
    `seek(tp, offset + 1)` steps over it. In a `Processor` it is what a dead-letter function gets, or the cause of a
    `ProcessingError`; there `on_failure` steps over it.

    `partition` is a `TopicPartition`, which is also there as `topic_partition`, as in a record. `origin` is "key" or
    "value"; `key_data` and `value_data` are the raw bytes.
    """

    def __init__(
        self,
        partition: TopicPartition,
        offset: int,
        *,
        origin: str,
        key_data: bytes | None,
        value_data: bytes | None,
        headers: Collection[Header] = (),
        timestamp: int = -1,
        reason: str = "",
        advice: str | None = None,
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.origin = origin
        self.key_data = key_data
        self.value_data = value_data
        self.headers = tuple(headers)
        self.timestamp = timestamp
        super().__init__(
            f"cannot deserialize the {origin} of {partition} at offset {offset}: {reason}; "
            + (f"to step over it: seek({partition!r}, {offset + 1})" if advice is None else advice)
        )

    @property
    def topic_partition(self) -> TopicPartition:
        """Where the record is, by the name that this has in a record."""
        return self.partition


class SchemaRegistryUnavailableError(RecordDeserializationError, RetriableError):
    """A schema registry did not answer, or something else did in its place, so nobody knows what these bytes mean. The
    record may be good: poll again. A `Processor` does so by itself, and does not step over it."""
