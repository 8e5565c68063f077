"""Telemetry (KIP-714): what a broker is asked, and told, about this client's metrics.

The states are those of the Java client's ClientTelemetryState, but for TERMINATING_PUSH_NEEDED: there it waits for
another thread; here the last push goes out at once. Whether it is time to ask or to push stays out of the automaton,
and comes as DUE. Each question is an attempt; an answer to an older one never becomes an event.
"""

from __future__ import annotations

from enum import Enum, auto

from kwire.states.machine import Row, Table


class TelemetryState(Enum):
    SUBSCRIPTION_NEEDED = auto()
    """Waits until it may ask what is wanted."""
    SUBSCRIPTION_IN_PROGRESS = auto()
    """Waits for the answer."""
    PUSH_NEEDED = auto()
    """Waits until the interval is over."""
    PUSH_IN_PROGRESS = auto()
    """Waits for the broker to take the metrics."""
    TERMINATING_PUSH_IN_PROGRESS = auto()
    """The consumer is being closed. Waits for the broker to take the last metrics."""
    TERMINATED = auto()
    """Nothing is asked or told any more."""


class TelemetryEvent(Enum):
    DUE = auto()
    """It is time to ask or push, and there is a broker."""
    SUBSCRIBED = auto()
    """The broker wants metrics."""
    NOTHING_WANTED = auto()
    """The broker wants no metrics; it may want some later."""
    PUSHED = auto()
    """The broker has taken the metrics."""
    ASK_AGAIN = auto()
    """The broker has not taken them, or gave no answer: it has to be asked again what it wants."""
    REFUSED = auto()
    """The broker does not want to hear of this client any more."""
    CLOSE_WANTED = auto()


class TelemetryEffect(Enum):
    ASK = auto()
    PUSH = auto()
    PUSH_THE_LAST = auto()


S, E, F = TelemetryState, TelemetryEvent, TelemetryEffect
_ANSWERS = (E.SUBSCRIBED, E.NOTHING_WANTED, E.PUSHED, E.ASK_AGAIN, E.REFUSED)

TELEMETRY: Table[TelemetryState, TelemetryEvent, TelemetryEffect] = Table(
    "telemetry",
    S.SUBSCRIPTION_NEEDED,
    [
        Row(S.SUBSCRIPTION_NEEDED, E.DUE, S.SUBSCRIPTION_IN_PROGRESS, (F.ASK,)),
        Row(S.SUBSCRIPTION_NEEDED, E.CLOSE_WANTED, S.TERMINATED, (), "nobody has asked for anything"),
        Row(S.SUBSCRIPTION_IN_PROGRESS, E.SUBSCRIBED, S.PUSH_NEEDED),
        Row(S.SUBSCRIPTION_IN_PROGRESS, E.NOTHING_WANTED, S.SUBSCRIPTION_NEEDED),
        Row(S.SUBSCRIPTION_IN_PROGRESS, E.ASK_AGAIN, S.SUBSCRIPTION_NEEDED),
        Row(S.SUBSCRIPTION_IN_PROGRESS, E.REFUSED, S.TERMINATED),
        Row(S.SUBSCRIPTION_IN_PROGRESS, E.CLOSE_WANTED, S.TERMINATED, (), "what is wanted is not known (any more)"),
        Row(S.PUSH_NEEDED, E.DUE, S.PUSH_IN_PROGRESS, (F.PUSH,)),
        Row(S.PUSH_NEEDED, E.CLOSE_WANTED, S.TERMINATING_PUSH_IN_PROGRESS, (F.PUSH_THE_LAST,)),
        Row(S.PUSH_IN_PROGRESS, E.PUSHED, S.PUSH_NEEDED),
        Row(S.PUSH_IN_PROGRESS, E.ASK_AGAIN, S.SUBSCRIPTION_NEEDED),
        Row(S.PUSH_IN_PROGRESS, E.REFUSED, S.TERMINATED),
        Row(S.PUSH_IN_PROGRESS, E.CLOSE_WANTED, S.TERMINATING_PUSH_IN_PROGRESS, (F.PUSH_THE_LAST,)),
        *(
            Row(S.TERMINATING_PUSH_IN_PROGRESS, event, S.TERMINATED, (), "taken or not, it was the last")
            for event in (E.PUSHED, E.ASK_AGAIN, E.REFUSED)
        ),
    ],
    dropped={
        (S.TERMINATING_PUSH_IN_PROGRESS, E.CLOSE_WANTED): "it is being closed",
        (S.TERMINATED, E.CLOSE_WANTED): "nothing is left to be said",
    },
    impossible={
        **{
            (state, E.DUE): "nothing is due while an answer is, or at the end"
            for state in (
                S.SUBSCRIPTION_IN_PROGRESS,
                S.PUSH_IN_PROGRESS,
                S.TERMINATING_PUSH_IN_PROGRESS,
                S.TERMINATED,
            )
        },
        **{
            (state, event): "an answer counts only while its question stands"
            for state in (S.SUBSCRIPTION_NEEDED, S.PUSH_NEEDED, S.TERMINATED)
            for event in _ANSWERS
        },
        (S.SUBSCRIPTION_IN_PROGRESS, E.PUSHED): "nothing was pushed",
        **{
            (state, event): "nobody was asked what is wanted"
            for state in (S.PUSH_IN_PROGRESS, S.TERMINATING_PUSH_IN_PROGRESS)
            for event in (E.SUBSCRIBED, E.NOTHING_WANTED)
        },
    },
)
