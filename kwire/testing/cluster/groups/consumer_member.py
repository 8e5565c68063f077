"""A member of a consumer group (KIP-848) as its coordinator knows it: values only, a change makes a new one.

`consumer` keeps the members, `reconciling` moves one from what it owns towards what it is to own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

Holdings = Mapping[UUID, Mapping[int, int]]
"""Topic, partition, and the epoch in which the member got it (KIP-1251)."""

Target = Mapping[UUID, frozenset[int]]
"""What a member is to own."""

NEW, LEAVING, LEAVING_FOR_A_WHILE = 0, -1, -2
"""Member epochs in a heartbeat that say something else than an epoch."""


class ConsumerMemberState(Enum):
    """How far a member has come on its way to its target."""

    STABLE = "has all there is for it in its epoch"
    UNREVOKED_PARTITIONS = "is to give partitions up, and has not said that it did"
    UNRELEASED_PARTITIONS = "waits for partitions that others still own"


@dataclass(frozen=True, slots=True)
class ClassicFacts:
    """What is known besides of a member that speaks the classic protocol, while the group goes over."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One member. `assigned` is what it may read, `revoking` what it was told to give up and still holds."""

    member_id: str
    epoch: int = NEW
    previous_epoch: int = -1
    state: ConsumerMemberState = ConsumerMemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str = ""
    assignor: str | None = None
    assigned: Holdings = field(default_factory=dict)
    revoking: Holdings = field(default_factory=dict)
    classic: ClassicFacts | None = None

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether nothing is left to do for it in that assignment epoch."""
        return self.state is ConsumerMemberState.STABLE and self.epoch == epoch

    def told(self, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str) -> ConsumerMember:
        """The member after what this heartbeat says; what it leaves out stays as it was."""
        topics = request.subscribed_topic_names
        timeout_ms = request.rebalance_timeout_ms
        return replace(
            self,
            instance_id=_or(request.instance_id, self.instance_id),
            rack_id=_or(request.rack_id, self.rack_id),
            rebalance_timeout_ms=self.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            assignor=_or(request.server_assignor, self.assignor),
            topics=self.topics if topics is None else frozenset(topics),
            pattern=_or(request.subscribed_topic_regex, self.pattern) or "",
            client_id=client_id,
            client_host=client_host,
            classic=None,
        )

    def away(self) -> ConsumerMember:
        """A static member that has left for a while: its partitions wait for who comes with its instance id."""
        waiting = {topic: dict.fromkeys(partitions, 0) for topic, partitions in self.assigned.items()}
        return replace(self, epoch=LEAVING_FOR_A_WHILE, revoking={}, assigned=waiting)

    def succeeded_by(self, member_id: str) -> ConsumerMember:
        """The member that replaces this static member."""
        return replace(self, member_id=member_id, epoch=NEW, previous_epoch=NEW)

    def owned_since(self, topic_id: UUID, partition: int) -> int | None:
        """The epoch in which it got a partition that it holds, or is to give up and still holds."""
        since = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if since is None else since

    def holds_all(self, owned: list[TopicPartitions] | None) -> bool:
        """Whether `owned` is part of what it was assigned; not if it was not said."""
        if owned is None:
            return False
        return all(set(entry.partitions) <= self.assigned.get(entry.topic_id, {}).keys() for entry in owned)


def _or(said: str | None, known: str | None) -> str | None:
    return known if said is None else said
