"""What the two commit logs say beside an offset, as text in a commit's metadata.

The group's own offset is the low-water mark: everything in front of it is done. Its metadata carries the `Token`: which
ranges behind it are not done, and from where on nothing is. The head's log, the group `<group>.head`, carries a
`HeadMark`: whose progress its offset is. Both keep what the user committed as metadata, behind a line's end.

Brokers bound metadata to 4,096 characters (`offset.metadata.max.bytes`). A token that is too long loses detail, never a
range: the two nearest become one, and what lies between them is read again after a crash.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple
from uuid import UUID

from kwire.commit_metadata import (
    HEAD_PREFIX,
    LAG_PREFIX,
    LIMIT_CHARS,
    MAP_PREFIX,
    decode_metadata,
    encode_metadata,
    from_base_36,
    in_base_36,
)
from kwire.offset_set import NO_OFFSETS, OffsetSet

_NO_EPOCH = "-"
# Some ranges have room in it: a map of a processor that knew nothing of them must not leave them one.
_ROOM_CHARS = 256


class Token(NamedTuple):
    """What is not done of a partition, as of one commit.

    Attributes:
        incarnation: Whose commits these are. Each owner of the partition begins one, and so does an owner whose main
            cursor jumps to the end or goes back; the head's log is believed only if it was written in the same one.
        topic_id: Of the topic that these offsets are of.
        undone: The ranges that are to be caught up.
        head: Nothing from here on is done, unless the head's log says more.
        head_epoch: The leader epoch of the record in front of it (KIP-320).
        metadata: What the user committed with the offset.
    """

    incarnation: str
    topic_id: UUID
    undone: OffsetSet
    head: int
    head_epoch: int | None = None
    metadata: str = ""


class HeadMark(NamedTuple):
    """Whose head an offset in `<group>.head` is; see `Token`."""

    incarnation: str
    topic_id: UUID
    metadata: str = ""


def head_group(group_id: str) -> str:
    """The name of the group that the head's progress is committed to."""
    return f"{group_id}.head"


def incarnation_of(uuid: UUID) -> str:
    """The name of an incarnation: 64 of the bits, as text."""
    return _packed(uuid.bytes[:8])


def encode(token: Token, *, limit_chars: int = LIMIT_CHARS) -> str:
    """The token as metadata. One that does not fit even with a single range does without what a processor had said to
    be finished, which costs work. If it still does not fit, it is returned too long: the user's own metadata is the
    cause, and the broker rejects it."""
    text = _written(token)
    without_ranges = token._replace(undone=NO_OFFSETS)
    if token.metadata.startswith(MAP_PREFIX) and len(_written(without_ranges)) > limit_chars - _ROOM_CHARS:
        token = token._replace(metadata="")
        text = _written(token)
    while len(text) > limit_chars and len(token.undone) > 1:
        token = token._replace(undone=_coarser(token.undone))
        text = _written(token)
    return text


def decode(metadata: str) -> Token | None:
    """The token in a commit's metadata. None: it is somebody else's, or damaged: everything behind the committed offset
    counts as undone, which costs work and loses nothing."""
    parts = decode_metadata(LAG_PREFIX, metadata)
    if parts is None:
        return None
    try:
        incarnation, topic_id, head, epoch, numbers = parts[0].split(",")
        steps = [from_base_36(number) for number in numbers.split(".") if number]
        head_epoch = None if epoch == _NO_EPOCH else from_base_36(epoch)
        return Token(incarnation, _uuid(topic_id), _undone(steps), from_base_36(head), head_epoch, parts[1])
    except ValueError:
        return None


def encode_mark(mark: HeadMark) -> str:
    """The mark as metadata."""
    return encode_metadata(HEAD_PREFIX, f"{mark.incarnation},{_packed(mark.topic_id.bytes)}", mark.metadata)


def decode_mark(metadata: str) -> HeadMark | None:
    """The mark in a commit's metadata; None when it is none."""
    parts = decode_metadata(HEAD_PREFIX, metadata)
    if parts is None:
        return None
    try:
        incarnation, topic_id = parts[0].split(",")
        return HeadMark(incarnation, _uuid(topic_id), parts[1])
    except ValueError:
        return None


def _written(token: Token) -> str:
    epoch = _NO_EPOCH if token.head_epoch is None else in_base_36(token.head_epoch)
    edges = [edge for each in token.undone for edge in (each.start, each.stop)]
    steps = (edge - before for edge, before in zip(edges, [0, *edges], strict=False))
    fields = (
        token.incarnation,
        _packed(token.topic_id.bytes),
        in_base_36(token.head),
        epoch,
        ".".join(map(in_base_36, steps)),
    )
    return encode_metadata(LAG_PREFIX, ",".join(fields), token.metadata)


def _undone(steps: list[int]) -> OffsetSet:
    if len(steps) % 2 or any(step <= 0 for step in steps[1:]) or any(step < 0 for step in steps[:1]):
        raise ValueError("edges that do not rise, or a range without an end")
    edges, edge = [], 0
    for step in steps:
        edge += step
        edges.append(edge)
    return OffsetSet(range(start, stop) for start, stop in zip(edges[::2], edges[1::2], strict=True))


def _coarser(ranges: OffsetSet) -> OffsetSet:
    """The two that lie nearest to each other made one, with all between them."""
    nearest = min(range(1, len(ranges)), key=lambda index: ranges[index].start - ranges[index - 1].stop)
    return ranges | (range(ranges[nearest - 1].start, ranges[nearest].stop),)


def _packed(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _uuid(text: str) -> UUID:
    return UUID(bytes=urlsafe_b64decode(text + "=="))
