"""What a tampering proxy has been told and has not done yet, and what it has done so far.

Lives on the proxy's thread: `tampering` changes it, `frames` and `link` ask it whenever bytes come.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

import trio

from kwire.testing.faults.proxies.stream import Stream
from kwire.testing.faults.proxies.strikes import Asked, Struck, strike
from kwire.testing.faults.proxies.tamperings import (
    AnnounceLength,
    BlackHole,
    ChaosDialer,
    Condition,
    CutAnswer,
    DropFin,
    FlipBit,
    HalfOpen,
    HoldBack,
    Injector,
    Refuse,
    Tampering,
    UnknownCode,
)

NO_STREAM: frozenset[Stream] = frozenset()


@dataclass(slots=True)
class Counts:
    """What a tampering proxy has done since it started."""

    connections: int = 0
    open_connections: int = 0
    failed_dials: int = 0  # the broker could not be reached
    upstream_bytes: int = 0
    downstream_bytes: int = 0
    swallowed_bytes: int = 0
    flipped_bits: int = 0
    false_lengths: int = 0
    unknown_codes: int = 0
    cut_answers: int = 0
    ended_by_chaos: int = 0

    def add_passed(self, stream: Stream, size_bytes: int) -> None:
        """Bytes have been sent on."""
        if stream is Stream.UPSTREAM:
            self.upstream_bytes += size_bytes
        else:
            self.downstream_bytes += size_bytes


class Door(Enum):
    """What becomes of new connections."""

    OPEN = auto()
    REFUSING = auto()
    SILENT = auto()


@dataclass(slots=True, eq=False)
class _WaitingOrder:
    """A strike and how many answers it still counts down."""

    strike: Injector
    answers: int


class ProxyOrders:
    """Conditions and strikes of one proxy."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.held = self.swallowed = self.without_fin = NO_STREAM
        self.changed = trio.Event()
        self._conditions: list[Condition] = []
        self._waiting: list[_WaitingOrder] = []

    @property
    def active(self) -> tuple[Tampering, ...]:
        """What lasts, and what has not struck yet."""
        return (*self._conditions, *(each.strike for each in self._waiting))

    @property
    def door(self) -> Door:
        """To refuse is stronger than to be silent."""
        if any(isinstance(each, Refuse) for each in self._conditions):
            return Door.REFUSING
        return Door.SILENT if any(isinstance(each, BlackHole) for each in self._conditions) else Door.OPEN

    @property
    def chaos(self) -> tuple[ChaosDialer, ...]:
        """Who ends connections at random."""
        return tuple(each for each in self._conditions if isinstance(each, ChaosDialer))

    # --- changed by the proxy --------------------------------------------------------------------------------

    def give(self, tampering: Tampering) -> None:
        """From now on."""
        if isinstance(tampering, Injector):
            self._waiting.append(_WaitingOrder(tampering, tampering.nth))
        else:
            self._conditions.append(tampering)
        self._change()

    def lift(self, tampering: Tampering) -> None:
        """No longer; nothing happens if it is not there, such as a strike that has struck."""
        if isinstance(tampering, Injector):
            found = next((each for each in self._waiting if each.strike == tampering), None)
            self._waiting = [each for each in self._waiting if each is not found]
        elif tampering in self._conditions:
            self._conditions.remove(tampering)
        self._change()

    def clear(self) -> None:
        """Nothing any more."""
        self._conditions.clear()
        self._waiting.clear()
        self._change()

    def _change(self) -> None:
        self.held = self._streams(HoldBack)
        self.swallowed = self._streams(HalfOpen)
        self.without_fin = self.held | self.swallowed | self._streams(DropFin)
        self.changed.set()
        self.changed = trio.Event()

    def _streams(self, kind: type[HoldBack | HalfOpen | DropFin]) -> frozenset[Stream]:
        return NO_STREAM.union(*(each.streams for each in self._conditions if isinstance(each, kind)))

    # --- asked when bytes come -------------------------------------------------------------------------------

    @property
    def has_strikes(self) -> bool:
        """Whether answers have to be looked at."""
        return bool(self._waiting)

    def expects(self, asked: Asked | None) -> bool:
        """Whether a strike waits for the answer to this; None: to what is not known."""
        return any(_is_about(each.strike, asked) for each in self._waiting)

    def strike(self, asked: Asked | None, frame: bytes) -> Struck:
        """Count one answer, and carry out what is due."""
        struck = Struck(frame)
        for each in tuple(self._waiting):
            if not _is_about(each.strike, asked):
                continue
            outcome = strike(each.strike, struck.data, asked)
            if outcome is None:
                continue
            each.answers -= 1
            if each.answers == 0:
                self._waiting.remove(each)
                self._count(each.strike)
                struck = Struck(outcome.data, is_last=struck.is_last or outcome.is_last)
        return struck

    def _count(self, done: Injector) -> None:
        match done:
            case FlipBit():
                self.counts.flipped_bits += 1
            case AnnounceLength():
                self.counts.false_lengths += 1
            case CutAnswer():
                self.counts.cut_answers += 1
            case UnknownCode():
                self.counts.unknown_codes += 1
            case _:
                assert_never(done)


def _is_about(strike: Injector, asked: Asked | None) -> bool:
    return strike.api_key is None or (asked is not None and strike.api_key == asked.api_key)
