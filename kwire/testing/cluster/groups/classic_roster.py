"""The roster of a classic group: members, static members by instance id, the leader, and pending members.

Bookkeeping without time or state; `classic.ClassicGroup` decides when any of this happens. Members keep the order in
which they came, where Kafka's order is that of a hash map.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.testing.cluster.groups.refusal import GroupRefusal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kwire.testing.cluster.groups.classic_member import ClassicMemberEntry


class Roster:
    """The members of a group. The sets are dictionaries: their order is always the same."""

    def __init__(self) -> None:
        self.members: dict[str, ClassicMemberEntry] = {}
        self.static_ids: dict[str, str] = {}
        """Member ids by group instance id (KIP-345)."""
        self.pending_joins: dict[str, None] = {}
        """Ids that were handed out with MEMBER_ID_REQUIRED and not come back yet (KIP-394)."""
        self.pending_syncs: dict[str, None] = {}
        """Members that have joined this generation and have not sent SyncGroup."""
        self.leader_id: str | None = None

    # --- coming and going ------------------------------------------------------------------------------------

    def add(self, member: ClassicMemberEntry) -> None:
        """A member joins; the first one leads."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self.leader_id = self.leader_id or member.member_id
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """A member, or somebody who was about to become one, is gone; another leads if need be."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.static_ids.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def rename(self, old_id: str, new_id: str) -> ClassicMemberEntry:
        """A static member came back: the same member under a new id, in the last place, leading if it led."""
        member = self.members.pop(old_id)
        member.member_id = new_id
        self.members[new_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    def clear(self) -> None:
        """Remove all members."""
        for entries in (self.members, self.static_ids, self.pending_joins, self.pending_syncs):
            entries.clear()
        self.leader_id = None

    # --- who is who ------------------------------------------------------------------------------------------

    def check(self, member_id: str, instance_id: str | None) -> None:
        """Raises: Refusal, if there is no such member, or its instance id belongs to another one by now."""
        if instance_id is not None:
            holder = self.static_ids.get(instance_id)
            if holder is not None and holder != member_id:
                raise GroupRefusal(ErrorCode.FENCED_INSTANCE_ID)
            if holder is None:
                raise GroupRefusal(ErrorCode.UNKNOWN_MEMBER_ID)
        if member_id not in self.members:
            raise GroupRefusal(ErrorCode.UNKNOWN_MEMBER_ID)

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def waiting_to_join(self) -> int:
        """The number of members that have joined and wait for the others."""
        return sum(member.waiting_join is not None for member in self.members.values())

    def has_everybody_joined(self) -> bool:
        """Whether all members have joined."""
        return not self.pending_joins and self.waiting_to_join() == len(self.members)

    def absent(self) -> list[ClassicMemberEntry]:
        """The members that have not joined this rebalance, without static members (KIP-345)."""
        return [m for m in self.members.values() if m.waiting_join is None and not m.is_static]

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader; False if none has joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].waiting_join is None:
            joined = next((m.member_id for m in self.members.values() if m.waiting_join is not None), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    # --- what all of them can --------------------------------------------------------------------------------

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def common_protocols(self) -> set[str]:
        """The protocols that every member has."""
        supported = Counter(name for member in self.members.values() for name in dict(member.protocols))
        return {name for name, count in supported.items() if count == len(self.members)}

    def has_common(self, protocols: Iterable[str]) -> bool:
        """Whether one of these is had by every member; with no members, that is any."""
        return not self.members or not self.common_protocols().isdisjoint(protocols)

    def selected_protocol(self) -> str:
        """Each member votes for the first of its own that all have; the most votes win, the first voter breaks ties."""
        candidates: Collection[str] = self.common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]
