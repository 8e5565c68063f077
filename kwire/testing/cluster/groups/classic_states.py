"""The states of a classic group and which may come after which: Kafka's ClassicGroupState."""

from __future__ import annotations

from enum import Enum


class ClassicGroupState(Enum):
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


NEXT: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}),
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        {ClassicGroupState.EMPTY, ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.DEAD}
    ),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset(
        {ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.STABLE, ClassicGroupState.DEAD}
    ),
    ClassicGroupState.STABLE: frozenset({ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}),
    ClassicGroupState.DEAD: frozenset(),
}
"""Which states may come after each."""
