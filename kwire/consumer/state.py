"""What the application's side of a consumer knows, and the checks that its calls begin with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple

from kwire.config import ConsumerConfig, GroupProtocol
from kwire.consumer.access import CLOSED
from kwire.consumer.arguments import checked_partition
from kwire.consumer.delivery import Delivery
from kwire.consumer.network_link import NetworkLink
from kwire.consumer.revocation import Revocation
from kwire.errors import (
    IllegalStateError,
    InvalidGroupIdError,
    RecordDeserializationError,
    SchemaRegistryUnavailableError,
    UnsupportedVersionError,
)
from kwire.events import AssignmentView, CallbackKind, RecordsDelivered
from kwire.model import K, OffsetAndMetadata, TopicPartition, V


class RegistryWait(NamedTuple):
    """A record that waits for a schema registry: its offset, the last error, and since when (ms)."""

    offset: int
    error: str
    since_ms: float


class ConsumerState(Generic[K, V]):
    """What the application's side of one consumer knows. Used by the application thread.

    Attributes:
        assignment: The partitions it has, as far as the application was told. Changes inside poll, assign, unsubscribe
            and close alone.
        is_processing: Answers whether another task than the caller may still be processing what the last poll returned.
            Always False of threads, of which one at a time uses the consumer.
        callback: The rebalance callback that runs, and since when (ms).
        registry_waits: Partitions of which a record waits for a schema registry.
    """

    def __init__(self, config: ConsumerConfig, link: NetworkLink) -> None:
        self.config = config
        self.link = link
        self.delivery: Delivery[K, V] = Delivery()
        self.revocation = Revocation()
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.closed = False
        self.is_processing: Callable[[], bool] = lambda: False
        self.callback: tuple[CallbackKind, float] | None = None
        self.registry_waits: dict[TopicPartition, RegistryWait] = {}

    @property
    def view(self) -> AssignmentView:
        """What the network thread has published."""
        return self.link.mailbox.view

    @property
    def must_commit(self) -> bool:
        """Whether giving up partitions has to be preceded by a commit."""
        return self.config.enable_auto_commit and bool(self.assignment)

    def is_failing(self, polled_by: int) -> bool:
        """Whether the application fails over what it was handed last, or was told to stop in the midst of it.

        Args:
            polled_by: The thread that it was handed to.
        """
        return self.delivery.is_failing() or self.link.woken_in == polled_by

    @property
    def is_member(self) -> bool:
        """Whether the group still counts this consumer as its member, as far as is known."""
        return self.view.is_member

    @property
    def assigned_by_hand(self) -> bool:
        return self.view.subscribed and not self.view.is_group

    def note_delivered(self, *, came_back: bool = True) -> None:
        """Have the network thread know how far the application got, before it is told anything else.

        Args:
            came_back: Whether it has nothing in hand but that.
        """
        if delivered := self.delivery.so_far():
            event = RecordsDelivered(delivered, came_back=came_back)
            self.link.mailbox.note(event)  # first: to be told twice does no harm
            self.delivery.told()

    def note_processed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """The application commits these: of what it was handed last, that much is processed, and no more.

        Else the next auto-commit would undo this commit.
        """
        if delivered := self.delivery.up_to(offsets):
            self.link.mailbox.note(RecordsDelivered(delivered, came_back=False))

    def note_delivered_of(self, tp: TopicPartition) -> None:
        """A seek of this partition follows. With parallel rebalance, what each cursor has handed out decides which one
        of them it moves."""
        if self.config.enable_parallel_rebalance:
            delivered = [entry for entry in self.delivery.so_far() if entry[0] == tp]
            self.link.mailbox.note(RecordsDelivered(delivered, came_back=False))

    def note_unread(self, error: RecordDeserializationError, now_ms: float) -> None:
        """A poll could not deserialize this record: does it wait for a schema registry?"""
        was_waiting = self.registry_waits.pop(error.partition, None)
        if isinstance(error, SchemaRegistryUnavailableError):
            is_same = was_waiting is not None and was_waiting.offset == error.offset
            since_ms = was_waiting.since_ms if was_waiting is not None and is_same else now_ms
            self.registry_waits[error.partition] = RegistryWait(error.offset, str(error), since_ms)

    def interrupt_loop(self) -> None:
        """The `for` loop that the application is in ends here: what it has not seen is for the next poll."""
        self.delivery.interrupt()
        if not self.is_processing():
            self.note_delivered()

    # --- checks ---------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        if self.closed:
            raise IllegalStateError(CLOSED)
        self.link.check_alive()

    def check_not_in_callback(self, what: str) -> None:
        """A callback can reach the consumer itself; such a call would change it in the middle of the rebalance."""
        if self.callback is not None:
            raise IllegalStateError(f"{what} cannot be called inside a rebalance callback")

    def check_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        if missing := partitions - self.assignment:
            names = ", ".join(map(str, sorted(missing)))
            raise IllegalStateError(f"not assigned to this consumer: {names}")

    def checked_own(self, partition: TopicPartition) -> TopicPartition:
        """The partition, if it is one, and assigned."""
        tp = checked_partition(partition)
        self.check_assigned(frozenset((tp,)))
        return tp

    def check_group(self, what: str) -> str:
        if self.config.group_id is None:
            raise InvalidGroupIdError(f"{what} needs a group: set group_id")
        return self.config.group_id

    def check_broker_matches(self) -> None:
        """Whether there is somebody to match a `SubscriptionPattern`."""
        if self.config.group_protocol is not GroupProtocol.CONSUMER:
            raise UnsupportedVersionError(
                'a SubscriptionPattern is matched by the broker, which needs group_protocol="consumer"; '
                "subscribe with re.compile(...) to have kwire match it"
            )
