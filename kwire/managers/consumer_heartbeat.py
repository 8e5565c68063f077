"""ConsumerGroupHeartbeat (KIP-848): what a heartbeat says, when it is due, and what an error in its answer means.

A heartbeat carries only what changed since the last one that was answered. After a failure nobody knows what the
broker has heard, so the next one says everything again. Used by `consumer_group.py` alone.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple
from uuid import UUID

from kwire.clock import Backoff
from kwire.epochs import MemberEpoch
from kwire.errors import KafkaError, UnsupportedVersionError
from kwire.managers.base import RequestState
from kwire.managers.consumer_reconciliation import Owned, write_owned
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

# MemberEpoch of KIP-848; positive ones are a member's.
JOIN_EPOCH = MemberEpoch(0)
LEAVE_EPOCH = MemberEpoch(-1)
LEAVE_STATIC_EPOCH = MemberEpoch(-2)  # leaves its place free for the next member with this instance id

# Until the first answer says otherwise; Kafka's default for group.consumer.heartbeat.interval.ms.
DEFAULT_INTERVAL_MS = 5_000.0
MAX_INTERVAL_MS = 60_000.0  # a member that does not heartbeat has no group; more often than is asked for does no harm

REGEX_MIN_VERSION = 1  # ConsumerGroupHeartbeat v1, Kafka 4.0
NO_REGEX = ""  # takes back a regular expression that was sent before


def new_member_id(new_uuid: Callable[[], UUID]) -> str:
    """An id as Kafka's Uuid.randomUuid makes them: 22 characters of URL-safe base64, none of which begin like an option
    on a command line."""
    while (text := b64encode(new_uuid().bytes, b"-_").decode().rstrip("=")).startswith("-"):
        pass
    return text


class ConsumerIdentity(NamedTuple):
    """What never changes in the life of a consumer."""

    group_id: str
    member_id: str
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None


class SubscriptionFields(NamedTuple):
    """What the user wants to be assigned."""

    topic_names: tuple[str, ...]
    regex: str | None


class ConsumerHeartbeats:
    """Writes heartbeats, and remembers what the broker has been told."""

    def __init__(self, member: ConsumerIdentity) -> None:
        self._member = member
        self._subscribed: SubscriptionFields | None = None
        self._owned: Owned | None = None
        self._regex_was_sent = False

    def knows(self, subscribed: SubscriptionFields) -> bool:
        """Whether there is nothing new to say of the subscription."""
        return self._subscribed in (subscribed, None)

    def forget(self) -> None:
        """Whatever was on its way may not have arrived: say everything again."""
        self._subscribed = self._owned = None

    def join(self, subscribed: SubscriptionFields) -> ConsumerGroupHeartbeatRequest:
        """The first heartbeat of a membership, which owns nothing: all that was owned before has been given up."""
        self.forget()
        request = self.stay(JOIN_EPOCH, subscribed, frozenset(), acknowledge=True)
        request.rack_id = self._member.rack_id
        return request

    def stay(
        self, epoch: MemberEpoch, subscribed: SubscriptionFields, owned: Owned, *, acknowledge: bool
    ) -> ConsumerGroupHeartbeatRequest:
        """A member's heartbeat. `acknowledge` names what is owned in any case: the broker waits to hear it."""
        request = self._identified(epoch)
        if self._subscribed is None:
            request.rebalance_timeout_ms = self._member.rebalance_timeout_ms
            request.server_assignor = self._member.server_assignor
        if self._subscribed is None or self._subscribed.topic_names != subscribed.topic_names:
            request.subscribed_topic_names = list(subscribed.topic_names)
        request.subscribed_topic_regex = self._changed_regex(subscribed)
        if acknowledge or self._owned != owned:
            request.topic_partitions = write_owned(owned)
        self._subscribed, self._owned = subscribed, owned
        return request

    def leave(self, *, for_good: bool = False) -> ConsumerGroupHeartbeatRequest:
        """The last heartbeat of a membership. A static member keeps its place, unless it leaves for good (KIP-1092)."""
        self.forget()
        self._regex_was_sent = False
        keeps_place = self._member.instance_id is not None and not for_good
        return self._identified(LEAVE_STATIC_EPOCH if keeps_place else LEAVE_EPOCH)

    def _identified(self, epoch: MemberEpoch) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._member.group_id,
            member_id=self._member.member_id,
            member_epoch=epoch,
            instance_id=self._member.instance_id,
        )

    def _changed_regex(self, subscribed: SubscriptionFields) -> str | None:
        """The regular expression to send; None if the broker knows it. After a failure a removal is sent again, too."""
        if self._subscribed is not None and self._subscribed.regex == subscribed.regex:
            return None
        if subscribed.regex is None:
            return NO_REGEX if self._regex_was_sent else None
        self._regex_was_sent = True
        return subscribed.regex


