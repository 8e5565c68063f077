"""All groups of the cluster by id, and their offsets. `state` has one; handlers and the clockwork use it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.join_group import JoinGroupResponse
from kwire.testing.cluster.groups import classic_join
from kwire.testing.cluster.groups.classic import ClassicGroup
from kwire.testing.cluster.groups.offsets import CommittedOffset, OffsetStore
from kwire.testing.cluster.groups.pending import Pending
from kwire.testing.cluster.groups.refusal import GroupRefusal
from kwire.testing.cluster.groups.surroundings import Client, CoordinatorServices

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from kwire.model import TopicPartition
    from kwire.protocol.messages.join_group import JoinGroupRequest
    from kwire.testing.cluster.groups.group import Group

SERVED_BOTH_PROTOCOLS_FROM = 9
"""The version of OffsetCommit that says GROUP_ID_NOT_FOUND (KIP-848)."""


class GroupStore:
    """Groups in the order in which they came."""

    def __init__(self, surroundings: CoordinatorServices) -> None:
        self.surroundings = surroundings
        self.offsets = OffsetStore()
        self._groups: dict[str, Group] = {}

    # --- looking, making, removing ---------------------------------------------------------------------------

    def get(self, group_id: str) -> Group | None:
        """The group, if there is one."""
        return self._groups.get(group_id)

    def all(self) -> list[Group]:
        """All of them."""
        return list(self._groups.values())

    def put(self, group: Group) -> None:
        """Add a group, in place of one with the same id."""
        self._groups[group.group_id] = group

    def remove(self, group_id: str) -> None:
        """Remove a group. Its offsets stay."""
        group = self._groups.pop(group_id, None)
        if isinstance(group, ClassicGroup):
            group.die()

    def classic(self, group_id: str) -> ClassicGroup:
        """The classic group of that id; a new one, if there is none, or an empty one of the other kind (KIP-848)."""
        found = self._groups.get(group_id)
        if isinstance(found, ClassicGroup):
            return found
        made = ClassicGroup(group_id, self.surroundings)
        self.put(made)
        return made

    def delete(self, group_id: str) -> ErrorCode:
        """Delete a group without members, with its offsets."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if not group.is_empty:
            return ErrorCode.NON_EMPTY_GROUP
        self.remove(group_id)
        self.offsets.delete_group(group_id)
        return ErrorCode.NONE

    # --- requests that may make a group ----------------------------------------------------------------------

    def join(self, request: JoinGroupRequest, client: Client, now_ms: float) -> Pending[JoinGroupResponse]:
        """JoinGroup for a classic group, or for one that becomes one because it has no members."""
        found = self._groups.get(request.group_id)
        if request.member_id and not isinstance(found, ClassicGroup):
            answer: Pending[JoinGroupResponse] = Pending(self.surroundings.notify)
            answer.complete(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id))
            return answer
        return classic_join.join(self.classic(request.group_id), request, client, now_ms)

    def check_commit(
        self,
        group_id: str,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int,
        is_transactional: bool,
        partitions: Iterable[tuple[UUID, int]],
        now_ms: float,
    ) -> None:
        """Raises: Refusal, if this commit is not taken. Who commits without being a member makes an empty group."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._made_for_commit(group_id, generation, version, is_transactional=is_transactional)
        try:
            group.check_commit(
                member_id=member_id,
                instance_id=instance_id,
                generation=generation,
                version=version,
                is_transactional=is_transactional,
                partitions=partitions,
            )
        except GroupRefusal as refusal:
            if is_transactional and refusal.code is ErrorCode.STALE_MEMBER_EPOCH:
                raise GroupRefusal(ErrorCode.ILLEGAL_GENERATION) from refusal  # TxnOffsetCommit has no such error
            raise
        if isinstance(group, ClassicGroup) and not is_transactional:
            group.touch(member_id, now_ms)

    def _made_for_commit(self, group_id: str, generation: int, version: int, *, is_transactional: bool) -> Group:
        if generation < 0:
            return self.classic(group_id)
        if version >= SERVED_BOTH_PROTOCOLS_FROM and not is_transactional:
            raise GroupRefusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        raise GroupRefusal(ErrorCode.ILLEGAL_GENERATION)

    # --- what happens around -----------------------------------------------------------------------------------

    def expire(self, now_ms: float) -> float:
        """Do what is due in all groups. Returns when something is due next."""
        for group in self.all():
            group.expire(now_ms)
        # Asked anew: a timer may have put another group in the place of its own (KIP-848's downgrade).
        return min((group.next_timer_ms() for group in self.all()), default=math.inf)

    def coordinator_moved(self, group_id: str, now_ms: float) -> None:
        """The group has another coordinator, which reads the log and knows no more than that."""
        group = self._groups.get(group_id)
        if group is not None:
            group.coordinator_moved(now_ms)

    def topic_deleted(self, topic: str, now_ms: float) -> None:
        """A topic is gone, and positions in it with it."""
        del now_ms
        self.offsets.delete_topic(topic)

    def committed(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """What a group has committed."""
        return self.offsets.of_group(group_id)
