"""The cooperative sticky assignor: the plan of `sticky`, in two steps, so that members read on while they rebalance.

Members keep their partitions while they join (KIP-429). A partition that is to move is left out of the plan at first:
its owner sees that it is gone, gives it up and joins again, and this second rebalance gives it to its new owner.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kwire.assignors.base import (
    NO_GENERATION,
    NO_RACKS,
    Assignor,
    MemberSubscription,
    PartitionRacks,
    Plan,
    RebalanceProtocol,
)
from kwire.assignors.claims import Claim, settle
from kwire.assignors.user_data import decode_generation, encode_generation
from kwire.model import TopicPartition


class CooperativeStickyAssignor(Assignor):
    """Kafka's `cooperative-sticky`; see the module."""

    name = "cooperative-sticky"
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def subscription_user_data(
        self,
        topics: Collection[str],  # noqa: ARG002  the interface
        last_assigned: Collection[TopicPartition] | None,  # noqa: ARG002  the interface
        last_generation_id: int,
    ) -> bytes | None:
        """See `Assignor.subscription_user_data`. It is for leaders that do not know the field of KIP-792."""
        return encode_generation(last_generation_id)

    def assign(
        self,
        partitions_per_topic: Mapping[str, int],
        members: Mapping[str, MemberSubscription],
        *,
        partition_racks: PartitionRacks = NO_RACKS,
    ) -> Plan:
        """See `Assignor.assign`."""
        from kwire.assignors.best_plan import assign_stickily

        past = settle({member_id: _claim(member) for member_id, member in members.items()})
        plan = assign_stickily(partitions_per_topic, members, past, partition_racks)
        return {
            member_id: [tp for tp in partitions if not past.still_held(tp, member_id)]
            for member_id, partitions in plan.items()
        }


def _claim(member: MemberSubscription) -> Claim:
    generation_id = member.generation_id
    if generation_id == NO_GENERATION:  # it is of version 0 or 1, or has never been in the group
        generation_id = decode_generation(member.user_data)
    return Claim(member.owned_partitions, generation_id)
