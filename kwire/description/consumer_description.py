"""`ConsumerDescription`: all that `Consumer.describe()` answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from kwire.description.page import ago, cause_lines, group_lines, partition_lines, subscription_line
from kwire.description.values import Cause, GroupDescription, PartitionDescription, SubscriptionDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerDescription:
    """How a consumer stands at one moment. `str()` of it is a page for a person.

    Attributes:
        group: None without a group.
        subscription: None while nothing is subscribed or assigned.
        last_poll_s: Seconds since the application last polled, or came back from a poll's wait; None: never. 0 while
            a poll waits.
        is_polling: Whether a poll waits for records right now.
        causes: Why no records come, as far as it concerns more than one partition.
        partitions: What is assigned, each with causes of its own.
    """

    client_id: str
    group: GroupDescription | None = None
    subscription: SubscriptionDescription | None = None
    last_poll_s: float | None = None
    is_polling: bool = False
    causes: tuple[Cause, ...] = ()
    partitions: tuple[PartitionDescription, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The same as dictionaries, lists, strings and numbers, as JSON has them."""
        return asdict(self)

    def all_causes(self) -> Iterator[Cause]:
        """Those of the consumer, then those of its partitions."""
        yield from self.causes
        for partition in self.partitions:
            yield from partition.causes

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"consumer {self.client_id}: {subscription_line(self.subscription)}"
        yield "  a poll waits for records" if self.is_polling else f"  last poll {ago(self.last_poll_s)}"
        yield from (f"  {line}" for line in cause_lines(self.causes))
        if self.group is not None:
            yield from group_lines(self.group)
        yield f"partitions: {len(self.partitions)}"
        for partition in self.partitions:
            yield from (f"  {line}" for line in partition_lines(partition))
