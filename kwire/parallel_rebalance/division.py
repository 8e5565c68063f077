"""Who catches up with what: long ranges are shared out among several children, and bytes between them and the head."""

from __future__ import annotations

from kwire.offset_set import OffsetSet

MIN_PART = 10_000
"""Offsets. A child that has to read less than that is done before another one has begun."""


def first_part(free: OffsetSet, children: int) -> range | None:
    """What an idle child is to read next: the lowest of what nobody reads, or a share of it if it is long. The lowest,
    because the group's offset stands in front of it.

    Args:
        free: What is undone, and nobody reads.
        children: How many have nothing to read, the one that asks among them; at least one.
    """
    if not free:
        return None
    lowest = free[0]
    size = max(MIN_PART, -(-len(lowest) // children))
    return lowest[:size] if len(lowest) - size >= MIN_PART else lowest


def buffer_shares(total_bytes: int, head_share: float, children: int) -> tuple[int, int]:
    """How much the head may have fetched ahead, and each child, while all of them read."""
    head_bytes = max(1, int(total_bytes * head_share))
    return head_bytes, max(1, (total_bytes - head_bytes) // max(1, children))
