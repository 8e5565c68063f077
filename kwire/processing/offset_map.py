"""What is finished beyond a committed offset, as text in the commit's metadata.

Records that are worked on side by side finish out of order, while a commit names one offset: everything in front of it
is done. The map says what is done behind it, so that after a crash only what was really unfinished runs again. Brokers
bound the metadata to 4,096 characters (`offset.metadata.max.bytes`, which they count in characters); what does not fit
is left out from the far end, and runs again after a crash.

A map is valid only for the topic id and the commit it names, and up to its leader epoch. It names the commit's offset
because metadata may go on to another commit, as that of a consumer that catches up with a lag does.
"""

from __future__ import annotations

import zlib
from base64 import b85decode, b85encode
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple
from uuid import UUID

from kwire.commit_metadata import MAP_PREFIX
from kwire.errors import InvalidArgumentError
from kwire.model import MAX_OFFSET
from kwire.offset_set import OffsetSet
from kwire.processing.offset_codings import CODERS, Coding, Runs, shortest

LIMIT_CHARS = 4096
_NEARLY_ALL = 0.99
_CRC_BYTES = 4
_UUID_BYTES = 16
_EPOCH_BYTES = 4
_BASE_BYTES = 8
_NO_EPOCH = 0xFFFFFFFF


class OffsetMap(NamedTuple):
    """Which offsets are finished: ranges in order that do not touch, all behind the committed offset."""

    topic_id: UUID
    leader_epoch: int | None
    finished: tuple[range, ...]


def is_offset_map(metadata: str) -> bool:
    """Whether a commit's metadata claims to be a map; else it is somebody's own, and to be left alone."""
    return metadata.startswith(MAP_PREFIX)


def encode(base: int, known: OffsetMap, *, limit_chars: int = LIMIT_CHARS) -> str:
    """The map as metadata for a commit of `base`; "" when there is nothing to say, or no room to say it.

    Raises:
        InvalidArgumentError: Ranges that touch, are empty, out of order, or do not lie behind `base`.
    """
    runs = _runs(base, known.finished)
    # Most often all of it fits. Else a part from the base on, as long as it may be but for the last per cent: what a
    # part takes is nearly in proportion to how much of it there is.
    text, fits, too_many = "", 0, len(runs) // 2 + 1
    pairs = too_many - 1
    while too_many - fits > 1 and len(text) < _NEARLY_ALL * limit_chars:
        attempt = _written(base, known, runs[: 2 * pairs])
        if len(attempt) <= limit_chars:
            text, fits = attempt, pairs
        else:
            too_many = pairs
        pairs = min(max(fits + 1, pairs * limit_chars // len(attempt)), too_many - 1)
    return text


def decode(base: int, metadata: str) -> OffsetMap | None:
    """The map in a commit's metadata. None: it is somebody else's, or damaged, and everything behind `base` counts as
    unfinished, which costs work and loses nothing."""
    if not is_offset_map(metadata):
        return None
    try:
        payload = b85decode(metadata.removeprefix(MAP_PREFIX))
        crc, payload = payload[:_CRC_BYTES], payload[_CRC_BYTES:]
        if zlib.crc32(payload).to_bytes(_CRC_BYTES, "big") != crc:
            return None
        topic_id, payload = UUID(bytes=payload[:_UUID_BYTES]), payload[_UUID_BYTES:]
        epoch, payload = int.from_bytes(payload[:_EPOCH_BYTES], "big"), payload[_EPOCH_BYTES:]
        made_for, payload = int.from_bytes(payload[:_BASE_BYTES], "big"), payload[_BASE_BYTES:]
        runs = CODERS[Coding(payload[0])].read(payload[1:])
        finished = _finished(made_for, runs) - (range(base),)
        return OffsetMap(topic_id, None if epoch == _NO_EPOCH else epoch, finished)
    except (ValueError, IndexError):
        return None


def _written(base: int, known: OffsetMap, runs: Runs) -> str:
    coding, data = shortest(runs)
    epoch = _NO_EPOCH if known.leader_epoch is None else known.leader_epoch
    guards = known.topic_id.bytes + epoch.to_bytes(_EPOCH_BYTES, "big")
    payload = guards + base.to_bytes(_BASE_BYTES, "big") + bytes([coding]) + data
    return MAP_PREFIX + b85encode(zlib.crc32(payload).to_bytes(_CRC_BYTES, "big") + payload).decode()


def _runs(base: int, finished: Iterable[range]) -> list[int]:
    runs: list[int] = []
    at = base
    for stretch in finished:
        if stretch.start <= at or not stretch or stretch.step != 1:
            raise InvalidArgumentError(f"finished offsets {stretch} do not lie behind {at}, with a gap, in one piece")
        runs += [stretch.start - at, len(stretch)]
        at = stretch.stop
    return runs


def _finished(base: int, runs: Sequence[int]) -> OffsetSet:
    if len(runs) % 2 or not all(runs):
        raise ValueError("runs that nobody writes")
    if base + sum(runs) > MAX_OFFSET:
        raise ValueError("offsets that no log has")
    edges = accumulate(runs, initial=base)
    return OffsetSet(range(start, stop) for start, stop in list(pairwise(edges))[1::2])
