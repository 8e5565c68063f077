"""A member of a classic group: its identity, protocols, assignment, and the answers that it waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.protocol.messages.describe_groups import DescribedGroupMember
from kwire.protocol.messages.join_group import JoinGroupResponse
from kwire.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Collection

    from kwire.protocol.error_codes import ErrorCode
    from kwire.testing.cluster.groups.pending import Pending


@dataclass(slots=True, kw_only=True)
class ClassicMemberEntry:
    """A member. `protocols` are names and subscriptions, the preferred one first."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: list[tuple[str, bytes]]
    assignment: bytes = b""
    is_new: bool = False
    waiting_join: Pending[JoinGroupResponse] | None = None
    waiting_sync: Pending[SyncGroupResponse] | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_excused(self) -> bool:
        """Whether its session may run out: who waits for an answer cannot send heartbeats, so it lives on.

        Unless it is new: a client that gave up waiting would come back as yet another member, for ever.
        """
        return not self.is_new and (self.waiting_join is not None or self.waiting_sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """The subscription of the member for this protocol."""
        return dict(self.protocols).get(protocol or "", b"")

    def vote(self, candidates: Collection[str]) -> str:
        """The preferred protocol of the member among the candidates."""
        return next(name for name, _ in self.protocols if name in candidates)

    def answer_join(self, response: JoinGroupResponse) -> None:
        """Answer its JoinGroup, if one is open."""
        waiting, self.waiting_join = self.waiting_join, None
        if waiting is not None:
            waiting.complete(response)

    def answer_sync(self, response: SyncGroupResponse) -> bool:
        """Answer its SyncGroup; False if none is open."""
        waiting, self.waiting_sync = self.waiting_sync, None
        if waiting is None:
            return False
        waiting.complete(response)
        return True

    def refuse(self, code: ErrorCode) -> None:
        """Answer whatever is open with an error."""
        self.answer_join(JoinGroupResponse(error_code=code, member_id=self.member_id))
        self.answer_sync(SyncGroupResponse(error_code=code))

    def described(self, protocol: str | None) -> DescribedGroupMember:
        """What DescribeGroups says of it; the subscription is told with a protocol only."""
        return DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=self.metadata(protocol) if protocol is not None else b"",
            member_assignment=self.assignment,
        )
