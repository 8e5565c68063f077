"""A classic group without network or real time: what members ask, and the clock, are calls of the test."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from kwire.protocol.consumer_protocol import encode_subscription
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kwire.protocol.messages.leave_group import MemberIdentity
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kwire.testing.cluster.groups import classic_join, classic_leave, classic_sync
from kwire.testing.cluster.groups.classic import ClassicGroup
from kwire.testing.cluster.groups.refusal import GroupRefusal
from kwire.testing.cluster.groups.surroundings import Client, CoordinatorServices
from kwire.testing.cluster.settings import BrokerSettings

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from kwire.testing.cluster.groups.pending import Pending

GROUP = "billing"
SESSION_MS, REBALANCE_MS = 10_000, 60_000


@dataclass(slots=True, kw_only=True)
class Member:
    """What one client of the scene is and knows."""

    scene: Scene
    instance_id: str | None = None
    version: int = 9
    protocols: Sequence[str] = ("range",)
    topics: Sequence[str] = ("orders",)
    rebalance_timeout_ms: int = REBALANCE_MS
    member_id: str = ""
    generation: int = -1
    joining: Pending[JoinGroupResponse] | None = None

    def ask_to_join(self) -> JoinGroupResponse | None:
        """One JoinGroup; the answer, if there is one at once."""
        metadata = encode_subscription(0, ConsumerProtocolSubscription(topics=list(self.topics)))
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in self.protocols],
        )
        client = Client("client", "/127.0.0.1", self.version)
        self.joining = classic_join.join(self.scene.group, request, client, self.scene.now_ms)
        return self.joining.value

    def join(self) -> Member:
        """Join, with the detour over MEMBER_ID_REQUIRED; the answer may be still to come."""
        answer = self.ask_to_join()
        if answer is not None and answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.ask_to_join()
        return self

    @property
    def joined(self) -> JoinGroupResponse:
        """The answer to the last JoinGroup, a generation."""
        answer = self.join_answer
        assert answer.error_code == ErrorCode.NONE
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    @property
    def join_answer(self) -> JoinGroupResponse:
        """The answer to the last JoinGroup, whatever it is."""
        assert self.joining is not None
        assert self.joining.value is not None, "JoinGroup is not answered yet"
        return self.joining.value

    @property
    def waits(self) -> bool:
        """Whether its JoinGroup is open."""
        return self.joining is not None and self.joining.value is None

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> Pending[SyncGroupResponse]:
        """One SyncGroup, with assignments if it leads."""
        given = [SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in (assignments or {}).items()]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            assignments=given,
        )
        return classic_sync.sync(self.scene.group, request, self.scene.now_ms)

    def heartbeat(self) -> ErrorCode:
        """One Heartbeat."""
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return classic_sync.heartbeat(self.scene.group, request, self.scene.now_ms)

    def leave(self) -> int:
        """One LeaveGroup; the member's error code."""
        return self.scene.leave(MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id))[0]

    def commit_error(self, *, generation: int | None = None, is_transactional: bool = False) -> ErrorCode:
        """What an OffsetCommit of this member would be answered."""
        try:
            self.scene.group.check_commit(
                member_id=self.member_id,
                instance_id=self.instance_id,
                generation=self.generation if generation is None else generation,
                version=9,
                is_transactional=is_transactional,
                partitions=(),
            )
        except GroupRefusal as refusal:
            return refusal.code
        return ErrorCode.NONE


@dataclass(slots=True)
class Scene:
    """The group and the time."""

    group: ClassicGroup
    now_ms: float = 0.0
    notified: list[Hashable] = field(default_factory=list)

    def member(self, **facts: object) -> Member:
        """A client that has not joined."""
        made = Member(scene=self)
        for name, value in facts.items():
            setattr(made, name, value)
        return made

    def stable(self, *members: Member) -> None:
        """All of these join, and come back for those behind them; afterwards the group is stable."""
        for member in members:
            member.join()
        for member in members:
            if not member.waits and self.group.state_name == "PreparingRebalance":
                member.join()
        self.settle(*members)

    def settle(self, *members: Member) -> None:
        """All of these, who have joined, sync; afterwards the group is stable."""
        for member in members:
            assert member.joined.generation_id == self.group.generation
        syncs = [m.sync(self.shares() if m.joined.leader == m.member_id else None) for m in members]
        assert all(sync.value is not None and sync.value.error_code == ErrorCode.NONE for sync in syncs)
        assert self.group.state_name == "Stable"

    def shares(self) -> dict[str, bytes]:
        """An assignment for everybody: what its own id says."""
        return {member_id: member_id.encode() for member_id in self.group.members}

    def leave(self, *identities: MemberIdentity) -> list[int]:
        """One LeaveGroup; the code of each."""
        return [answer.error_code for answer in classic_leave.leave(self.group, identities, self.now_ms)]

    def after(self, duration_ms: float) -> None:
        """Time passes; whatever is due on the way happens at its time."""
        end_ms = self.now_ms + duration_ms
        while self.group.next_timer_ms() <= end_ms:
            self.now_ms = max(self.now_ms, self.group.next_timer_ms())
            self.group.expire(self.now_ms)
        self.now_ms = end_ms


def synced(answer: Pending[SyncGroupResponse]) -> SyncGroupResponse:
    """The answer to a SyncGroup, which is there."""
    assert answer.value is not None, "SyncGroup is not answered yet"
    return answer.value


def is_open(answer: Pending[SyncGroupResponse]) -> bool:
    """Whether a SyncGroup is not answered yet."""
    return answer.value is None


def scene(**settings: int) -> Scene:
    """A new group; settings are the broker's."""
    notified: list[Hashable] = []
    surroundings = CoordinatorServices(settings=BrokerSettings.of(settings), random=Random(7), notify=notified.append)
    return Scene(ClassicGroup(GROUP, surroundings), notified=notified)
