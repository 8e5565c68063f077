"""Membership in a group of the classic protocol, as the application thread and the network thread share it.

The two threads meet in REVOKING_PARTITIONS and ASSIGNING_PARTITIONS: there the network thread goes on heartbeating
and waits, without blocking, for the application thread to run the user's callback inside `poll()`. What must not be
forgotten meanwhile stands beside the state, in `Flags`. A membership that is lost during ASSIGNING_PARTITIONS is fired
again when the callback has run, so that every partition given out with `on_partitions_assigned` is also taken back.

Under the eager protocol a member owns nothing from REVOKING_PARTITIONS to ASSIGNING_PARTITIONS. Under the cooperative
one (KIP-429) it keeps what it has, and reads on, all the way: it joins with REJOIN_KEEPING, and gives up, after
SyncGroup, what the plan leaves out (SYNCED_GIVING_UP); then it takes what is new and joins once more, so that others
can have what it gave up. Which of two events it is, the manager decides before it fires.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from kwire.states.machine import Row, Table


class ClassicState(Enum):
    UNJOINED = auto()
    REVOKING_PARTITIONS = auto()
    PARTITIONS_REVOKED = auto()
    PREPARE_REBALANCE = auto()
    COMPLETING_REBALANCE = auto()
    ASSIGNING_PARTITIONS = auto()
    PARTITIONS_ASSIGNED = auto()
    STABLE = auto()


class ClassicEvent(Enum):
    JOIN_WANTED = auto()
    """There is a subscription, and the application polls."""
    REJOIN_NEEDED = auto()
    """The broker said REBALANCE_IN_PROGRESS, the subscription changed, or the leader saw its topics change; and there
    are partitions to give up before: all (eager), or those of topics no longer subscribed to (cooperative)."""
    REJOIN_KEEPING = auto()
    """As REJOIN_NEEDED, with nothing to give up (cooperative)."""
    RELEASED = auto()
    """The application thread has committed and run `on_partitions_revoked` or `on_partitions_lost`."""
    RELEASED_TO_ASSIGN = auto()
    """As RELEASED, for partitions that a plan takes which is still to be adopted (cooperative)."""
    JOIN_SENT = auto()
    JOINED_AS_LEADER = auto()
    JOINED_AS_FOLLOWER = auto()
    JOIN_FAILED = auto()
    """Try again after the back-off, or at once with the member id the broker gave."""
    SYNCED = auto()
    SYNCED_GIVING_UP = auto()
    """The plan leaves out partitions that this member has (cooperative)."""
    SYNC_FAILED = auto()
    REFUSED = auto()
    """The broker refused JoinGroup or SyncGroup for good; the error is raised by `poll()`, whose next call tries
    again."""
    ASSIGNED = auto()
    """The application thread has run `on_partitions_assigned`."""
    POSITIONS_KNOWN = auto()
    MEMBERSHIP_LOST = auto()
    """UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID, or the session ran out without an answer."""
    PARTITIONS_LOST = auto()
    """Partitions are left from a membership that is over (cooperative)."""
    POLL_OVERDUE = auto()
    """No poll for `max_poll_interval_ms` (KIP-62)."""
    LEAVE_WANTED = auto()
    """Unsubscribe or close; the application thread has already run the callback for what it owned."""


class ClassicEffect(Enum):
    STOP_FETCHING = auto()
    CALL_REVOKED = auto()
    CALL_LOST = auto()
    DROP_PARTITIONS = auto()
    ADOPT_ASSIGNMENT = auto()
    CALL_ASSIGNED = auto()
    START_FETCHING = auto()
    FORGET_MEMBER = auto()
    SEND_LEAVE = auto()


class GroupFacts(NamedTuple):
    """What the managers ask of a state."""

    waits_for: str
    heartbeats: bool = True
    """Whether a member sends Heartbeat requests here."""
    poll_timer: bool = True
    """Whether running past `max_poll_interval_ms` counts here."""
    is_idle: bool = False
    """Whether nothing is under way, neither a request nor a callback."""
    calls_back: bool = False
    """Whether a callback is running."""
    has_plan: bool = False
    """Whether the member has the plan of its generation: a rebalance that it hears of is the next one."""
    may_rejoin: bool = False
    """Whether the member can join again now; elsewhere `Flags.rejoin_wanted` remembers that it has to."""


@dataclass(slots=True)
class Flags:
    """What stands beside the state, and makes more precise events of what happens."""

    polled: bool = False
    """The application has polled since it left, stopped polling, or was told of an error: JOIN_WANTED may be fired."""
    rejoin_wanted: bool = False
    """A REJOIN_NEEDED came where no row takes it; it is fired again as soon as one does."""
    leaves_for_good: bool = False
    """The consumer is closed, and a static member gives its place up, too (KIP-1092)."""


S, E, F = ClassicState, ClassicEvent, ClassicEffect

FACTS: dict[ClassicState, GroupFacts] = {
    S.UNJOINED: GroupFacts("a subscription and a poll", heartbeats=False, poll_timer=False, is_idle=True),
    S.REVOKING_PARTITIONS: GroupFacts("the application thread to commit and run its callback", calls_back=True),
    S.PARTITIONS_REVOKED: GroupFacts("the coordinator and the back-off, to send JoinGroup", is_idle=True),
    # The broker holds the join until all members are in; the open request is the sign of life.
    S.PREPARE_REBALANCE: GroupFacts("the JoinGroup answer", heartbeats=False, poll_timer=False),
    S.COMPLETING_REBALANCE: GroupFacts("metadata, if it is the leader, and the SyncGroup answer"),
    S.ASSIGNING_PARTITIONS: GroupFacts("the application thread to run its callback", calls_back=True, has_plan=True),
    S.PARTITIONS_ASSIGNED: GroupFacts("positions of the new partitions", has_plan=True, may_rejoin=True),
    S.STABLE: GroupFacts("a timer, or the broker to ask for a rejoin", has_plan=True, may_rejoin=True),
}

_TAKE = (F.ADOPT_ASSIGNMENT, F.CALL_ASSIGNED)
_REVOKE = (F.STOP_FETCHING, F.CALL_REVOKED)
_LOSE = (F.STOP_FETCHING, F.CALL_LOST)
_GIVE_UP = (F.FORGET_MEMBER, *_LOSE)
_LEAVE = (F.SEND_LEAVE, F.FORGET_MEMBER, F.DROP_PARTITIONS)

_ROWS = [
    Row(S.UNJOINED, E.JOIN_WANTED, S.PARTITIONS_REVOKED, (), "owns nothing, so there is nothing to revoke"),
    Row(S.REVOKING_PARTITIONS, E.RELEASED, S.PARTITIONS_REVOKED, (F.DROP_PARTITIONS,)),
    Row(S.REVOKING_PARTITIONS, E.RELEASED_TO_ASSIGN, S.ASSIGNING_PARTITIONS, (F.DROP_PARTITIONS, *_TAKE)),
    Row(S.PARTITIONS_REVOKED, E.JOIN_SENT, S.PREPARE_REBALANCE),
    Row(S.PREPARE_REBALANCE, E.JOINED_AS_LEADER, S.COMPLETING_REBALANCE, (), "assigns, then syncs with the plan"),
    Row(S.PREPARE_REBALANCE, E.JOINED_AS_FOLLOWER, S.COMPLETING_REBALANCE, (), "syncs at once, without a plan"),
    Row(S.PREPARE_REBALANCE, E.JOIN_FAILED, S.PARTITIONS_REVOKED),
    Row(S.PREPARE_REBALANCE, E.REFUSED, S.UNJOINED, (F.FORGET_MEMBER,)),
    Row(S.COMPLETING_REBALANCE, E.SYNCED, S.ASSIGNING_PARTITIONS, _TAKE),
    Row(S.COMPLETING_REBALANCE, E.SYNCED_GIVING_UP, S.REVOKING_PARTITIONS, _REVOKE),
    Row(S.COMPLETING_REBALANCE, E.SYNC_FAILED, S.PARTITIONS_REVOKED),
    Row(S.COMPLETING_REBALANCE, E.REFUSED, S.UNJOINED, (F.FORGET_MEMBER,)),
    Row(S.ASSIGNING_PARTITIONS, E.ASSIGNED, S.PARTITIONS_ASSIGNED, (F.START_FETCHING,)),
    Row(S.PARTITIONS_ASSIGNED, E.POSITIONS_KNOWN, S.STABLE),
    # A rebalance: give back first, join after.
    Row(S.PARTITIONS_ASSIGNED, E.REJOIN_NEEDED, S.REVOKING_PARTITIONS, _REVOKE),
    Row(S.STABLE, E.REJOIN_NEEDED, S.REVOKING_PARTITIONS, _REVOKE),
    Row(S.PARTITIONS_REVOKED, E.REJOIN_NEEDED, S.REVOKING_PARTITIONS, _REVOKE, "unsubscribed from a topic meanwhile"),
    Row(S.PARTITIONS_ASSIGNED, E.REJOIN_KEEPING, S.PARTITIONS_REVOKED),
    Row(S.STABLE, E.REJOIN_KEEPING, S.PARTITIONS_REVOKED),
    # The broker has given the partitions away.
    Row(S.REVOKING_PARTITIONS, E.MEMBERSHIP_LOST, S.REVOKING_PARTITIONS, (F.FORGET_MEMBER,), "callback is running"),
    Row(S.PARTITIONS_REVOKED, E.MEMBERSHIP_LOST, S.PARTITIONS_REVOKED, (F.FORGET_MEMBER,), "join as a new member"),
    Row(S.PREPARE_REBALANCE, E.MEMBERSHIP_LOST, S.PARTITIONS_REVOKED, (F.FORGET_MEMBER,)),
    Row(S.COMPLETING_REBALANCE, E.MEMBERSHIP_LOST, S.PARTITIONS_REVOKED, (F.FORGET_MEMBER,)),
    Row(S.ASSIGNING_PARTITIONS, E.MEMBERSHIP_LOST, S.ASSIGNING_PARTITIONS, (F.FORGET_MEMBER,), "fired again after it"),
    Row(S.PARTITIONS_ASSIGNED, E.MEMBERSHIP_LOST, S.REVOKING_PARTITIONS, _GIVE_UP),
    Row(S.STABLE, E.MEMBERSHIP_LOST, S.REVOKING_PARTITIONS, _GIVE_UP),
    Row(S.PARTITIONS_REVOKED, E.PARTITIONS_LOST, S.REVOKING_PARTITIONS, _LOSE),
    Row(S.UNJOINED, E.PARTITIONS_LOST, S.REVOKING_PARTITIONS, _LOSE),
    # The application has stopped polling: others shall have its partitions.
    Row(S.REVOKING_PARTITIONS, E.POLL_OVERDUE, S.REVOKING_PARTITIONS, (F.SEND_LEAVE, F.FORGET_MEMBER)),
    Row(S.PARTITIONS_REVOKED, E.POLL_OVERDUE, S.UNJOINED, (F.SEND_LEAVE, F.FORGET_MEMBER), "rejoin with a poll"),
    Row(S.COMPLETING_REBALANCE, E.POLL_OVERDUE, S.UNJOINED, (F.SEND_LEAVE, F.FORGET_MEMBER), "rejoin with a poll"),
    Row(S.ASSIGNING_PARTITIONS, E.POLL_OVERDUE, S.ASSIGNING_PARTITIONS, (F.SEND_LEAVE, F.FORGET_MEMBER)),
    Row(S.PARTITIONS_ASSIGNED, E.POLL_OVERDUE, S.REVOKING_PARTITIONS, (F.SEND_LEAVE, *_GIVE_UP)),
    Row(S.STABLE, E.POLL_OVERDUE, S.REVOKING_PARTITIONS, (F.SEND_LEAVE, *_GIVE_UP), "lost at the next poll"),
    *(Row(state, E.LEAVE_WANTED, S.UNJOINED, _LEAVE) for state in S if state is not S.UNJOINED),
]

_OWNING = (S.PARTITIONS_ASSIGNED, S.STABLE)
_IN_FLIGHT = (S.PREPARE_REBALANCE, S.COMPLETING_REBALANCE)
_DROPPED = {
    (S.UNJOINED, E.MEMBERSHIP_LOST): "a heartbeat or commit answer that came after leaving",
    (S.UNJOINED, E.POLL_OVERDUE): "not a member",
    (S.UNJOINED, E.LEAVE_WANTED): "nothing to leave",
    (S.PREPARE_REBALANCE, E.POLL_OVERDUE): "the timer is looked at again when the join is answered",
    (S.STABLE, E.POSITIONS_KNOWN): "a seek or reset during STABLE has found its position",
}
_ONLY = {
    # An answer, or a callback's end, carries the attempt it belongs to; those of older attempts never become events.
    E.JOIN_WANTED: ((S.UNJOINED,), "fired in UNJOINED only"),
    E.REJOIN_NEEDED: ((*_OWNING, S.PARTITIONS_REVOKED), "remembered in rejoin_wanted until a row takes it"),
    E.REJOIN_KEEPING: (_OWNING, "remembered in rejoin_wanted until a row takes it"),
    E.RELEASED: ((S.REVOKING_PARTITIONS,), "no release was asked for in this attempt"),
    E.RELEASED_TO_ASSIGN: ((S.REVOKING_PARTITIONS,), "no release was asked for in this attempt"),
    E.JOIN_SENT: ((S.PARTITIONS_REVOKED,), "JoinGroup is only sent once everything is revoked"),
    E.JOINED_AS_LEADER: ((S.PREPARE_REBALANCE,), "no JoinGroup is in flight in this attempt"),
    E.JOINED_AS_FOLLOWER: ((S.PREPARE_REBALANCE,), "no JoinGroup is in flight in this attempt"),
    E.JOIN_FAILED: ((S.PREPARE_REBALANCE,), "no JoinGroup is in flight in this attempt"),
    E.SYNCED: ((S.COMPLETING_REBALANCE,), "no SyncGroup is in flight in this attempt"),
    E.SYNCED_GIVING_UP: ((S.COMPLETING_REBALANCE,), "no SyncGroup is in flight in this attempt"),
    E.SYNC_FAILED: ((S.COMPLETING_REBALANCE,), "no SyncGroup is in flight in this attempt"),
    E.REFUSED: (_IN_FLIGHT, "neither JoinGroup nor SyncGroup is in flight in this attempt"),
    E.ASSIGNED: ((S.ASSIGNING_PARTITIONS,), "no assigned callback was asked for in this attempt"),
    E.PARTITIONS_LOST: ((S.UNJOINED, S.PARTITIONS_REVOKED), "fired where nothing is under way only"),
    E.POSITIONS_KNOWN: (_OWNING, "no partitions are owned"),
}

CLASSIC_GROUP: Table[ClassicState, ClassicEvent, ClassicEffect] = Table(
    "classic group",
    S.UNJOINED,
    _ROWS,
    dropped=_DROPPED,
    impossible={(state, event): why for event, (states, why) in _ONLY.items() for state in set(S) - set(states)},
)
