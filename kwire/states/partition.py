"""Where one assigned partition stands on its way to being fetched."""

from __future__ import annotations

from enum import Enum, auto

from kwire.states.machine import Row, Table


class PartitionState(Enum):
    INITIALIZING = auto()
    """Has no position. Waits for the committed offset of the group, or goes on without a group."""
    AWAIT_RESET = auto()
    """Has no usable position. Waits for ListOffsets to answer the reset policy."""
    FETCHING = auto()
    """Has a position. Records can flow."""


class PartitionEvent(Enum):
    COMMITTED_OFFSET_FOUND = auto()
    NO_COMMITTED_OFFSET = auto()
    RESET_WANTED = auto()
    RESET_DONE = auto()
    SEEK = auto()


class PartitionEffect(Enum):
    SET_POSITION = auto()
    DROP_BUFFERED = auto()
    LOOK_UP_RESET_OFFSET = auto()


S, E, F = PartitionState, PartitionEvent, PartitionEffect

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
    ],
    dropped={
        (S.AWAIT_RESET, E.COMMITTED_OFFSET_FOUND): "a reset was asked for while the committed offset was loading",
        (S.AWAIT_RESET, E.NO_COMMITTED_OFFSET): "a reset was asked for while the committed offset was loading",
        (S.FETCHING, E.COMMITTED_OFFSET_FOUND): "a seek overtook the load",
        (S.FETCHING, E.NO_COMMITTED_OFFSET): "a seek overtook the load",
        (S.FETCHING, E.RESET_DONE): "a seek overtook the lookup",
    },
    impossible={
        (S.INITIALIZING, E.RESET_DONE): "no lookup was started",
    },
)
