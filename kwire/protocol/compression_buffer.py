"""The memory that payloads are inflated into, one behind the other, so that many batches become one buffer.

It is used again and again: fresh memory has to be mapped page by page, which takes longer than inflating into it, and
what was just used still lies in the processor's cache. Contract: what `finish` answers stays as it is for as long as
anybody has it; what is kept beyond that is bounded. Called by
`compression.py`, `record_payloads.py` and `inflation_in_c.py`.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from kwire.interpreter_lock import is_free_threaded
from kwire.lazy_numpy import np
from kwire.speedups import room

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.protocol.record_batch import Buffer
    from kwire.protocol.record_varints import Octets

Room: TypeAlias = "memoryview | Octets"

# Enough for a portion of a fetch (see `fetching/open_fetch.py`) with a large batch at its end.
_MAX_KEPT_BYTES = 8 * 1024 * 1024
# What was used last, some of which others may still have. Taking and giving back are atomic, and each buffer has its
# memory to itself: consumers in several threads may share.
_kept: deque[bytearray] = deque(maxlen=4)


def _spare() -> bytearray | None:
    """Memory that nobody has any more; of several what was used last, which lies in the processor's cache."""
    found, in_use = None, []
    with suppress(IndexError):  # there is no more
        while not _is_free(found := _kept.pop()):
            in_use.append(found)
            found = None
    _kept.extend(reversed(in_use))
    return found


def _is_free(memory: bytearray) -> bool:
    """Its size cannot change while somebody has a view of it."""
    try:
        memory.append(memory.pop())
    except BufferError:
        return False
    return True


class InflationBuffer:
    """Grows as payloads come in; `finish` answers all of them as one stretch of bytes."""

    def __init__(self) -> None:
        self._memory = bytearray()
        self._used_bytes = 0

    def __len__(self) -> int:
        return self._used_bytes

    def take(self, inflate: Callable[[Room], int], bound_bytes: int) -> None:
        """Let `inflate` write into `bound_bytes` of room behind what is there, and tell how much it has written.

        When it raises, nothing is taken.
        """
        self.took(inflate(self.room(bound_bytes)))

    def room(self, bound_bytes: int) -> Room:
        """Room for `bound_bytes` behind what is there. It is not taken before `took` is called."""
        behind = self._used_bytes + bound_bytes
        if behind > len(self._memory):
            self._grow(behind)
        # Where the interpreter has no lock, cramjam does not write into a memoryview.
        whole = np.frombuffer(self._memory, dtype=np.uint8) if is_free_threaded() else memoryview(self._memory)
        return whole[self._used_bytes : behind]

    def took(self, size_bytes: int) -> None:
        """`size_bytes` have been written into the room that was asked for last."""
        self._used_bytes += size_bytes

    def finish(self) -> Buffer:
        """Everything taken. The buffer is empty then, and its memory free for the next one: at once, if little of it
        was used and a copy could be made of that; else when nobody has what was taken any more.

        Without the interpreter's lock it is always a copy: a `Processor`'s workers slice it at the same time, which is
        not safe with a memoryview.
        """
        memory, used = self._memory, memoryview(self._memory)[: self._used_bytes].toreadonly()
        self._memory = bytearray()
        self._used_bytes = 0
        is_copied = 2 * len(used) < len(memory) or is_free_threaded()
        taken = used.tobytes() if is_copied else used
        if 0 < len(memory) <= _MAX_KEPT_BYTES:
            _kept.append(memory)
        return taken

    def _grow(self, needed_bytes: int) -> None:
        spare = None if self._memory else _spare()
        if spare is not None and needed_bytes <= len(spare):
            self._memory = spare
            return
        # Doubling, so that what is copied along stays below what is inflated.
        larger = room(max(needed_bytes, 2 * self._used_bytes))
        larger[: self._used_bytes] = memoryview(self._memory)[: self._used_bytes]
        self._memory = larger
