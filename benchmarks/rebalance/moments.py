"""The moment of each event of `scripts/bench rebalance`, within the heartbeats that are sent. Pure. For `measure.py`.

Members hear of a rebalance with their next heartbeat, so what a rebalance mostly takes is what the slowest of them has
left until then. Intervals are counted from what the broker saw, not from the last rebalance: clients stretch or
restart them, so phases that began together part within minutes.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# How far heartbeats may be foreseen over others that come in between: kwire makes an interval up to 2 % longer, and a
# client takes longer to be made than a tenth of a second has left.
FORESIGHT_NS = 200_000_000
TOLERANCE = 0.05  # of an interval: what the moment may be off, or another is waited for


def lefts(rounds: int, members: int, *, seed: str) -> list[float]:
    """What the slowest member has left until its next heartbeat, in intervals; evenly spread, in an order by chance
    that repeats.

    With n members the longest time without any heartbeat is at least an n-th of an interval, and during it the slowest
    has, at some time, all from (n - 1) / n to 1 left. No more than that is the same for every client: when heartbeats
    are evenly apart, the slowest never has less left.
    """
    found = [1 - (turn + 0.5) / rounds / members for turn in range(rounds)]
    random.Random(seed).shuffle(found)
    return found


def moment_ns(beats_ns: Sequence[int], interval_ns: int, left_ns: int, earliest_ns: int) -> int | None:
    """When the slowest member will have that much left, if that is before the next heartbeat of any.

    Args:
        beats_ns: The last heartbeat of each.
        earliest_ns: Not before this.
    """
    at_ns = max(beats_ns) + interval_ns - left_ns
    if at_ns > min(beats_ns) + interval_ns:
        return None
    later_ns = max(0, -((at_ns - earliest_ns) // interval_ns)) * interval_ns
    return at_ns + later_ns if later_ns <= FORESIGHT_NS else None


def left_ns(beats_ns: Sequence[int], interval_ns: int, at_ns: int) -> int:
    """What the slowest has left at a moment, if all goes on as it did."""
    return max((beat_ns - at_ns) % interval_ns for beat_ns in beats_ns)


def is_near(left_ns: int, wanted_ns: int, interval_ns: int) -> bool:
    return abs(left_ns - wanted_ns) <= TOLERANCE * interval_ns
