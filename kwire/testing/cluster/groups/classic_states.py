"""The states of a classic group and which may come after which: Kafka's ClassicGroupState."""

from __future__ import annotations

from enum import Enum


class ClassicState(Enum):
    """A state under the name that ListGroups and DescribeGroups show."""

    EMPTY = "Empty"
    """No members; there may be offsets, and members that have an id but have not joined with it."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """Waits for all members to join, up to the longest rebalance timeout among them."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """Waits for the leader's assignment."""

    STABLE = "Stable"
    """Everybody has, or can fetch, an assignment."""

    DEAD = "Dead"
    """Deleted."""


NEXT: dict[ClassicState, frozenset[ClassicState]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.EMPTY, ClassicState.COMPLETING_REBALANCE, ClassicState.DEAD}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset(
        {ClassicState.PREPARING_REBALANCE, ClassicState.STABLE, ClassicState.DEAD}
    ),
    ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.DEAD: frozenset(),
}
"""Which states may come after each."""
