"""What is wrong with a plan, if anything: for assignors of the user's own, and for tests of kwire's.

The group's leader calls `check_plan` before it sends a plan out. A partition that two members read would be processed
twice for as long as the generation lasts, and nobody would notice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from kwire.assignors.base import MemberSubscription
from kwire.errors import InvalidArgumentError
from kwire.model import TopicPartition

SHOWN = 5  # of a kind of problem; a broken assignor tends to get everything wrong


def check_plan(
    plan: Mapping[str, Collection[TopicPartition]],
    partitions_per_topic: Mapping[str, int],
    members: Mapping[str, MemberSubscription],
    *,
    cooperative: bool = False,
) -> None:
    """Refuse a plan that no group can follow. What it leaves unassigned is its own affair, as in Java.

    Args:
        plan: what the assignor answered.
        partitions_per_topic: what it was asked with.
        members: what it was asked with.
        cooperative: whether the members keep their partitions while they join. Then a partition must not go to one
            member while another still has it (KIP-429): it is to be left out until that one has given it up.

    Raises:
        InvalidArgumentError: names the members and partitions.
    """
    problems = [
        *_unknown_members(plan, members),
        *_no_such_partition(plan, partitions_per_topic),
        *_not_subscribed(plan, members),
        *_twice(plan),
    ]
    if cooperative:
        problems += _still_owned(plan, members)
    if problems:
        raise InvalidArgumentError(f"the assignor made a plan that cannot be followed: {'; '.join(problems)}")


def _unknown_members(plan: Mapping[str, Collection[TopicPartition]], members: Collection[str]) -> list[str]:
    return _shown(f"{member_id!r} is no member of the group" for member_id in plan if member_id not in members)


def _no_such_partition(
    plan: Mapping[str, Collection[TopicPartition]], partitions_per_topic: Mapping[str, int]
) -> list[str]:
    return _shown(
        f"{tp}, given to {member_id!r}, does not exist"
        for member_id, tp in _given(plan)
        if not 0 <= tp.partition < partitions_per_topic.get(tp.topic, 0)
    )


def _not_subscribed(
    plan: Mapping[str, Collection[TopicPartition]], members: Mapping[str, MemberSubscription]
) -> list[str]:
    """A member has no code for records of other topics. Java's members would join again without end."""
    return _shown(
        f"{tp} is given to {member_id!r}, which does not subscribe to {tp.topic!r}"
        for member_id, tp in _given(plan)
        if member_id in members and tp.topic not in members[member_id].topics
    )


def _twice(plan: Mapping[str, Collection[TopicPartition]]) -> list[str]:
    holders: dict[TopicPartition, str] = {}
    problems = []
    for member_id, tp in _given(plan):
        if tp in holders:
            problems.append(f"{tp} is given to {holders[tp]!r} and to {member_id!r}")
        holders[tp] = member_id
    return _shown(problems)


def _still_owned(
    plan: Mapping[str, Collection[TopicPartition]], members: Mapping[str, MemberSubscription]
) -> list[str]:
    assigned = set(_given(plan))
    has_to_revoke = {
        tp: member_id
        for member_id, member in members.items()
        for tp in member.owned_partitions
        if (member_id, tp) not in assigned
    }
    return _shown(
        f"{tp} is given to {member_id!r} while {has_to_revoke[tp]!r} has not given it up"
        for member_id, tp in sorted(assigned)
        if tp in has_to_revoke and not (member_id in members and tp in members[member_id].owned_partitions)
    )


def _given(plan: Mapping[str, Collection[TopicPartition]]) -> Iterator[tuple[str, TopicPartition]]:
    return ((member_id, tp) for member_id, partitions in plan.items() for tp in partitions)


def _shown(problems: Iterable[str]) -> list[str]:
    found = list(problems)
    return found if len(found) <= SHOWN else [*found[:SHOWN], f"and {len(found) - SHOWN} more like it"]
