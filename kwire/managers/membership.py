"""What both group protocols share: the interface of a membership, who this member is, and the timer of
`max_poll_interval_ms` (KIP-62).

`Membership` is all that the inbox, the registry, commits and look-ups know of the group: `classic_group.py` and
`consumer_group.py` are the two strategies behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

from kwire.config import ConsumerConfig
from kwire.epochs import Attempt, Generation, GenerationOrMemberEpoch
from kwire.errors import KafkaError
from kwire.events import CallbackKind, Reply
from kwire.logs import part_logger
from kwire.managers.leaving import Leaving
from kwire.managers.metadata import MetadataManager
from kwire.managers.unsent import Channel, Destination, PollResult
from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.subscription.subscription import Subscription

log = part_logger("group")

NO_GENERATION = Generation(-1)
NO_MEMBER_ID = ""
UUID_LENGTH = 36


class GroupIdentity(NamedTuple):
    """What every request to the coordinator carries. Generation -1 and no member id: not a member (assign-only). By the
    consumer protocol `generation_id` is the member epoch, as in OffsetCommit's GenerationIdOrMemberEpoch."""

    group_id: str
    generation_id: GenerationOrMemberEpoch = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None

    @property
    def is_member(self) -> bool:
        return self.generation_id != NO_GENERATION


def is_predecessor(member_id: str, identity: GroupIdentity) -> bool:
    """Whether this is the id that a static member had before it was restarted: its instance id and another UUID. Before
    KIP-814 a leader that came back was told that this one leads."""
    instance_id = identity.group_instance_id
    if instance_id is None or member_id == identity.member_id:
        return False
    return member_id.startswith(f"{instance_id}-") and len(member_id) == len(instance_id) + len("-") + UUID_LENGTH


class MemberStatus(NamedTuple):
    """The state of a membership, for `Consumer.describe()` and the events for operators.

    Attributes:
        state: The name of a state of the protocol's table.
        waits_for: What is to happen next, in words.
        generation: The generation or the member epoch; None if this consumer is no member.
        owes_callback: Whether the application has to run a callback first.
        is_joining: Whether it is on its way to an assignment, and others may have to do their part.
        awaits_poll: Whether it joins only when the application polls.
        reason: Why it rebalances, or did so last.
        heartbeat_refusal: Why the coordinator does not take its heartbeats.
    """

    state: str
    waits_for: str
    member_id: str
    generation: int | None
    owes_callback: bool
    is_joining: bool
    awaits_poll: bool
    reason: str
    heartbeat_refusal: KafkaError | None = None


class Committer(Protocol):
    """In whose name offsets are committed and looked up."""

    def identity(self) -> GroupIdentity: ...

    @property
    def is_joining(self) -> bool:
        """Whether there is no generation to commit with at the moment."""
        ...

    @property
    def refusal(self) -> KafkaError | None:
        """Why this consumer will not be a member again with its present subscription."""
        ...

    @property
    def blocks_coordinator(self) -> bool:
        """Whether a request is open that blocks its connection: the broker answers nothing behind it."""
        ...

    @property
    def fetches_as_member(self) -> bool:
        """Whether look-ups of committed offsets name the member, so that the broker can check its epoch (KIP-848)."""
        ...

    def on_membership_lost(self, code: ErrorCode) -> None: ...

    def on_stale_epoch(self) -> None:
        """An answer to the present identity says that the broker has a newer epoch for this member (KIP-848)."""
        ...

    def on_group_rebalancing(self, reason: str) -> None: ...


class Membership(Committer, Protocol):
    """A member of a group, whatever the protocol."""

    def status(self) -> MemberStatus:
        """The state of the membership."""
        ...

    leaving: Leaving
    """Requests to leave; at the end of the consumer they alone are polled."""

    @property
    def awaits_poll(self) -> bool:
        """Whether `on_poll` would change anything: a join waits for it, or an error is to be raised again."""
        ...

    def on_poll(self) -> None: ...
    def on_subscription_changed(self) -> None: ...
    def on_callback_completed(self, attempt: Attempt) -> None: ...

    def rejoin_needed(self, reason: str) -> None:
        """The application wants a rebalance."""
        ...

    def leave(self, reason: str, reply: Reply[None] | None = None) -> None:
        """Leave; the application has run the callback for what it owned."""
        ...

    def close(self, *, leave_group: bool | None) -> None:
        """Leave at the end of the consumer (KIP-1092); `leaving` tells the coordinator."""
        ...

    def poll(self, now_ms: float) -> PollResult: ...


class NoMembership:
    """Commits and looks up offsets of a group that has no members, as those do who assign partitions by hand.

    Args:
        blocks_coordinator: whether somebody else's open request blocks the connection to the coordinator.
    """

    is_joining = False
    refusal = None
    fetches_as_member = False

    def __init__(self, group_id: str, blocks_coordinator: Callable[[], bool]) -> None:
        self._identity = GroupIdentity(group_id)
        self._blocks_coordinator = blocks_coordinator

    def identity(self) -> GroupIdentity:
        return self._identity

    @property
    def blocks_coordinator(self) -> bool:
        return self._blocks_coordinator()

    def on_membership_lost(self, code: ErrorCode) -> None:
        """Does nothing: this consumer is no member. The broker refuses the commit because the group has members."""

    def on_stale_epoch(self) -> None:
        """As above."""

    def on_group_rebalancing(self, reason: str) -> None:
        """As above."""


def around_open_join(coordinator: Destination | None, member: Committer) -> Destination | None:
    """The coordinator, over another connection than the one that an open join or sync keeps blocked."""
    if coordinator is not None and member.blocks_coordinator:
        return coordinator._replace(channel=Channel.CONTROL)
    return coordinator


def match_pattern(config: ConsumerConfig, subscription: Subscription, metadata: MetadataManager) -> bool:
    """Subscribe to the topics that the pattern matches, once all are known; whether they are others than before."""
    hidden = config.exclude_internal_topics
    visible = [t.name for t in metadata.cluster.topics.values() if not (hidden and t.is_internal)]
    return metadata.has_looked_for(None) and subscription.match_pattern(visible)


class PollTimer:
    """Whether the application still polls. The last poll's time is read, not sent, so polling costs no hop."""

    def __init__(self, max_poll_interval_ms: float, polled_at_ms: Callable[[], float]) -> None:
        self._max_poll_interval_ms = max_poll_interval_ms
        self._polled_at_ms = polled_at_ms

    def expires_at_ms(self) -> float:
        return self._polled_at_ms() + self._max_poll_interval_ms

    def expired(self, now_ms: float) -> bool:
        return now_ms >= self.expires_at_ms()


def log_callback(kind: CallbackKind, partitions: Collection[TopicPartition]) -> None:
    """Log which partitions are assigned, revoked or lost; nothing if there are none."""
    if not partitions:
        return
    names = ", ".join(map(str, sorted(partitions)))
    count = f"{len(partitions)} partition{'s' if len(partitions) > 1 else ''}"
    match kind:
        case CallbackKind.ASSIGNED:
            log.info("assigned %s: %s", count, names, extra={"partitions": names})
        case CallbackKind.REVOKED:
            log.info("revoking %s: %s", count, names, extra={"partitions": names})
        case CallbackKind.LOST:
            log.warning("lost %s: %s; others may have them already", count, names, extra={"partitions": names})


def warn_of_overdue_poll(config: ConsumerConfig) -> None:
    """Log why the member leaves: the application thinks that it still is one."""
    log.warning(
        "no poll for max_poll_interval_ms=%d: leaving group %s; poll more often or make max_poll_records smaller",
        config.max_poll_interval_ms,
        config.group_id,
    )
