"""The members of a consumer group: by id, by instance id, and by what they hold. Bookkeeping of `consumer`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kwire.errors import InternalError
from kwire.protocol.error_codes import ErrorCode
from kwire.testing.cluster.groups.refusal import GroupRefusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from uuid import UUID

    from kwire.testing.cluster.groups.consumer_member import ConsumerMember, Target

ASSIGNOR_ORDER = ("uniform", "range")
"""Between assignors with as many votes, the first of these is taken; Kafka's hash maps have this order."""


class ConsumerRoster:
    """Members in the order in which they joined."""

    def __init__(self) -> None:
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Target] = {}
        """What each member is to own, under the group's assignment epoch."""
        self._static_ids: dict[str, str] = {}
        self._owners: dict[tuple[UUID, int], str] = {}

    # --- looking ---------------------------------------------------------------------------------------------

    def member(self, member_id: str) -> ConsumerMember:
        """Raises: Refusal, UNKNOWN_MEMBER_ID."""
        found = self.members.get(member_id)
        if found is None:
            raise GroupRefusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of the group.")
        return found

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """The member of that instance id."""
        member_id = self._static_ids.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def known_member(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """The member that has this id and, if one is named, this instance id.

        Raises:
            Refusal: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another member has that instance id.
        """
        if instance_id is None:
            return self.member(member_id)
        found = self.static_member(instance_id)
        if found is None:
            raise GroupRefusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if found.member_id != member_id:
            message = f"Static member {member_id} with instance id {instance_id} was fenced by {found.member_id}."
            raise GroupRefusal(ErrorCode.FENCED_INSTANCE_ID, message)
        return found

    def owner(self, topic_id: UUID, partition: int) -> str | None:
        """The member that owns the partition, or has to revoke it and has not confirmed that yet."""
        return self._owners.get((topic_id, partition))

    def target(self, member_id: str) -> Target:
        return self.targets.get(member_id, {})

    def patterns(self) -> tuple[str, ...]:
        """The patterns that members subscribe to."""
        return tuple(dict.fromkeys(member.pattern for member in self.members.values() if member.pattern))

    def preferred_assignor(self) -> str | None:
        """The assignor that most members ask for, if any does."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return max(votes, key=lambda name: (votes[name], -ASSIGNOR_ORDER.index(name)), default=None)

    # --- changing --------------------------------------------------------------------------------------------

    def put(self, member: ConsumerMember) -> None:
        """A new member, or a new state of one."""
        self._release(self.members.get(member.member_id))
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._static_ids[member.instance_id] = member.member_id
        for partition in _held(member):
            owner = self._owners.setdefault(partition, member.member_id)
            if owner != member.member_id:
                raise InternalError(f"{partition} would have two owners, {owner} and {member.member_id}")

    def remove(self, member: ConsumerMember) -> None:
        """A member is gone, with all that it held."""
        self._release(self.members.pop(member.member_id, None))
        self.targets.pop(member.member_id, None)
        if member.instance_id is not None:
            self._static_ids.pop(member.instance_id, None)

    def replace(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """A static member under a new id has what the old one had."""
        target = self.target(old.member_id)
        self.remove(old)
        self.put(new)
        self.targets[new.member_id] = target

    def _release(self, member: ConsumerMember | None) -> None:
        for partition in _held(member) if member is not None else ():
            self._owners.pop(partition, None)


def _held(member: ConsumerMember) -> Iterator[tuple[UUID, int]]:
    for holdings in (member.assigned, member.revoking):
        for topic_id, partitions in holdings.items():
            yield from ((topic_id, partition) for partition in partitions)


def voters(members: Iterable[ConsumerMember]) -> Counter[str]:
    """How many of the members that speak the classic protocol have which of its assignors."""
    return Counter(name for member in members if member.classic for name in dict(member.classic.protocols))
