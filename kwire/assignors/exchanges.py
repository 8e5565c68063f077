"""Makes the shares the best there are, by exchanges: a takes from b, b takes from c, ... until nothing is to be gained.

This is minimum-cost flow by cycle cancelling. The network: partitions flow from their pool through a slot to a member,
and on to a *hub*. The n-th partition on a member costs 2n-1 units of balance (so a load of n costs n squared), one on a
slot costs a unit of racks if it is far, and saves a unit of stickiness if the member owned it. As each such cost grows
with the flow, the shares are the best if and only if no cycle of the residual network, no exchange, has negative cost.
Such a cycle is found with the Bellman-Ford algorithm, whose passes over all slots are numpy's.

`improve` is the only entry; the sticky assignors call it with the first guess, in which little is left to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kwire.assignors.shares import BoolArray, IntArray, Shares

NOWHERE = -1
HUB = -2
FORBIDDEN = 1 << 60  # more than any sum of costs: those of 10^7 partitions and 10^5 pools stay below 2^58

# Slots looked at before a huge group makes do with what it has. Some 10 ns each, so about 3 s: a leader that thinks for
# long is a group that does not read. No clock, because the same input has to give the same answer.
PATIENCE_SLOTS = 300_000_000


def improve(shares: Shares, patience_slots: int) -> bool:
    """Exchange until the shares are the best there are (True), or the patience is used up (False)."""
    search = _Search(shares)
    while search.looked_at_slots <= patience_slots:
        cycles = search.find_cycles()
        if not cycles:
            return True
        for cycle in cycles:
            _exchange(shares, cycle)
    return False


class _Swap(NamedTuple):
    """A member takes one more in a slot, and somebody takes one less in another slot of the same pool."""

    taker: int
    giver: int


@dataclass(frozen=True, slots=True)
class _Cycle:
    """Steps that together are worth doing. `heavier` ends up with a smaller load, `lighter` with a larger one."""

    steps: list[_Swap]
    heavier: int = NOWHERE
    lighter: int = NOWHERE


def _exchange(shares: Shares, cycle: _Cycle) -> None:
    """As many times as the cycle costs the same each time."""
    count = FORBIDDEN
    if cycle.heavier != NOWHERE:
        count = max(1, int(shares.load[cycle.heavier] - shares.load[cycle.lighter]) // 2)
    for taker, giver in cycle.steps:
        lost = int(shares.owned[taker] - shares.held[taker])
        extra = int(shares.held[giver] - shares.owned[giver])
        count = min(count, lost if lost > 0 else count, extra if extra > 0 else int(shares.held[giver]))
    for taker, giver in cycle.steps:
        shares.move(giver, taker, count)


class _Search:
    """Bellman-Ford over pools, members and the hub, from everywhere at once."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self.looked_at_slots = 0
        # A simple cycle has at most two slots for each pool: that much of one unit must not outweigh one of the next.
        self._rack_cost = 2 * len(shares.size) + 3
        self._balance_cost = self._rack_cost * self._rack_cost
        self._by_member = np.argsort(shares.member, kind="stable")
        self._pool_by_member = shares.pool[self._by_member]
        self._member_by_member = shares.member[self._by_member]
        self._member_start = np.searchsorted(self._member_by_member, np.arange(len(shares.load)))

    def find_cycles(self) -> list[_Cycle]:
        """Cycles of negative cost that do not touch each other; none if there is none at all."""
        self._set_costs()
        shares = self._shares
        self._member_cost, self._via_member = _unreached(len(shares.load))
        self._pool_cost, self._via_pool = _unreached(len(shares.size))
        self._hub_cost, self._via_hub = 0, NOWHERE
        while self._pass():
            self.looked_at_slots += 2 * len(shares.member)
            if cycles := self._cycles():
                return cycles
        return []

    def _set_costs(self) -> None:
        shares = self._shares
        rack = np.where(shares.far, self._rack_cost, 0)
        self._take_cost = (rack - (shares.held < shares.owned))[self._by_member]
        self._give_cost = np.where(shares.held > 0, (shares.held <= shares.owned) - rack, FORBIDDEN)
        self._more_load_cost = self._balance_cost * (2 * shares.load + 1)
        self._less_load_cost = np.where(shares.load > 0, -self._balance_cost * (2 * shares.load - 1), FORBIDDEN)

    def _pass(self) -> bool:
        """Hub to members to pools to members to hub; whether anything was reached at less cost than before."""
        shares = self._shares
        from_hub = self._hub_cost + self._less_load_cost
        cheaper = from_hub < self._member_cost
        self._member_cost[cheaper] = from_hub[cheaper]
        self._via_member[cheaper] = HUB
        changed = bool(cheaper.any())

        costs = self._member_cost[shares.member] + self._give_cost
        lows = np.minimum.reduceat(costs, shares.start[:-1])
        changed |= _relax(self._pool_cost, self._via_pool, lows, costs, shares.pool, None)

        costs = self._pool_cost[self._pool_by_member] + self._take_cost
        lows = np.minimum.reduceat(costs, self._member_start)
        changed |= _relax(self._member_cost, self._via_member, lows, costs, self._member_by_member, self._by_member)

        to_hub = self._member_cost + self._more_load_cost
        cheapest = int(to_hub.argmin())
        if to_hub[cheapest] < self._hub_cost:
            self._hub_cost, self._via_hub = int(to_hub[cheapest]), cheapest
            changed = True
        return changed

    def _cycles(self) -> list[_Cycle]:
        """The cycles among "reached from", member by member; each of them costs less than nothing."""
        came_from = self._came_from()
        seen_in = [NOWHERE] * len(came_from)
        cycles = []
        for start in range(len(came_from)):
            member = start
            while member != NOWHERE and seen_in[member] == NOWHERE:
                seen_in[member] = start
                member = came_from[member]
            if member != NOWHERE and seen_in[member] == start:
                cycles.append(self._cycle(member, came_from))
        return cycles

    def _came_from(self) -> list[int]:
        """For each member the one that it was reached from."""
        shares = self._shares
        taker = np.maximum(self._via_member, 0)  # where `_via_member` is no slot, the outcome is not looked at
        giver = self._via_pool[shares.pool[taker]]
        by_slot = np.where(giver == NOWHERE, NOWHERE, shares.member[giver])
        by_hub = np.where(self._via_member == HUB, self._via_hub, NOWHERE)
        came_from: list[int] = np.where(self._via_member >= 0, by_slot, by_hub).tolist()
        return came_from

    def _cycle(self, start: int, came_from: list[int]) -> _Cycle:
        steps = []
        heavier = lighter = NOWHERE
        member = start
        while True:
            taker = int(self._via_member[member])
            if taker == HUB:
                heavier, lighter = member, came_from[member]
            else:
                steps.append(_Swap(taker, int(self._via_pool[self._shares.pool[taker]])))
            member = came_from[member]
            if member == start:
                return _Cycle(steps, heavier, lighter)


def _unreached(count: int) -> tuple[IntArray, IntArray]:
    return np.zeros(count, np.int64), np.full(count, NOWHERE)


def _relax(
    node_costs: IntArray, via: IntArray, lows: IntArray, costs: IntArray, nodes: IntArray, slots: IntArray | None
) -> bool:
    """Note the nodes that are reached at less cost, and by which slot: the first of those with the lowest."""
    cheaper: BoolArray = lows < node_costs
    if not cheaper.any():
        return False
    lowest = np.where(cheaper, lows, FORBIDDEN)
    found = np.flatnonzero(costs == lowest[nodes])[::-1]  # of equal indices, numpy keeps the last
    via[nodes[found]] = found if slots is None else slots[found]
    node_costs[cheaper] = lows[cheaper]
    return True
