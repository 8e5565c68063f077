"""Follows the frames of one connection, to know which API an answer belongs to. Bytes in, bytes out; no sockets.

Only the fronts are looked at: of a request its length, API, version and correlation id, of an answer its length and
correlation id. While nothing is to be struck, bytes pass as they came. An answer that may be struck is held back until
it is whole. What is not Kafka's passes all the same: it only is never struck. Used by `link`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kwire.testing.faults.proxies.strikes import LENGTH_BYTES, Asked, Struck

if TYPE_CHECKING:
    from kwire.testing.faults.proxies.orders import ProxyOrders

REQUEST_FRONT_BYTES = 12  # length, API key, version, correlation id
ANSWER_FRONT_BYTES = 8  # length, correlation id


class _Frames:
    """Where frames begin and end, and the front of each."""

    def __init__(self, front_bytes: int) -> None:
        self._front_bytes = front_bytes
        self._front = bytearray()
        self._left_bytes = 0  # of a frame whose front has passed

    def advance(self, data: memoryview) -> tuple[int, bytes | None]:
        """How far the next step goes, at most to the end of a front or a frame; and the front, if it is complete."""
        if self._left_bytes:
            step = min(self._left_bytes, len(data))
            self._left_bytes -= step
            return step, None
        # A frame may be shorter than a front: then its length is all that is waited for.
        step = min(self._wanted_bytes() - len(self._front), len(data))
        self._front += data[:step]
        if len(self._front) < self._wanted_bytes():
            return step, None
        front = bytes(self._front)
        self._front.clear()
        self._left_bytes = max(0, LENGTH_BYTES + frame_length(front) - len(front))
        return step, front

    @property
    def is_inside_front(self) -> bool:
        """Whether a front has begun and is not complete."""
        return bool(self._front)

    def _wanted_bytes(self) -> int:
        if len(self._front) < LENGTH_BYTES:
            return LENGTH_BYTES
        whole_bytes = LENGTH_BYTES + max(0, frame_length(self._front))
        return min(self._front_bytes, whole_bytes)


def frame_length(front: bytes | bytearray) -> int:
    """What a frame says about its length; negative if it lies."""
    return int.from_bytes(front[:LENGTH_BYTES], signed=True)


class Requests:
    """What the client has asked, until the answer to it, or to a later request, has come."""

    def __init__(self) -> None:
        self._frames = _Frames(REQUEST_FRONT_BYTES)
        self._asked: dict[int, Asked] = {}

    def follow(self, data: memoryview) -> None:
        """Note the requests in bytes that pass."""
        while data:
            step, front = self._frames.advance(data)
            data = data[step:]
            if front is not None and len(front) == REQUEST_FRONT_BYTES:
                asked = Asked(int.from_bytes(front[4:6], signed=True), int.from_bytes(front[6:8], signed=True))
                self._asked[int.from_bytes(front[8:12], signed=True)] = asked

    def answered(self, correlation_id: int) -> Asked | None:
        """The request that this answers. Earlier ones, such as Produce with acks=0, get no answer."""
        if correlation_id not in self._asked:
            return None
        for earlier in tuple(self._asked):
            asked = self._asked.pop(earlier)
            if earlier == correlation_id:
                return asked
        return None


class Answers:
    """What the broker sends; struck where there are orders to."""

    def __init__(self, requests: Requests, orders: ProxyOrders) -> None:
        self._requests = requests
        self._orders = orders
        self._frames = _Frames(ANSWER_FRONT_BYTES)
        self._held = bytearray()
        self._asked: Asked | None = None
        self._awaited_bytes = 0  # the size of the answer that is held; 0: it passes
        self._front_has_passed = False  # in part: too late to strike what it begins

    def follow(self, data: memoryview) -> Iterator[memoryview | bytes | Struck]:
        """What is to be sent now: bytes as they came, or what became of an answer."""
        if not self._orders.has_strikes and not self._held:
            self._skim(data)
            yield data
            return
        while data:
            step, front = self._frames.advance(data)
            piece, data = data[:step], data[step:]
            if front is not None:
                self._begin(front)
            if self._is_holding:
                self._held += piece
                if len(self._held) == self._awaited_bytes:
                    yield self._strike()
            else:
                yield self.rest() + bytes(piece) if self._held else piece

    def rest(self) -> bytes:
        """What is held back, which then is no longer: the broker has hung up, or it may pass after all."""
        rest = bytes(self._held)
        self._held.clear()
        return rest

    def _skim(self, data: memoryview) -> None:
        while data:
            step, front = self._frames.advance(data)
            data = data[step:]
            if front is not None:
                self._requests.answered(correlation_id(front))
        self._front_has_passed = self._frames.is_inside_front

    def _begin(self, front: bytes) -> None:
        self._asked = self._requests.answered(correlation_id(front))
        is_wanted = not self._front_has_passed and self._orders.expects(self._asked)
        self._awaited_bytes = LENGTH_BYTES + frame_length(front) if is_wanted and len(front) > LENGTH_BYTES else 0
        self._front_has_passed = False

    @property
    def _is_holding(self) -> bool:
        if self._frames.is_inside_front:
            return not self._front_has_passed
        return self._awaited_bytes > 0

    def _strike(self) -> Struck:
        self._awaited_bytes = 0
        return self._orders.strike(self._asked, self.rest())


def correlation_id(front: bytes) -> int:
    """Of an answer. A frame that is too short to have one is nobody's."""
    return int.from_bytes(front[LENGTH_BYTES:ANSWER_FRONT_BYTES], signed=True)
