"""Membership in a group of the consumer protocol (KIP-848): the broker assigns, each member follows at its own pace.

The states are those of the Java client's MemberState, and so are the pairs of states between which there is a row, but
for three that cannot come about here (see `_IMPOSSIBLE`).
Three facts stay out of the automaton and are held by the manager: whether the application polled, whether a leave is
due to an overdue poll (OVERDUE), and which callbacks the application thread still owes. Each picks a more precise
event before it is fired. FATAL has no way out: a new subscription begins with a new machine.

Unlike in Java, the application thread has run its callback before a leave reaches the network thread, so
PREPARE_LEAVING is passed through at once. A target that comes while another one is being reconciled replaces it.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from kwire.states.machine import Row, Table


class MemberState(Enum):
    UNSUBSCRIBED = auto()
    JOINING = auto()
    RECONCILING = auto()
    ACKNOWLEDGING = auto()
    STABLE = auto()
    FENCED = auto()
    PREPARE_LEAVING = auto()
    LEAVING = auto()
    STALE = auto()
    FATAL = auto()


class MemberEvent(Enum):
    SUBSCRIBED = auto()
    """There is a subscription, and the application polls."""
    JOINED_EMPTY = auto()
    """The broker took the member in and said nothing of an assignment."""
    TARGET_RECEIVED = auto()
    """The broker sent a target assignment that differs from what is owned, or the first one of this membership."""
    RECONCILED = auto()
    """The application thread has run `on_partitions_assigned`: what is owned follows the target as far as it can."""
    NOTHING_TO_RECONCILE = auto()
    """The newest target is what the member owns anyway."""
    ACK_SENT = auto()
    """A heartbeat that names the owned partitions is on its way."""
    ACK_SENT_MORE_TO_DO = auto()
    """As ACK_SENT, and there is a newer target, or a part of this one whose topics are not known yet."""
    RELEASED = auto()
    """No callback is owed any more, and the member goes on."""
    RELEASED_UNSUBSCRIBED = auto()
    """No callback is owed any more, and there is nothing to go on with: unsubscribed, or never heard of by a broker."""
    LEAVE_SENT = auto()
    LEAVE_SENT_OVERDUE = auto()
    """A leave is on its way because the application stopped polling (KIP-62)."""
    POLLED_AGAIN = auto()
    """The application is back, and has been told what it lost."""
    LEAVE_WANTED = auto()
    """Unsubscribe, close, or no poll for `max_poll_interval_ms`."""
    FENCED_BY_BROKER = auto()
    """FENCED_MEMBER_EPOCH or UNKNOWN_MEMBER_ID: the partitions have been given away."""
    FATAL_ERROR = auto()
    """The broker refused the member for good; each `poll()` raises the error."""


class MemberEffect(Enum):
    START_JOINING = auto()
    FORGET_MEMBER = auto()
    IGNORE_ANSWERS = auto()
    """Heartbeats that are still on their way belong to a membership that is over."""
    STOP_FETCHING = auto()
    CALL_LOST = auto()
    DROP_PARTITIONS = auto()


class MemberStateFacts(NamedTuple):
    """What the manager asks of a state."""

    waits_for: str
    heartbeats: bool = False
    at_once: bool = False
    """Whether the next heartbeat is due now, whatever the interval says."""
    takes_target: bool = False
    """Whether the broker counts it as a member, so that an answer's epoch and assignment are meant for it."""
    poll_timer: bool = False
    """Whether running past `max_poll_interval_ms` counts here."""


S, E, F = MemberState, MemberEvent, MemberEffect

FACTS: dict[MemberState, MemberStateFacts] = {
    S.UNSUBSCRIBED: MemberStateFacts("a subscription and a poll"),
    S.JOINING: MemberStateFacts(
        "the answer to a heartbeat of epoch 0", True, at_once=True, takes_target=True, poll_timer=True
    ),
    S.RECONCILING: MemberStateFacts("callbacks, and the names of topics", True, takes_target=True, poll_timer=True),
    S.ACKNOWLEDGING: MemberStateFacts("a heartbeat to be sent", True, at_once=True, takes_target=True, poll_timer=True),
    S.STABLE: MemberStateFacts("a timer, or a new target", True, takes_target=True, poll_timer=True),
    S.FENCED: MemberStateFacts("the application thread to run on_partitions_lost"),
    S.PREPARE_LEAVING: MemberStateFacts("nothing: passed through at once"),
    S.LEAVING: MemberStateFacts("the coordinator, to send the leave", True, at_once=True),
    S.STALE: MemberStateFacts("the application to poll again"),
    S.FATAL: MemberStateFacts("another subscription"),
}

_MEMBER = (S.JOINING, S.RECONCILING, S.ACKNOWLEDGING, S.STABLE)
_ON_THE_WAY_OUT = (S.PREPARE_LEAVING, S.LEAVING)
_LOSE = (F.FORGET_MEMBER, F.IGNORE_ANSWERS, F.STOP_FETCHING, F.CALL_LOST)
_END = (*_LOSE, F.DROP_PARTITIONS)
_JOIN_ANEW = (F.DROP_PARTITIONS, F.START_JOINING)

