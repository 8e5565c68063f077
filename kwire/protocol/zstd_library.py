"""The library that inflates zstd: `zstandard`, whose decompressors are used again and again.

To make one takes ten times as long as to inflate the few hundred bytes that many batches hold. Contract: any thread may
call. Called by `compression.py`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from zstandard import ZstdDecompressor, ZstdError

if TYPE_CHECKING:
    from kwire.protocol.record_varints import Octets

__all__ = ["ZstdError", "inflate_zstd"]

_MAX_KEPT_BYTES = 8 * 1024 * 1024
# A decompressor keeps the memory that it needed for a frame. `pop` and `append` are atomic, so threads may share.
_spare: deque[ZstdDecompressor] = deque(maxlen=4)


def inflate_zstd(data: bytes | memoryview, room: Octets | memoryview) -> int:
    """Inflate whole frames, one behind the other, into the room; how much they have filled.

    Raises:
        ZstdError: They are damaged, or there is not room enough.
    """
    try:
        decompressor = _spare.pop()
    except IndexError:
        decompressor = ZstdDecompressor()
    reader = decompressor.stream_reader(data, read_across_frames=True)
    filled = reader.readinto(room)
    if filled == len(room) and reader.read(1):
        raise ZstdError(f"more than {filled} bytes")
    if filled <= _MAX_KEPT_BYTES:
        _spare.append(decompressor)
    return filled
