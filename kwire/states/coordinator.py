"""The network thread's link to its group coordinator: the four states of the consumer threading refactor.

Membership does not live here: losing the link never means losing the group, it only means looking the broker up again.
"""

from __future__ import annotations

from enum import Enum, auto

from kwire.states.machine import Row, Table


class CoordinatorState(Enum):
    DOWN = auto()
    """Nobody needs a coordinator: no group id, or nothing asked yet. Waits for the first request for one."""
    INITIALIZED = auto()
    """A coordinator is needed and not known. Waits for the back-off to pass and the FindCoordinator to be sent."""
    DISCOVERING = auto()
    """Waits for the FindCoordinator answer."""
    STABLE = auto()
    """The coordinator is known. Waits for a sign that it is not, or not any more."""


class CoordinatorEvent(Enum):
    NEEDED = auto()
    LOOKUP_SENT = auto()
    FOUND = auto()
    LOOKUP_FAILED = auto()
    LOST = auto()
    CLOSED = auto()


class CoordinatorEffect(Enum):
    BACK_OFF = auto()
    FORGET_NODE = auto()


S, E, F = CoordinatorState, CoordinatorEvent, CoordinatorEffect

COORDINATOR: Table[CoordinatorState, CoordinatorEvent, CoordinatorEffect] = Table(
    "coordinator",
    S.DOWN,
    [
        Row(S.DOWN, E.NEEDED, S.INITIALIZED),
        Row(S.INITIALIZED, E.LOOKUP_SENT, S.DISCOVERING),
        Row(S.DISCOVERING, E.FOUND, S.STABLE),
        Row(S.DISCOVERING, E.LOOKUP_FAILED, S.INITIALIZED, (F.BACK_OFF,)),
        Row(S.STABLE, E.LOST, S.INITIALIZED, (F.FORGET_NODE,), "NOT_COORDINATOR, a disconnect or a timeout"),
        Row(S.INITIALIZED, E.CLOSED, S.DOWN),
        Row(S.DISCOVERING, E.CLOSED, S.DOWN),
        Row(S.STABLE, E.CLOSED, S.DOWN, (F.FORGET_NODE,)),
    ],
    dropped={
        (S.INITIALIZED, E.NEEDED): "already being looked for",
        (S.DISCOVERING, E.NEEDED): "already being looked for",
        (S.STABLE, E.NEEDED): "already known",
        (S.DOWN, E.FOUND): "the answer came after close",
        (S.DOWN, E.LOOKUP_FAILED): "the answer came after close",
        (S.DOWN, E.LOST): "a request to the former coordinator failed after close",
        (S.INITIALIZED, E.LOST): "a second request to the lost coordinator failed",
        (S.DISCOVERING, E.LOST): "a second request to the lost coordinator failed",
        (S.DOWN, E.CLOSED): "closed twice",
    },
    impossible={
        (S.DOWN, E.LOOKUP_SENT): "a lookup is only sent in INITIALIZED",
        (S.DISCOVERING, E.LOOKUP_SENT): "one lookup is in flight at a time",
        (S.STABLE, E.LOOKUP_SENT): "a lookup is only sent in INITIALIZED",
        (S.INITIALIZED, E.FOUND): "no lookup is in flight",
        (S.STABLE, E.FOUND): "no lookup is in flight",
        (S.INITIALIZED, E.LOOKUP_FAILED): "no lookup is in flight",
        (S.STABLE, E.LOOKUP_FAILED): "no lookup is in flight",
    },
)
