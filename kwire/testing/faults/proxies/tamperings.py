"""What a tampering proxy can be told to do, as values: conditions that last until they are lifted, and single strikes.

A strike waits for the n-th answer of an API, counted over all connections from the moment it was ordered, and is over
when it has struck. Given by the harness to `tampering.TamperingProxy`, carried out by `link` and `strikes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from kwire.errors import InvalidArgumentError
from kwire.testing.faults.proxies.stream import BOTH_STREAMS, Stream

# --- conditions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HoldBack:
    """Nothing passes, and nothing is lost: what was sent arrives when this is lifted, ends of connections as well.

    So TCP lives through a network that was parted for a while.
    """

    streams: frozenset[Stream] = BOTH_STREAMS


@dataclass(frozen=True, slots=True)
class HalfOpen:
    """Everything is swallowed, the end of a connection as well, and the sockets stay open.

    A connection that has lost bytes is broken off when this is lifted: what would follow makes no sense any more.
    """

    streams: frozenset[Stream] = BOTH_STREAMS


@dataclass(frozen=True, slots=True)
class DropFin:
    """Bytes pass, but neither side hears that the other has hung up, until this is lifted."""

    streams: frozenset[Stream] = BOTH_STREAMS


@dataclass(frozen=True, slots=True)
class Refuse:
    """New connections are refused, as by a machine on which nobody listens; others go on."""


@dataclass(frozen=True, slots=True)
class BlackHole:
    """A client that connects hears nothing at all, as from an address that is not there; other connections go on.

    On Linux the handshake itself stays unanswered. Elsewhere it may succeed, and nothing comes after it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosDialer:
    """Every connection, old or new, ends after a random time.

    Raises:
        InvalidArgumentError: The times are negative, or the wrong way round.
    """

    shortest_ms: float = 500.0
    longest_ms: float = 1500.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.shortest_ms <= self.longest_ms:
            raise InvalidArgumentError(f"from {self.shortest_ms:g} to {self.longest_ms:g} ms is no span of time")


# --- strikes ------------------------------------------------------------------------------------------------------


class BitPlace(Enum):
    """Where in an answer a bit is flipped. All but HEADER wait for an answer with a record batch (magic 2)."""

    HEADER = "header"  # the answer's correlation id
    BATCH_HEADER = "batch-header"  # what a batch's checksum covers in front of the records
    CRC = "crc"  # the checksum itself
    PAYLOAD = "payload"  # the records, compressed or not


@dataclass(frozen=True, slots=True, kw_only=True)
class _Strike:
    api_key: int | None = None
    """Answers of this API count; None: all do."""
    nth: int = 1

    def __post_init__(self) -> None:
        if self.nth < 1:
            raise InvalidArgumentError(f"the first answer is number 1; there is no number {self.nth}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipBit(_Strike):
    """One bit of an answer is the other way round; which one of its place, the seed decides."""

    place: BitPlace
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnounceLength(_Strike):
    """An answer says that it has another length: 0, negative, or far too much. Its bytes follow as they are.

    Raises:
        InvalidArgumentError: It is not an int32.
    """

    length_bytes: int

    def __post_init__(self) -> None:
        _Strike.__post_init__(self)
        if not -(1 << 31) <= self.length_bytes < 1 << 31:
            raise InvalidArgumentError(f"a frame's length is an int32, not {self.length_bytes}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CutAnswer(_Strike):
    """The connection ends after this many bytes of an answer, its length included."""

    after_bytes: int

    def __post_init__(self) -> None:
        _Strike.__post_init__(self)
        if self.after_bytes < 0:
            raise InvalidArgumentError(f"an answer cannot be cut after {self.after_bytes} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownCode(_Strike):
    """Wherever an answer says how it went, it says an error that nobody knows."""


Condition: TypeAlias = HoldBack | HalfOpen | DropFin | Refuse | BlackHole | ChaosDialer
Injector: TypeAlias = FlipBit | AnnounceLength | CutAnswer | UnknownCode
Tampering: TypeAlias = Condition | Injector