class HeartbeatSchedule:
    """When the next heartbeat is due: one in flight at a time, at the interval the broker names, with back-off after
    failures. `number` is that of the newest heartbeat: answers to any other are ignored."""

    def __init__(self, backoff: Backoff) -> None:
        self.number = 0
        self._request = RequestState(backoff)
        self._interval_ms = DEFAULT_INTERVAL_MS
        self._sent_at_ms = 0.0
        self._next_at_ms = 0.0

    @property
    def in_flight(self) -> bool:
        return self._request.in_flight

    def due_ms(self, *, at_once: bool) -> float:
        return max(0.0 if at_once else self._next_at_ms, self._request.wake_at_ms)

    def sent(self, now_ms: float) -> None:
        self._request.sent()
        self._sent_at_ms, self._next_at_ms = now_ms, now_ms + self._interval_ms

    def answered(self, interval_ms: int) -> None:
        self._request.succeeded()
        if interval_ms > 0:  # a broker that says 0 would make this a spin
            self._interval_ms = min(float(interval_ms), MAX_INTERVAL_MS)
        self._next_at_ms = self._sent_at_ms + self._interval_ms

    def failed(self, now_ms: float) -> None:
        """Try again after the back-off."""
        self._request.failed(now_ms)
        self._next_at_ms = 0.0

    def heartbeat_now(self) -> None:
        """Do not wait for the interval."""
        self._next_at_ms = 0.0

    def give_up(self) -> None:
        """Ignore the answer to the heartbeat in flight; the back-off of earlier failures still counts."""
        self.number += 1
        self._request.cancelled()

    def reset(self) -> None:
        """Begin anew: ignore the answer to the heartbeat in flight, and forget the back-off."""
        self.number += 1
        self._request.reset()


class HeartbeatOutcome(Enum):
    """What an error code in the answer to a heartbeat means for the member."""

    FENCED = auto()
    """Its partitions are gone; it joins again."""
    COORDINATOR_MOVED = auto()
    RETRY = auto()
    RAISE = auto()
    """The user has to hear of it; the member stays, and asks again."""
    UNSUPPORTED = auto()
    REFUSED = auto()
    """The broker will not have this member with its present subscription."""


def heartbeat_outcome(code: ErrorCode, *, joining: bool) -> HeartbeatOutcome:
    """Sort an error; `joining` when the heartbeat was to make a member."""
    match code:
        case ErrorCode.FENCED_MEMBER_EPOCH | ErrorCode.UNKNOWN_MEMBER_ID:
            return HeartbeatOutcome.FENCED
        case ErrorCode.GROUP_ID_NOT_FOUND if not joining:
            # The group was deleted while its member slept (Java gives up here); joining creates it again. At a join the
            # same code says that the group is of another kind.
            return HeartbeatOutcome.FENCED
        case ErrorCode.NOT_COORDINATOR | ErrorCode.COORDINATOR_NOT_AVAILABLE:
            return HeartbeatOutcome.COORDINATOR_MOVED
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return HeartbeatOutcome.RAISE
        case ErrorCode.UNSUPPORTED_VERSION:
            # The API may be there and switched off: group.coordinator.rebalance.protocols, or group.version=0.
            return HeartbeatOutcome.UNSUPPORTED
        case _:
            return HeartbeatOutcome.RETRY if code.retriable else HeartbeatOutcome.REFUSED


def unsupported(error: KafkaError, *, uses_regex: bool) -> UnsupportedVersionError:
    """The same error, with advice on what to do."""
    advice = "set group_protocol='classic'"
    if uses_regex:
        advice = f"subscribe with re.compile(...) instead of SubscriptionPattern (Kafka 4.0), or {advice}"
    explained = UnsupportedVersionError(
        f"the broker does not serve the consumer protocol (KIP-848) as needed here: {advice}; it said: {error}"
    )
    explained.__cause__ = error
    return explained
