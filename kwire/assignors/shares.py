"""How many partitions of each pool each member gets: the state of one calculation, and its first guess.

A *pool* is a number of partitions that are all the same to every member; see `pools`. A *slot* is a pool and a member
that may have some of it. What counts, in this order:

1. *Balance*: members have equal loads, as far as their subscriptions allow; formally, the sum of the squares of the
   loads is least, which makes every other measure of imbalance least too.
2. *Racks*: few partitions are far from their members, without a replica on the member's rack (KIP-881).
3. *Stickiness*: few partitions leave their owners (KIP-54).

The first guess is cheap and near the best; `exchanges` finds what is left to gain. The sticky assignors call both.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class Shares:
    """Arrays over the slots, which are sorted by pool, then by member; and `load` over the members.

    `held` is the answer. `owned` is how many partitions of the pool the member had before. `far` says whether the
    pool is far from the member. Each pool has a member, and each member a pool.
    """

    def __init__(self, pool_sizes: Sequence[int], pool_members: Sequence[Sequence[int]], member_count: int) -> None:
        widths = [len(members) for members in pool_members]
        self.size = np.array(pool_sizes, np.int64)
        self.pool = np.repeat(np.arange(len(widths)), widths)
        self.member = np.array([member for members in pool_members for member in members], np.int64)
        self.start = np.cumsum([0, *widths])
        self.owned = np.zeros(len(self.member), np.int64)
        self.far = np.zeros(len(self.member), np.bool_)
        self.held = np.zeros(len(self.member), np.int64)
        self.load = np.zeros(member_count, np.int64)

    def slot(self, pool: int, member: int) -> int:
        """The slot of a member in a pool that it may have."""
        first, end = self.start[pool], self.start[pool + 1]
        return int(first + np.searchsorted(self.member[first:end], member))

    def slots_of(self, pool: int) -> range:
        """The slots of a pool."""
        return range(int(self.start[pool]), int(self.start[pool + 1]))

    def guess(self) -> None:
        """Let owners keep what is near to them, give out the rest, and level the loads pool by pool."""
        self.held[:] = np.where(self.far, 0, self.owned)
        self.load[:] = 0
        np.add.at(self.load, self.member, self.held)
        missing = self.size - np.add.reduceat(self.held, self.start[:-1])
        # Pools that few may have come first: those who may have others as well are served from those.
        for pool in np.argsort(np.diff(self.start), kind="stable").tolist():
            self._fill(pool, int(missing[pool]))
        while len(uneven := self._uneven_pools()):
            for pool in uneven:
                self._level(pool)

    def move(self, giver: int, taker: int, count: int = 1) -> None:
        """Move partitions of one pool from slot to slot."""
        self.held[giver] -= count
        self.held[taker] += count
        self.load[self.member[giver]] -= count
        self.load[self.member[taker]] += count

    def _fill(self, pool: int, count: int) -> None:
        """Each partition goes to the member with the smallest load; to one that is near, while that has room."""
        fair = -(-int(self.size.sum()) // len(self.load))
        near = [(int(self.load[self.member[slot]]), slot) for slot in self.slots_of(pool) if not self.far[slot]]
        far = [(int(self.load[self.member[slot]]), slot) for slot in self.slots_of(pool) if self.far[slot]]
        heapify(near)
        heapify(far)
        for _ in range(count):
            has_room = bool(near) and (not far or near[0][0] < fair or near[0][0] <= far[0][0])
            heap = near if has_room else far
            load, slot = heap[0]
            heapreplace(heap, (load + 1, slot))
            self.held[slot] += 1
            self.load[self.member[slot]] += 1

    def _uneven_pools(self) -> list[int]:
        """The pools where a partition can go from a member to one whose load is smaller by two or more."""
        loads = self.load[self.member]
        heaviest = np.maximum.reduceat(np.where(self.held > 0, loads, -1), self.start[:-1])
        lightest = np.minimum.reduceat(loads, self.start[:-1])
        return [int(pool) for pool in np.flatnonzero(heaviest - lightest >= 2)]

    def _level(self, pool: int) -> None:
        """Move from the heaviest to the lightest until they differ by one at most."""
        loads = {slot: int(self.load[self.member[slot]]) for slot in self.slots_of(pool)}
        givers = [(-load, slot) for slot, load in loads.items() if self.held[slot]]
        takers = [(load, slot) for slot, load in loads.items()]
        heapify(givers)
        heapify(takers)
        while givers:
            (giver_load, giver), (taker_load, taker) = givers[0], takers[0]
            if -giver_load != loads[giver] or not self.held[giver]:
                heappop(givers)
            elif taker_load != loads[taker]:
                heappop(takers)
            elif -giver_load - taker_load < 2:
                return
            else:
                self.move(giver, taker)
                loads[giver] -= 1
                loads[taker] += 1
                heapreplace(givers, (-loads[giver], giver))
                heapreplace(takers, (loads[taker], taker))
                heappush(givers, (-loads[taker], taker))
                heappush(takers, (loads[giver], giver))
