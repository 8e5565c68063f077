"""The sticky assignor: as balanced as can be, as near as balance allows, and as much as possible stays where it was.

For the same group, no plan is better balanced than this one; of those that are as well balanced, none has more
partitions near to their members (KIP-881); of those, none lets more stay with their owners. Java's aims are the same,
but it looks for the best by moving one partition at a time, so its plans are as good at most.

An eager member owns nothing when it joins. So it tells what it had in its user data (KIP-54), with the generation
(KIP-341), because after a missed rebalance that may be long out of date.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kwire.assignors.base import NO_RACKS, Assignor, MemberSubscription, PartitionRacks, Plan
from kwire.assignors.claims import Claim, settle
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
        from kwire.assignors.best_plan import assign_stickily

        claims = {member_id: Claim(*decode_last_assignment(member.user_data)) for member_id, member in members.items()}
        return assign_stickily(partitions_per_topic, members, settle(claims), partition_racks)
