"""Payloads of snappy and lz4, inflated by the module in C: many in one call, or before somebody wants them.

Contract: what comes is what `compression.py` makes of each of them, up to the first that it says something about.
Called by `record_payloads.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire import speedups
from kwire.interpreter_lock import is_free_threaded
from kwire.processors import usable_processors
from kwire.protocol.compression import Codec
from kwire.protocol.compression_frames import NO_LZ4_FRAMES, lz4_frames_like

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from kwire.protocol.compression import Bytes
    from kwire.protocol.compression_buffer import InflationBuffer
    from kwire.protocol.compression_frames import Lz4Frames

# How much room many payloads take is not known before. Text and JSON inflate to two or three times as much.
_LIKELY_RATIO = 3
_LARGE_BATCH_BYTES = 1024 * 1024

PROCESSORS = usable_processors()
"""How many this process may use."""


class InflationInC:
    """Inflates payloads, and stored ones between them, behind what is in `target`, until there is enough.

    Args:
        frames: What lz4 frames begin with here.
        data: Holds the payloads.
        payloads: The codecs of all of them, then where each starts, then where each ends.
        limit_bytes: As for `decompress`.
        enough_bytes: Once `target` has this many, no further payload is inflated.
    """

    def __init__(
        self,
        module: ModuleType,
        frames: Lz4Frames,
        target: InflationBuffer,
        data: Bytes,
        payloads: memoryview,
        *,
        limit_bytes: int,
        enough_bytes: int,
    ) -> None:
        self._module = module
        self._frames = frames
        self._target = target
        self._data = data
        self._payloads = payloads
        self._limit_bytes = limit_bytes
        self._enough_bytes = enough_bytes
        _, starts, ends = _parts(payloads)
        self._likely_bytes = _LIKELY_RATIO * (sum(ends) - sum(starts))
        self._behind = memoryview(bytearray(starts.nbytes)).cast("q")
        self._count: Callable[[], int] | None = None

    def begin(self) -> None:
        """Have a thread inflate them that needs no interpreter. `places` waits for it."""
        self._likely_bytes = self._most_bytes  # it cannot ask for more
        self._count = self._module.InflationThread(*self._arguments(0, self._most_bytes)).wait

    def places(self) -> list[int]:
        """Where each payload that was inflated, now or by the thread, ends in `target`. If these are neither all nor
        enough, the next payload is of another kind or damaged: `decompress_into` says which."""
        places: list[int] = []
        room_bytes = self._likely_bytes
        while (done := len(places)) < len(self._behind) and len(self._target) < self._enough_bytes:
            before_bytes, most_bytes = len(self._target), self._most_bytes
            if count := self._inflate(done, min(room_bytes, most_bytes)):
                places += [place + before_bytes for place in self._behind[done : done + count]]
                self._target.took(places[-1] - before_bytes)
            elif room_bytes >= most_bytes:
                break
            room_bytes = most_bytes
        return places

    @property
    def _most_bytes(self) -> int:
        """More room than this is never needed."""
        return min(self._limit_bytes, self._enough_bytes - len(self._target) + _LARGE_BATCH_BYTES)

    def _inflate(self, done: int, room_bytes: int) -> int:
        """Inflate payloads behind those that are done, or wait for the thread that does so; how many."""
        wait, self._count = self._count, None
        count: int = self._module.inflate(*self._arguments(done, room_bytes)) if wait is None else wait()
        return count

    def _arguments(self, done: int, room_bytes: int) -> tuple[object, ...]:
        rest = b"".join(part[done:] for part in _parts(self._payloads)) if done else self._payloads
        room, left_bytes = self._target.room(room_bytes), self._enough_bytes - len(self._target)
        return self._data, rest, *self._frames, room, left_bytes, self._behind[done:]


def inflation_in_c(
    module: ModuleType,
    target: InflationBuffer,
    data: Bytes,
    payloads: memoryview,
    *,
    limit_bytes: int,
    enough_bytes: int,
) -> InflationInC | None:
    """What inflates the payloads; None if the module knows none of them. Arguments as above."""
    codecs, starts, _ = _parts(payloads)
    first_lz4 = next((nth for nth, codec in enumerate(codecs) if codec == Codec.LZ4), None)
    frames = None if first_lz4 is None else lz4_frames_like(data[starts[first_lz4] :])
    if not (frames or Codec.SNAPPY in codecs):
        return None
    frames = frames or NO_LZ4_FRAMES
    return InflationInC(module, frames, target, data, payloads, limit_bytes=limit_bytes, enough_bytes=enough_bytes)


def _parts(payloads: memoryview) -> tuple[memoryview, memoryview, memoryview]:
    """The codecs, the starts and the ends."""
    count = len(payloads) // 3
    return payloads[:count], payloads[count : 2 * count], payloads[2 * count :]


def can_begin(codec: int) -> bool:
    """Whether a thread can inflate payloads of this codec, and has a processor of its own: on the one that Python runs
    on it is in the way (measured: a fifth longer). Where the interpreter has no lock, `fetching/decode_ahead.py` does
    more."""
    is_in_c = speedups.module is not None and codec in {Codec.SNAPPY, Codec.LZ4}
    return is_in_c and PROCESSORS > 1 and not is_free_threaded()
