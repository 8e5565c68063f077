"""Where one assigned partition stands on its way to being fetched."""

from __future__ import annotations

from enum import Enum, auto

from kwire.states.machine import Row, Table


class PartitionState(Enum):
    INITIALIZING = auto()
    """Has no position. Waits for the committed offset of the group, or goes on without a group."""
    AWAIT_RESET = auto()
    """Has no usable position. Waits for ListOffsets to answer the reset policy."""
    AWAIT_VALIDATION = auto()
    """Has a position. Waits for OffsetForLeaderEpoch to say that the leader's log has it, too (KIP-320)."""
    FETCHING = auto()
    """Has a position. Records can flow."""


class PartitionEvent(Enum):
    COMMITTED_OFFSET_FOUND = auto()
    NO_COMMITTED_OFFSET = auto()
    RESET_WANTED = auto()
    RESET_DONE = auto()
    SEEK = auto()
    VALIDATION_WANTED = auto()
    """The log may not be the one that the position was taken from."""
    VALIDATED = auto()
    TRUNCATED = auto()
    """The log was cut in front of the position; it goes on where the two are the same."""
    TRUNCATED_UNDECIDED = auto()
    """As TRUNCATED, but there is no reset policy: the user decides how to go on."""


class PartitionEffect(Enum):
    SET_POSITION = auto()
    DROP_BUFFERED = auto()
    LOOK_UP_RESET_OFFSET = auto()


S, E, F = PartitionState, PartitionEvent, PartitionEffect

# Why nothing is fetched in a state, as `Consumer.describe()` says it.
STATE_REASONS = {
    S.INITIALIZING: "its committed offset is looked up",
    S.AWAIT_RESET: "the offset to begin at is looked up",
    S.AWAIT_VALIDATION: "its leader is asked whether the log was truncated",
}

PARTITION: Table[PartitionState, PartitionEvent, PartitionEffect] = Table(
    "partition",
    S.INITIALIZING,
    [
        Row(S.INITIALIZING, E.COMMITTED_OFFSET_FOUND, S.FETCHING, (F.SET_POSITION,)),
        Row(S.INITIALIZING, E.NO_COMMITTED_OFFSET, S.AWAIT_RESET, (F.LOOK_UP_RESET_OFFSET,)),
        Row(S.INITIALIZING, E.RESET_WANTED, S.AWAIT_RESET, (F.LOOK_UP_RESET_OFFSET,), "seek_to_beginning or _end"),
        Row(S.INITIALIZING, E.SEEK, S.FETCHING, (F.SET_POSITION,), "a seek wins over the pending load"),
        Row(S.AWAIT_RESET, E.RESET_DONE, S.FETCHING, (F.SET_POSITION,)),
        Row(S.AWAIT_RESET, E.RESET_WANTED, S.AWAIT_RESET, (F.LOOK_UP_RESET_OFFSET,), "another policy: ask again"),
        Row(S.AWAIT_RESET, E.SEEK, S.FETCHING, (F.SET_POSITION,)),
        Row(
            S.FETCHING,
            E.RESET_WANTED,
            S.AWAIT_RESET,
            (F.DROP_BUFFERED, F.LOOK_UP_RESET_OFFSET),
            "offset out of range, or seek_to_beginning or _end",
        ),
        Row(S.FETCHING, E.SEEK, S.FETCHING, (F.DROP_BUFFERED, F.SET_POSITION)),
        Row(S.FETCHING, E.VALIDATION_WANTED, S.AWAIT_VALIDATION, (), "what is buffered is handed out meanwhile"),
        Row(S.AWAIT_VALIDATION, E.VALIDATION_WANTED, S.AWAIT_VALIDATION, (), "yet another leader: ask that one"),
        Row(S.AWAIT_VALIDATION, E.VALIDATED, S.FETCHING),
        Row(S.AWAIT_VALIDATION, E.TRUNCATED, S.FETCHING, (F.DROP_BUFFERED, F.SET_POSITION)),
        Row(S.AWAIT_VALIDATION, E.TRUNCATED_UNDECIDED, S.AWAIT_VALIDATION, (F.DROP_BUFFERED,)),
        Row(
            S.AWAIT_VALIDATION,
            E.RESET_WANTED,
            S.AWAIT_RESET,
            (F.DROP_BUFFERED, F.LOOK_UP_RESET_OFFSET),
            "the leader knows nothing of the position's epoch, or seek_to_beginning or _end",
        ),
        Row(S.AWAIT_VALIDATION, E.SEEK, S.FETCHING, (F.DROP_BUFFERED, F.SET_POSITION)),
    ],
    dropped={
        (S.AWAIT_RESET, E.COMMITTED_OFFSET_FOUND): "a reset was asked for while the committed offset was loading",
        (S.AWAIT_RESET, E.NO_COMMITTED_OFFSET): "a reset was asked for while the committed offset was loading",
        (S.AWAIT_VALIDATION, E.COMMITTED_OFFSET_FOUND): "a seek overtook the load",
        (S.AWAIT_VALIDATION, E.NO_COMMITTED_OFFSET): "a seek overtook the load",
        (S.AWAIT_VALIDATION, E.RESET_DONE): "a seek overtook the look-up",
        (S.FETCHING, E.COMMITTED_OFFSET_FOUND): "a seek overtook the load",
        (S.FETCHING, E.NO_COMMITTED_OFFSET): "a seek overtook the load",
        (S.FETCHING, E.RESET_DONE): "a seek overtook the look-up",
    },
    impossible={
        (S.INITIALIZING, E.RESET_DONE): "no look-up was started",
        **{(state, E.VALIDATION_WANTED): "there is no position" for state in (S.INITIALIZING, S.AWAIT_RESET)},
        **{
            (state, event): "an answer counts only while its question stands"
            for state in (S.INITIALIZING, S.AWAIT_RESET, S.FETCHING)
            for event in (E.VALIDATED, E.TRUNCATED, E.TRUNCATED_UNDECIDED)
        },
    },
)
