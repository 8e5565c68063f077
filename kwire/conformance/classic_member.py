"""A member of a classic group, request by request: the checks decide what is sent when, and in which version.

`send_join` and `receive_join` are separate because a join is answered only when all members have joined, and one thread
drives several members. At the end of its `with` block a member leaves the group, so that the group can be deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kwire.conformance.expectations import expect, expect_error, expect_ok
from kwire.conformance.offsets import CheckedCommitter
from kwire.protocol.consumer_protocol import encode_subscription
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.conformance.broker import Coordinated, JudgedBroker
    from kwire.protocol.messages.join_group import JoinGroupResponse
    from kwire.protocol.messages.leave_group import LeaveGroupResponse
    from kwire.protocol.messages.sync_group import SyncGroupResponse

PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
SESSION_TIMEOUT_MS = 10_000
"""A session timeout that brokers allow by default: 6 s to 30 min."""

MEMBER_ID_REQUIRED_FROM = 4
"""From this version on the first JoinGroup is answered with a member id and nothing else (KIP-394)."""

STATIC_FROM = {JoinGroupRequest: 5, SyncGroupRequest: 3, HeartbeatRequest: 3, LeaveGroupRequest: 3}
"""The first versions of requests with the group instance id (KIP-345)."""

MANY_LEAVE_FROM = 3


class ClassicJoiner:
    """One member. `join_version` is its version of JoinGroup; other requests have the highest version by default."""

    def __init__(
        self,
        broker: JudgedBroker,
        group: Coordinated,
        join_version: int | None = None,
        *,
        instance_id: str | None = None,
    ) -> None:
        self.broker = broker
        self.group = group
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.join_version = broker.highest(JoinGroupRequest) if join_version is None else join_version
        self._connection = broker.connect(group.address)

    def __enter__(self) -> ClassicJoiner:
        return self

    def __exit__(self, *_exc_info: object) -> None:
        # On a connection of its own: on this one an answer may still be due.
        self._connection.close()
        if self.member_id:
            self.leave()

    @property
    def committer(self) -> CheckedCommitter:
        """The member, as OffsetCommit names it."""
        return CheckedCommitter(member_id=self.member_id, generation=self.generation, instance_id=self.instance_id)

    # --- joining ---------------------------------------------------------------------------------------------

    def join_request(self, **changes: object) -> JoinGroupRequest:
        """The JoinGroup request, with some fields changed."""
        metadata = encode_subscription(0, ConsumerProtocolSubscription(topics=[]))
        request = JoinGroupRequest(
            group_id=self.group.name,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=SESSION_TIMEOUT_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata)],
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return request

    def ask_to_join(self, **changes: object) -> JoinGroupResponse:
        """Send JoinGroup. Returns the answer, whatever it is."""
        return self._connection.ask(self.join_request(**changes), self.join_version)

    def send_join(self) -> None:
        """Send JoinGroup without waiting for the answer; if the version requires a member id, get one first."""
        if not self.member_id and self.join_version >= MEMBER_ID_REQUIRED_FROM and self.instance_id is None:
            answer = self.ask_to_join()
            expect_error(answer.error_code, ErrorCode.MEMBER_ID_REQUIRED, what="the first JoinGroup")
            expect(bool(answer.member_id), "MEMBER_ID_REQUIRED came without a member id")
            self.member_id = answer.member_id
        self._connection.send(self.join_request(), self.join_version)

    def receive_join(self) -> JoinGroupResponse:
        """The answer to `send_join`, which has to be a generation."""
        answer = cast("JoinGroupResponse", self._connection.receive())
        expect_ok(answer.error_code, "JoinGroup")
        expect(bool(answer.member_id), "JoinGroup answered no member id")
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def join(self) -> JoinGroupResponse:
        """Join as the last member that the rebalance waits for."""
        self.send_join()
        return self.receive_join()

    # --- being a member --------------------------------------------------------------------------------------

    def sync_request(
        self, assignments: Mapping[str, bytes] | None = None, version: int | None = None
    ) -> SyncGroupRequest:
        """The SyncGroup request; that of the leader has assignments by member id."""
        version = self.broker.highest(SyncGroupRequest) if version is None else version
        return SyncGroupRequest(
            group_id=self.group.name,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._instance_id(SyncGroupRequest, version),
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=assignment)
                for member, assignment in (assignments or {}).items()
            ],
        )

    def sync(self, assignments: Mapping[str, bytes] | None = None, version: int | None = None) -> SyncGroupResponse:
        """Send SyncGroup. Returns the answer, whatever it is."""
        version = self.broker.highest(SyncGroupRequest) if version is None else version
        return self._connection.ask(self.sync_request(assignments, version), version)

    def join_alone(self, assignment: bytes = b"all") -> None:
        """Join, lead, and assign: after this the group is stable, and this is its only member."""
        self.join()
        expect_ok(self.sync({self.member_id: assignment}).error_code, "SyncGroup")

    def heartbeat(self, version: int | None = None, *, generation: int | None = None) -> int:
        """Send Heartbeat. Returns the error code."""
        version = self.broker.highest(HeartbeatRequest) if version is None else version
        request = HeartbeatRequest(
            group_id=self.group.name,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id,
            group_instance_id=self._instance_id(HeartbeatRequest, version),
        )
        return self._connection.ask(request, version).error_code

    def leave(self, version: int | None = None) -> LeaveGroupResponse:
        """Send LeaveGroup. Returns the answer, whatever it is."""
        version = self.broker.highest(LeaveGroupRequest) if version is None else version
        request = LeaveGroupRequest(group_id=self.group.name)
        if version >= MANY_LEAVE_FROM:
            request.members = [MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)]
        else:
            request.member_id = self.member_id
        return self.broker.ask(request, version, address=self.group.address)

    def _instance_id(self, request: type[HeartbeatRequest | SyncGroupRequest], version: int) -> str | None:
        return self.instance_id if version >= STATIC_FROM[request] else None
