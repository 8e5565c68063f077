"""The hash by which Java's producer chooses a partition for a key: MurmurHash2 of 32 bits, with Kafka's seed."""

from __future__ import annotations

SEED = 0x9747B28C
_FACTOR, _SHIFT = 0x5BD1E995, 24
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash, as a number without a sign."""
    found = (SEED ^ len(data)) & _MASK
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _MASK
        word = (word ^ word >> _SHIFT) * _FACTOR & _MASK
        found = (found * _FACTOR & _MASK) ^ word
    if rest := data[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * _FACTOR & _MASK
    found = (found ^ found >> 13) * _FACTOR & _MASK
    return found ^ found >> 15
