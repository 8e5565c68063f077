"""Partitions that are all the same to every member are one pool, and members get a number of them.

Two partitions are the same if the same members want them and their replicas are on the same racks. Groups whose
members all want the same have one pool for each set of racks, however many topics there are. `make_pools` sorts
partitions into pools, `hand_out` turns shares of pools into partitions again; the sticky assignors call both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kwire.assignors.base import MemberSubscription, PartitionRacks, Plan, as_java_sorts
from kwire.assignors.claims import Past
from kwire.assignors.shares import Shares
from kwire.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Partitions in order of topic and number; those who may have them, as indices into the group's members."""

    partitions: list[TopicPartition]
    members: tuple[int, ...]
    racks: frozenset[str]


def make_pools(
    partitions_per_topic: Mapping[str, int],
    members: Sequence[MemberSubscription],
    partition_racks: PartitionRacks,
) -> list[Pool]:
    """The pools of all partitions that somebody wants."""
    wanting: defaultdict[str, list[int]] = defaultdict(list)
    for index, member in enumerate(members):
        for topic in member.topics:
            wanting[topic].append(index)
    found: defaultdict[tuple[tuple[int, ...], frozenset[str]], list[TopicPartition]] = defaultdict(list)
    for topic in sorted(partitions_per_topic, key=as_java_sorts):
        wanted_by = tuple(wanting.get(topic, ()))
        for number in range(partitions_per_topic[topic] if wanted_by else 0):
            tp = TopicPartition(topic, number)
            found[wanted_by, frozenset(partition_racks.get(tp, ()))].append(tp)
    return [Pool(partitions=tps, members=wanted_by, racks=racks) for (wanted_by, racks), tps in found.items()]


def racks_that_matter(
    partitions_per_topic: Mapping[str, int], members: Sequence[MemberSubscription], partition_racks: PartitionRacks
) -> PartitionRacks:
    """The racks, or none where no choice can bring a read nearer, as in Java (KIP-881).

    That is when nobody's rack holds a replica, or every rack that holds any holds all.
    """
    member_racks = {member.rack for member in members if member.rack}
    if not member_racks:
        return {}
    held = {
        tp: frozenset(partition_racks.get(tp, ()))
        for topic, count in partitions_per_topic.items()
        for tp in (TopicPartition(topic, number) for number in range(count))
    }
    all_racks = frozenset[str]().union(*held.values())
    if member_racks.isdisjoint(all_racks) or all(racks == all_racks for racks in held.values()):
        return {}
    return held


def hand_out(pools: Sequence[Pool], shares: Shares, member_ids: Sequence[str], past: Past) -> Plan:
    """Give each member its share: of what it had as much as possible, then the rest, one member after the other."""
    plan: Plan = {member_id: [] for member_id in member_ids}
    for pool, partitions in enumerate(part.partitions for part in pools):
        due = {member_ids[shares.member[slot]]: int(shares.held[slot]) for slot in shares.slots_of(pool)}
        free = _keep(partitions, due, past, plan)
        free = _return_lost(free, due, past, plan)
        _deal(free, due, plan)
    return plan


def _keep(partitions: list[TopicPartition], due: dict[str, int], past: Past, plan: Plan) -> list[TopicPartition]:
    """Owners keep what is due to them; answers what is left."""
    left = []
    # As in Java, the low numbers stay, of all topics alike; but first what nobody else has had and might want back.
    for tp in sorted(
        partitions, key=lambda tp: (len(past.claimants.get(tp, ())), tp.partition, as_java_sorts(tp.topic))
    ):
        owner = past.owners.get(tp)
        if owner is not None and due.get(owner, 0) > 0:
            _give(tp, owner, due, plan)
        else:
            left.append(tp)
    return left


def _return_lost(left: list[TopicPartition], due: dict[str, int], past: Past, plan: Plan) -> list[TopicPartition]:
    """Members that missed a rebalance get back what they had before it, if it is free again."""
    still_left = []
    for tp in left:
        former = next((member_id for member_id in past.claimants.get(tp, ()) if due.get(member_id, 0) > 0), None)
        if former is not None:
            _give(tp, former, due, plan)
        else:
            still_left.append(tp)
    return still_left


def _deal(left: list[TopicPartition], due: dict[str, int], plan: Plan) -> None:
    """Deal out in turns, so that no member gets a topic's partitions in a row."""
    in_order = iter(sorted(left, key=lambda tp: (as_java_sorts(tp.topic), tp.partition)))
    waiting = [member_id for member_id, count in due.items() if count > 0]
    while waiting:
        for member_id in waiting:
            _give(next(in_order), member_id, due, plan)
        waiting = [member_id for member_id in waiting if due[member_id] > 0]


def _give(tp: TopicPartition, member_id: str, due: dict[str, int], plan: Plan) -> None:
    plan[member_id].append(tp)
    due[member_id] -= 1
