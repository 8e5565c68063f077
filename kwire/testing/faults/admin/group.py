"""The group: its coordinator, and the removal of members."""

from __future__ import annotations

from confluent_kafka import ConsumerGroupType
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it has them all, without saying so to checkers
    AdminClient,
    ConsumerGroupDescription,
    MemberDescription,
)

from kwire.model import TopicPartition
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.testing.faults.admin.patience import ANSWER_S, AdminError, insist, wait_for
from kwire.testing.faults.admin.topics import Topics
from kwire.testing.faults.admin.wire import Brokers, ask

OF_GROUPS = 0
OFFSETS_TOPIC = "__consumer_offsets"
# The member epoch of who leaves (KIP-848).
LEAVES = -1


class GroupAdmin:
    """The group that faults strike."""

    def __init__(self, client: AdminClient, topics: Topics, brokers: Brokers, group_id: str) -> None:
        self._client = client
        self._topics = topics
        self._brokers = brokers
        self._group_id = group_id

    def described(self) -> ConsumerGroupDescription:
        """The description of the group by its coordinator."""
        return insist(self._describe, "the group is described")

    def _describe(self) -> ConsumerGroupDescription:
        answers = self._client.describe_consumer_groups([self._group_id])
        found: ConsumerGroupDescription = answers[self._group_id].result(ANSWER_S)
        return found

    def coordinator(self) -> int:
        """The broker that coordinates the group, also before it has a member."""
        request = FindCoordinatorRequest(key_type=OF_GROUPS, coordinator_keys=[self._group_id])
        return insist(lambda: self._found(request), "the coordinator is known")

    def _found(self, request: FindCoordinatorRequest) -> int:
        (found,) = self._brokers.ask(request).coordinators
        if found.error_code:
            raise AdminError(f"nobody coordinates the group: error {found.error_code}")
        return found.node_id

    def kept_in(self) -> TopicPartition:
        """The partition of __consumer_offsets that holds it: its leader is the coordinator."""
        count = len(wait_for(lambda: self._topics.placements(OFFSETS_TOPIC), f"{OFFSETS_TOPIC} is there"))
        return TopicPartition(OFFSETS_TOPIC, java_hash(self._group_id) % count)

    def expel(self, client_id: str) -> None:
        """Remove a member. The answer to its next request tells it.

        Raises:
            AdminError: no such member comes, or the coordinator refuses.
        """
        group = wait_for(lambda: self._with(client_id), f"{client_id} is a member")
        member = next(each for each in group.members if each.client_id == client_id)
        expel = self._expel_new if group.type is ConsumerGroupType.CONSUMER else self._expel_classic
        if code := expel(self._brokers.addresses[int(group.coordinator.id)], member):
            raise AdminError(f"{client_id} is not taken out of the group: error {code}")

    def _with(self, client_id: str) -> ConsumerGroupDescription | None:
        group = self.described()
        return group if any(each.client_id == client_id for each in group.members) else None

    def _expel_new(self, address: tuple[str, int], member: MemberDescription) -> int:
        """With the consumer protocol: by saying what the member itself would say if it left."""
        leaves = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=member.member_id,
            instance_id=member.group_instance_id or None,
            member_epoch=LEAVES,
        )
        return ask(address, leaves).error_code

    def _expel_classic(self, address: tuple[str, int], member: MemberDescription) -> int:
        """As Java's `removeMembersFromConsumerGroup` does (KIP-345)."""
        gone = MemberIdentity(member_id=member.member_id, group_instance_id=member.group_instance_id or None)
        answer = ask(address, LeaveGroupRequest(group_id=self._group_id, members=[gone]))
        return answer.error_code or next((each.error_code for each in answer.members if each.error_code), 0)


def java_hash(text: str) -> int:
    """Java's String.hashCode without its sign, by which Kafka chooses a group's partition."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFF_FFFF
    return value if value < 1 << 31 else ((1 << 32) - value) & 0x7FFF_FFFF
