"""What kwire writes into the metadata of commits, in front of what the user has written there.

Each text begins with a prefix that nobody else's metadata begins with, and the CRC of what follows. The number in a
prefix is the version of the text. Brokers bound metadata to 4,096 characters (`offset.metadata.max.bytes`).
"""

from __future__ import annotations

import zlib

LIMIT_CHARS = 4096
LAG_PREFIX = "kwire-lag1:"
"""In front of the ranges that are not done (`kwire.parallel_rebalance.token`)."""
HEAD_PREFIX = "kwire-head1:"
"""In front of a `HeadMark` in the head's log, which says whose progress the offset is (there, too)."""
MAP_PREFIX = "kwire2:"
"""In front of the offsets behind the commit that a processor has finished (`kwire.processing.offset_map`)."""
_USER = "\n"
_BASE = 36
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def encode_metadata(prefix: str, body: str, users: str) -> str:
    """The text, with the user's metadata behind it."""
    text = f"{prefix}{in_base_36(zlib.crc32(body.encode()))}:{body}"
    return text + _USER + users if users else text


def decode_metadata(prefix: str, metadata: str) -> tuple[str, str] | None:
    """The body and the user's metadata. None if the text has another prefix, or is damaged."""
    if not metadata.startswith(prefix):
        return None
    own, _, users = metadata.removeprefix(prefix).partition(_USER)
    crc, _, body = own.partition(":")
    return (body, users) if crc == in_base_36(zlib.crc32(body.encode())) else None


def users_metadata(metadata: str) -> str:
    """What the user committed as metadata."""
    for prefix in (LAG_PREFIX, HEAD_PREFIX):
        if (parts := decode_metadata(prefix, metadata)) is not None:
            return parts[1]
    return metadata


def in_base_36(number: int) -> str:
    """A third shorter than decimal."""
    digits = ""
    while number or not digits:
        number, digit = divmod(number, _BASE)
        digits = _DIGITS[digit] + digits
    return digits


def from_base_36(digits: str) -> int:
    """Raises ValueError for anything else."""
    return int(digits, _BASE)