_ROWS = [
    Row(S.UNSUBSCRIBED, E.SUBSCRIBED, S.JOINING, (F.START_JOINING,)),
    Row(S.JOINING, E.JOINED_EMPTY, S.STABLE),
    Row(S.JOINING, E.TARGET_RECEIVED, S.RECONCILING),
    Row(S.STABLE, E.TARGET_RECEIVED, S.RECONCILING),
    Row(S.RECONCILING, E.TARGET_RECEIVED, S.RECONCILING, (), "the newest target is what counts"),
    Row(S.RECONCILING, E.RECONCILED, S.ACKNOWLEDGING),
    Row(S.RECONCILING, E.NOTHING_TO_RECONCILE, S.STABLE),
    Row(S.ACKNOWLEDGING, E.ACK_SENT, S.STABLE, (), "lost on the way, the next heartbeat says it all again"),
    Row(S.ACKNOWLEDGING, E.ACK_SENT_MORE_TO_DO, S.RECONCILING),
    Row(S.FENCED, E.RELEASED, S.JOINING, _JOIN_ANEW, "as the same member, at epoch 0"),
    Row(S.FENCED, E.RELEASED_UNSUBSCRIBED, S.UNSUBSCRIBED, (F.DROP_PARTITIONS,)),
    Row(S.PREPARE_LEAVING, E.RELEASED, S.LEAVING, (F.FORGET_MEMBER,)),
    Row(S.PREPARE_LEAVING, E.RELEASED_UNSUBSCRIBED, S.UNSUBSCRIBED, (F.FORGET_MEMBER,), "no broker knows of it"),
    Row(S.LEAVING, E.LEAVE_SENT, S.UNSUBSCRIBED, (F.DROP_PARTITIONS,)),
    Row(S.LEAVING, E.LEAVE_SENT_OVERDUE, S.STALE, (F.CALL_LOST,), "the callback runs at the next poll"),
    Row(S.STALE, E.POLLED_AGAIN, S.JOINING, _JOIN_ANEW),
    Row(S.UNSUBSCRIBED, E.LEAVE_WANTED, S.PREPARE_LEAVING, (), "nothing to leave: back at once"),
    *(Row(state, E.LEAVE_WANTED, S.PREPARE_LEAVING, (F.STOP_FETCHING,)) for state in _MEMBER),
    *(Row(state, E.FENCED_BY_BROKER, S.FENCED, _LOSE) for state in (*_MEMBER, S.LEAVING)),
    *(Row(state, E.FATAL_ERROR, S.FATAL, _END) for state in (*_MEMBER, S.LEAVING)),
]

_OUT = (S.UNSUBSCRIBED, S.FENCED, S.STALE, S.FATAL)
_DROPPED = {
    (S.ACKNOWLEDGING, E.TARGET_RECEIVED): "remembered as the newest target: ACK_SENT_MORE_TO_DO follows",
    **{(state, E.TARGET_RECEIVED): "meant for a membership that has ended" for state in (*_OUT, *_ON_THE_WAY_OUT)},
    **{(state, E.FENCED_BY_BROKER): "no member any more" for state in _OUT},
    **{(state, E.FATAL_ERROR): "the answer to a membership that has ended" for state in (S.FENCED, S.STALE, S.FATAL)},
    (S.STALE, E.LEAVE_WANTED): "has left already; without a subscription no poll brings it back",
    (S.LEAVING, E.LEAVE_WANTED): "is leaving",
}
_ONLY = {
    E.SUBSCRIBED: ((S.UNSUBSCRIBED,), "fired in UNSUBSCRIBED only; changes of a subscription go with a heartbeat"),
    E.JOINED_EMPTY: ((S.JOINING,), "no join is being answered"),
    E.RECONCILED: ((S.RECONCILING,), "no assigned callback of this membership is owed"),
    E.NOTHING_TO_RECONCILE: ((S.RECONCILING,), "there is no target to follow"),
    E.ACK_SENT: ((S.ACKNOWLEDGING,), "there is nothing to acknowledge"),
    E.ACK_SENT_MORE_TO_DO: ((S.ACKNOWLEDGING,), "there is nothing to acknowledge"),
    E.RELEASED: ((S.FENCED, S.PREPARE_LEAVING), "nothing waits for callbacks to end"),
    E.RELEASED_UNSUBSCRIBED: ((S.FENCED, S.PREPARE_LEAVING), "nothing waits for callbacks to end"),
    E.LEAVE_SENT: ((S.LEAVING,), "no leave is to be sent"),
    E.LEAVE_SENT_OVERDUE: ((S.LEAVING,), "no leave is to be sent"),
    E.POLLED_AGAIN: ((S.STALE,), "the polls never were overdue"),
}
_IMPOSSIBLE = {
    **{(state, event): why for event, (states, why) in _ONLY.items() for state in set(S) - set(states)},
    (S.FENCED, E.LEAVE_WANTED): "fired as RELEASED_UNSUBSCRIBED: it has left already",
    (S.PREPARE_LEAVING, E.LEAVE_WANTED): "passed through at once",
    # The reference has moves for these three. Here nothing is under way that could bring them about.
    (S.PREPARE_LEAVING, E.FENCED_BY_BROKER): "passed through at once",
    (S.PREPARE_LEAVING, E.FATAL_ERROR): "passed through at once",
    (S.UNSUBSCRIBED, E.FATAL_ERROR): "nothing was sent that could be refused",
    (S.FATAL, E.LEAVE_WANTED): "a new machine takes over",
}

CONSUMER_GROUP: Table[MemberState, MemberEvent, MemberEffect] = Table(
    "consumer group", S.UNSUBSCRIBED, _ROWS, dropped=_DROPPED, impossible=_IMPOSSIBLE
)
