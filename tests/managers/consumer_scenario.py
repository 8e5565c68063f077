"""A scenario whose consumer is a member by the consumer protocol (KIP-848): the coordinator speaks in topic ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from kwire.managers.consumer_group import ConsumerGroupManager
from kwire.managers.unsent import AnyUnsentRequest
from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from kwire.states.consumer_group import MemberState

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario, brokers
else:
    from scenario import Scenario, brokers

HEARTBEAT = ConsumerGroupHeartbeatRequest
INTERVAL_MS = 5_000


def topic_id(topic: str, incarnation: int = 1) -> UUID:
    """The id of a topic; one that was deleted and recreated has another."""
    return UUID(bytes=topic.encode()[:15].ljust(15, b"\0") + bytes((incarnation,)))


def assignment(*partitions: TopicPartition, incarnation: int = 1) -> Assignment:
    """A target."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for tp in partitions:
        numbers[tp.topic].append(tp.partition)
    topics = [TopicPartitions(topic_id=topic_id(t, incarnation), partitions=n) for t, n in numbers.items()]
    return Assignment(topic_partitions=topics)


class ConsumerScenario(Scenario):
    """Its topics have ids, and Metadata can be asked for them."""

    def __init__(self, **settings: object) -> None:
        super().__init__(group_protocol="consumer", **settings)
        self.incarnations: dict[str, int] = {}

    @property
    def member(self) -> ConsumerGroupManager:
        membership = self.managers.membership
        assert isinstance(membership, ConsumerGroupManager)
        return membership

    def member_state(self) -> MemberState:
        return self.member.state

    # --- the brokers ----------------------------------------------------------------------------------------

    def metadata(self, *, errors: Mapping[str, ErrorCode] | None = None, epoch: int = 5) -> MetadataResponse:
        asked = self.request(MetadataRequest).topics or []
        if not any(topic.name is None for topic in asked):
            return super().metadata(errors=errors, epoch=epoch)
        by_id = {topic_id(name, self.incarnations.get(name, 1)): name for name in self.topics}
        topics = []
        for topic in asked:
            name = by_id.get(topic.topic_id)
            if name is None:
                unknown = MetadataResponseTopic(name=None, topic_id=topic.topic_id)
                unknown.error_code = ErrorCode.UNKNOWN_TOPIC_ID
                topics.append(unknown)
            else:
                topics.append(self._topic(name, None, epoch))
        return MetadataResponse(brokers=brokers(), topics=topics)

    def _topic(self, name: str, error: ErrorCode | None, epoch: int) -> MetadataResponseTopic:
        answer = super()._topic(name, error, epoch)
        if not answer.error_code:
            answer.topic_id = topic_id(name, self.incarnations.get(name, 1))
        return answer

    # --- heartbeats -----------------------------------------------------------------------------------------

    @property
    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """The one that waits for an answer."""
        return self.request(HEARTBEAT)

    def accept(self, epoch: int, target: Assignment | None = None, interval_ms: int = INTERVAL_MS) -> None:
        """Answer the heartbeat: all is well."""
        answer = ConsumerGroupHeartbeatResponse(
            member_epoch=epoch, heartbeat_interval_ms=interval_ms, assignment=target
        )
        self.answer(HEARTBEAT, answer)

    def refuse_heartbeat(self, code: ErrorCode, message: str | None = None) -> None:
        self.answer(HEARTBEAT, ConsumerGroupHeartbeatResponse(error_code=code, error_message=message))

    def start(self, *topics: str) -> None:
        """Up to the first heartbeat."""
        self.subscribe(*(topics or ("orders",)))
        self.poll()
        self.serve()

    def own(self, *partitions: TopicPartition, epoch: int = 1, offset: int = 10) -> None:
        """Join, be assigned, acknowledge, find positions: the member is STABLE, and all is quiet."""
        self.start(*sorted({tp.topic for tp in partitions}))
        self.accept(epoch, assignment(*partitions))
        self.run_callback()
        self.accept(epoch)
        if partitions:
            self.answer_committed(dict.fromkeys(partitions, offset))
        assert self.member_state() is MemberState.STABLE
        self.events.clear()

    def beat(self) -> ConsumerGroupHeartbeatRequest:
        """Wait for the next heartbeat, polling now and then."""
        self.polled_at_ms = self.now_ms
        self.advance(INTERVAL_MS)
        return self.heartbeat

    def flowing(self) -> set[TopicPartition]:
        """Partitions whose records reach the application."""
        view = self.subscription.view
        return set(view.epochs) - view.withheld


def heartbeats(sent: Iterable[AnyUnsentRequest]) -> list[ConsumerGroupHeartbeatRequest]:
    """The heartbeats among requests."""
    return [unsent.request for unsent in sent if isinstance(unsent.request, HEARTBEAT)]


def owned(request: ConsumerGroupHeartbeatRequest) -> dict[UUID, list[int]] | None:
    """What a heartbeat says the member has."""
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: list(topic.partitions) for topic in request.topic_partitions}


def ids(*partitions: TopicPartition) -> dict[UUID, list[int]]:
    """The same, as it should be."""
    numbers: defaultdict[UUID, list[int]] = defaultdict(list)
    for tp in partitions:
        numbers[topic_id(tp.topic)].append(tp.partition)
    return dict(numbers)


def said(request: ConsumerGroupHeartbeatRequest) -> set[str]:
    """The fields a heartbeat carries beyond those that say who sends it."""
    changing: Iterable[tuple[str, object]] = (
        ("rack", request.rack_id),
        ("names", request.subscribed_topic_names),
        ("regex", request.subscribed_topic_regex),
        ("assignor", request.server_assignor),
        ("owned", request.topic_partitions),
    )
    fields = {name for name, value in changing if value is not None}
    return fields | ({"timeout"} if request.rebalance_timeout_ms != -1 else set())
