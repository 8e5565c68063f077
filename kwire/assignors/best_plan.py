"""The plan of the sticky assignors: pools are made, shared out and handed out.

Called by `sticky` and `cooperative-sticky`, which load it when they lead a group: members that only follow, and groups
that share out by range, do without it and the arrays it calculates with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kwire.assignors.base import MemberSubscription, PartitionRacks, Plan, as_java_sorts
from kwire.assignors.claims import Past
from kwire.assignors.exchanges import PATIENCE_SLOTS, improve
from kwire.assignors.pools import Pool, hand_out, make_pools, racks_that_matter
from kwire.assignors.shares import Shares


def assign_stickily(
    partitions_per_topic: Mapping[str, int],
    members: Mapping[str, MemberSubscription],
    past: Past,
    partition_racks: PartitionRacks,
    *,
    patience_slots: int = PATIENCE_SLOTS,
) -> Plan:
    """The best plan; `cooperative-sticky` makes two steps of it."""
    plan: Plan = {member_id: [] for member_id in members}
    # A member that wants nothing that exists gets nothing, and is left out of the calculation.
    served = [
        member_id
        for member_id in sorted(members, key=as_java_sorts)
        if any(partitions_per_topic.get(topic) for topic in members[member_id].topics)
    ]
    subscriptions = [members[member_id] for member_id in served]
    wanted = frozenset[str]().union(*(member.topics for member in subscriptions))
    counts = {topic: count for topic, count in partitions_per_topic.items() if topic in wanted}
    pools = make_pools(counts, subscriptions, racks_that_matter(counts, subscriptions, partition_racks))
    if pools:
        shares = _share(pools, subscriptions, _owned(pools, served, past), patience_slots)
        plan.update(hand_out(pools, shares, served, past))
    return plan


def _owned(pools: Sequence[Pool], served: Sequence[str], past: Past) -> dict[tuple[int, int], int]:
    """How many partitions of each pool each member had that it may keep, by the indices of pool and member."""
    index = {member_id: i for i, member_id in enumerate(served)}
    counts: dict[tuple[int, int], int] = {}
    for number, pool in enumerate(pools):
        wanted_by = frozenset(pool.members)
        for tp in pool.partitions:
            owner = index.get(past.owners.get(tp, ""), -1)
            if owner in wanted_by:
                counts[number, owner] = counts.get((number, owner), 0) + 1
    return counts


def _share(
    pools: Sequence[Pool],
    members: Sequence[MemberSubscription],
    owned: Mapping[tuple[int, int], int],
    patience_slots: int,
) -> Shares:
    shares = Shares([len(pool.partitions) for pool in pools], [pool.members for pool in pools], len(members))
    for (pool, member), count in owned.items():
        shares.owned[shares.slot(pool, member)] = count
    rack_aware = any(pool.racks for pool in pools)
    for number, part in enumerate(pools if rack_aware else ()):
        for slot, index in zip(shares.slots_of(number), part.members, strict=True):
            rack = members[index].rack
            shares.far[slot] = bool(rack) and rack not in part.racks
    shares.guess()
    if not improve(shares, patience_slots) and rack_aware:
        # What is far was put up for grabs, and not all of it is back where it was. A cooperative group would move it
        # again each time it rebalances, and rebalance because it moves: so huge a group does without racks.
        shares.far[:] = False
        shares.guess()
    return shares
