"""The sticky assignor: as balanced as can be, as near as balance allows, and as much as possible stays where it was.

For the same group, no plan is better balanced than this one; of those that are as well balanced, none has more
partitions near to their members (KIP-881); of those, none lets more stay with their owners. Java's aims are the same,
but it looks for the best by moving one partition at a time, so its plans are as good at most.

An eager member owns nothing when it joins. So it tells what it had in its user data (KIP-54), with the generation
(KIP-341), because after a missed rebalance that may be long out of date.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kwire.assignors.base import NO_RACKS, Assignor, MemberSubscription, PartitionRacks, Plan, as_java_sorts
from kwire.assignors.claims import Claim, Past, settle
from kwire.assignors.exchanges import PATIENCE_SLOTS, improve
from kwire.assignors.pools import Pool, hand_out, make_pools, racks_that_matter
from kwire.assignors.shares import Shares
from kwire.assignors.user_data import decode_last_assignment, encode_last_assignment
from kwire.model import TopicPartition


class StickyAssignor(Assignor):
    """Kafka's `sticky`; see the module."""

    name = "sticky"

    def subscription_user_data(
        self,
        topics: Collection[str],  # noqa: ARG002  the interface
        last_assigned: Collection[TopicPartition] | None,
        last_generation_id: int,
    ) -> bytes | None:
        """See `Assignor.subscription_user_data`."""
        return None if last_assigned is None else encode_last_assignment(last_assigned, last_generation_id)

    def assign(
        self,
        partitions_per_topic: Mapping[str, int],
        members: Mapping[str, MemberSubscription],
        *,
        partition_racks: PartitionRacks = NO_RACKS,
    ) -> Plan:
        """See `Assignor.assign`."""
        claims = {member_id: Claim(*decode_last_assignment(member.user_data)) for member_id, member in members.items()}
        return assign_stickily(partitions_per_topic, members, settle(claims), partition_racks)


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
    # Whoever wants nothing that exists gets nothing, and is left out of the calculation.
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
