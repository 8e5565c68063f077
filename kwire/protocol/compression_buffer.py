"""The memory that payloads are inflated into, one behind the other, so that many batches become one buffer.

It is used again and again: fresh memory has to be mapped page by page, which takes longer than inflating into it, and
what was just used still lies in the processor's cache. Contract: what `finish` answers stays as it is for as long as
anybody has it; what is kept beyond that is bounded. Called by `compression.py` and `record_decoding.py`.
"""

from __future__ import annotations

import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from kwire.interpreter_lock import is_free_threaded

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.protocol.record_batch import Buffer
    from kwire.protocol.record_varints import Octets

# Enough for a portion of a fetch (see `fetching/open_fetch.py`) with a large batch at its end.
_MAX_KEPT_BYTES = 8 * 1024 * 1024
# Taking and giving back are atomic, and each buffer has its memory to itself: consumers in several threads may share.
_spare: deque[Octets] = deque(maxlen=2)


def _keep(memory: Octets) -> None:
    if len(memory) <= _MAX_KEPT_BYTES:
        _spare.append(memory)


class InflationBuffer:
    """Grows as payloads come in; `finish` answers all of them as one stretch of bytes."""

    def __init__(self) -> None:
        self._memory: Octets = np.empty(0, dtype=np.uint8)
        self._used_bytes = 0

    def __len__(self) -> int:
        return self._used_bytes

    def take(self, inflate: Callable[[Octets], int], bound_bytes: int) -> None:
        """Let `inflate` write into `bound_bytes` of room behind what is there, and tell how much it has written.

        When it raises, nothing is taken.
        """
        self.took(inflate(self.room(bound_bytes)))

    def room(self, bound_bytes: int) -> Octets:
        """Room for `bound_bytes` behind what is there. It is not taken before `took` is called.

        An array, and no memoryview: where the interpreter has no lock, cramjam does not write into one.
        """
        behind = self._used_bytes + bound_bytes
        if behind > len(self._memory):
            self._grow(behind)
        return self._memory[self._used_bytes : behind]

    def took(self, size_bytes: int) -> None:
        """`size_bytes` have been written into the room that was asked for last."""
        self._used_bytes += size_bytes

    def finish(self) -> Buffer:
        """Everything taken. The buffer is empty then, and its memory free for the next one: at once, if little of it
        was used and a copy could be made of that; else when nobody has what was taken any more.

        Without the interpreter's lock it is always a copy: a `Processor`'s workers slice it at the same time, which is
        not safe with a memoryview.
        """
        memory, used = self._memory, self._memory[: self._used_bytes]
        self._memory = np.empty(0, dtype=np.uint8)
        self._used_bytes = 0
        if 2 * len(used) < len(memory) or is_free_threaded():
            taken = used.tobytes()
            _keep(memory)
            return taken
        # Slices of `used.data` keep `used` alive, so the memory is not used again before. Slices of the array `used`
        # would keep `memory` alone alive.
        weakref.finalize(used, _keep, memory).atexit = False
        return used.data.toreadonly()

    def _grow(self, needed_bytes: int) -> None:
        if not len(self._memory) and _spare:
            with suppress(IndexError):  # another thread was sooner
                self._memory = _spare.pop()
            if needed_bytes <= len(self._memory):
                return
        # Doubling, so that what is copied along stays below what is inflated. Not a bytearray: it would be cleared.
        larger = np.empty(max(needed_bytes, 2 * self._used_bytes), dtype=np.uint8)
        larger[: self._used_bytes] = self._memory[: self._used_bytes]
        self._memory = larger
