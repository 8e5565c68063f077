"""A consumer's request managers in virtual time, between a scripted application and scripted brokers.

Everything is real but the clock, the network and the application thread: a test posts application events, looks at the
requests that come out, answers or fails them, and lets time pass. Nothing here sleeps or knows what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar
from uuid import UUID

import pytest

from kwire.assignors import resolve
from kwire.clock import NEVER_MS
from kwire.config import ConsumerConfig
from kwire.consumer_events import ConsumerEvent
from kwire.errors import DisconnectError, KafkaError
from kwire.events import (
    ApplicationEvent,
    Assign,
    AssignmentView,
    BackgroundEvent,
    CallbackCompleted,
    Close,
    ErrorRaised,
    PollStarted,
    RecordsDelivered,
    Reply,
    RunCallback,
    Seek,
    Subscribe,
    Unsubscribe,
)
from kwire.fetching.buffer import FetchBuffer
from kwire.managers.classic_group import ClassicGroupManager
from kwire.managers.heartbeat import interval_past_session_ms
from kwire.managers.registry import Environment, RequestManagers
from kwire.managers.unsent import AnyUnsentRequest
from kwire.metrics import ConsumerMetrics
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.network.inbox import Inbox
from kwire.network.run import lag_policy_of
from kwire.protocol.consumer_protocol import encode_assignment, encode_subscription
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages import consumer_protocol as wire
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.states.classic_group import ClassicState
from kwire.subscription.partition import AssignedPartition
from kwire.subscription.subscription import Subscription

T = TypeVar("T")
E = TypeVar("E")
S = TypeVar("S", bound="Scenario")

GROUP = "billing"
BROKERS = (1, 2, 3)
COORDINATOR_ID = 3
MEMBER = "member-a"
OTHER_MEMBER = "member-b"
NOTHING_COMMITTED = -1
STEPS_WITHOUT_END = 10_000
ANSWERS_WITHOUT_END = 100


class Scenario:
    """One consumer. `topics` maps each topic of the cluster to the leaders of its partitions, -1 for none."""

    def __init__(self, **settings: object) -> None:
        given = {"bootstrap_servers": "broker:9092", "group_id": GROUP, "enable_auto_commit": False, **settings}
        self.config = ConsumerConfig.of(given)
        self.now_ms = 1_000_000.0
        self.polled_at_ms = self.now_ms
        self.wake_at_ms = NEVER_MS
        self.wall_clock_ms = 1_700_000_000_000
        self.topics: dict[str, tuple[int, ...]] = {"orders": (1, 2)}
        self.events: list[BackgroundEvent] = []
        self.told: list[ConsumerEvent] = []
        """What operators are told."""
        self.views: list[AssignmentView] = []
        self.unanswered: list[AnyUnsentRequest] = []
        self.data_notices = 0
        self.closes: list[Close] = []
        children = self.config.parallel_rebalance_children if self.config.enable_parallel_rebalance else 0
        self.buffer = FetchBuffer(children)
        self.subscription = Subscription(self.views.append, self.buffer.drop)
        self.metrics = ConsumerMetrics()
        environment = Environment(
            deliver=self.events.append,
            on_data=self._on_data,
            polled_at_ms=lambda: self.polled_at_ms,
            wall_clock_ms=lambda: self.wall_clock_ms,
            chance=lambda: 0.5,  # no jitter: delays are what they are called
            metrics=self.metrics,
            tell_operator=self.told.append,
        )
        self.assignors = resolve(self.config.partition_assignment_strategy)
        self.managers = RequestManagers(
            self.config, self.assignors, self.subscription, self.buffer, environment, lag_policy_of(self.config)
        )
        read_committed = self.config.reads_committed
        self._inbox = Inbox(self.managers, self.closes.append, read_committed=read_committed)

    def _on_data(self) -> None:
        self.data_notices += 1

    # --- time -----------------------------------------------------------------------------------------------

    def turn(self) -> list[AnyUnsentRequest]:
        """One turn of the loop; the new requests."""
        fetch = self.managers.main.fetch
        early = fetch.poll(self.now_ms).requests if fetch.may_poll_early else []
        result = self.managers.poll(self.now_ms)
        requests = early + result.requests
        self.unanswered += requests
        self.wake_at_ms = result.wake_at_ms
        return requests

    def advance(self, duration_ms: float) -> None:
        """Let time pass, with a turn whenever one is due."""
        end_ms = self.now_ms + duration_ms
        for _ in range(STEPS_WITHOUT_END):
            if self.wake_at_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, self.wake_at_ms)
            self.turn()
        else:
            raise AssertionError(f"the loop spins: it wants a turn at {self.wake_at_ms}, and it is {self.now_ms}")
        self.now_ms = end_ms
        self.turn()

    def advance_to_heartbeat(self) -> None:
        """From one heartbeat of the classic protocol to the next."""
        self.advance(interval_past_session_ms(self.config.heartbeat_interval_ms, self.config.session_timeout_ms))

    def assert_at_rest(self) -> None:
        """Nobody breaks the wait rule, and without news there is nothing more to send."""
        self.turn()
        for _ in range(3):
            assert self.turn() == []
        assert self.wake_at_ms > self.now_ms
        assert not self.managers.impatient

    # --- the application ------------------------------------------------------------------------------------

    def post(self, *events: ApplicationEvent) -> None:
        self.post_beside_an_answer(*events)
        self.turn()

    def post_beside_an_answer(self, *events: ApplicationEvent) -> None:
        """Processed in the turn that the next answer comes in: no manager is polled between the two."""
        for event in events:
            self._inbox.process(event, self.now_ms)

    def poll(self) -> None:
        """What `Consumer.poll` does when it has nothing to return: tell the network thread, if that matters."""
        self.polled_at_ms = self.now_ms
        if self.managers.awaits_poll:
            self.post(PollStarted())

    def subscribe(self, *topics: str) -> None:
        self.post(Subscribe(topics=frozenset(topics), reply=Reply()))

    def unsubscribe(self) -> Reply[None]:
        reply: Reply[None] = Reply()
        self.post(Unsubscribe(reply))
        return reply

    def leave_at_the_end(self, leave_group: bool | None) -> list[AnyUnsentRequest]:
        """What the membership has to say when the consumer is closed."""
        self.managers.membership.close(leave_group=leave_group)
        farewell = self.managers.membership.leaving.poll(self.now_ms).requests
        self.unanswered += farewell
        return farewell

    def assign(self, *partitions: TopicPartition) -> None:
        """Assign by hand, and poll: positions are looked up from then on."""
        self.post(Assign(frozenset(partitions), Reply()), PollStarted())

    def seek(self, tp: TopicPartition, offset: int, leader_epoch: int | None = None) -> None:
        self.post(Seek(tp, OffsetAndMetadata(offset, leader_epoch=leader_epoch), Reply()))

    def delivered(self, tp: TopicPartition, offset: int, leader_epoch: int | None = None) -> None:
        """The application was given records up to this offset, and has come back."""
        position = OffsetAndMetadata(offset, leader_epoch=leader_epoch)
        self.post(RecordsDelivered([(tp, self.partition(tp).epoch, position)]))

    def come_back(self) -> None:
        """The application polls again, whatever it has been given."""
        self.buffer.awaits_return = False
        self.turn()

    def take_event(self, kind: type[E]) -> E:
        """The oldest background event of this kind."""
        for event in self.events:
            if isinstance(event, kind):
                self.events.remove(event)
                return event
        raise AssertionError(f"no {kind.__name__} among {self.events}")

    def take_error(self, kind: type[E]) -> E:
        """The error that the next poll raises."""
        error = self.take_event(ErrorRaised).error
        assert isinstance(error, kind), error
        return error

    def run_callback(self) -> RunCallback:
        """The application runs the callback it was asked for."""
        callback = self.take_event(RunCallback)
        self.post(CallbackCompleted(callback.attempt))
        return callback

    @property
    def errors(self) -> list[KafkaError]:
        return [event.error for event in self.events if isinstance(event, ErrorRaised)]

    @property
    def callbacks(self) -> list[RunCallback]:
        return [event for event in self.events if isinstance(event, RunCallback)]

    # --- the brokers ----------------------------------------------------------------------------------------

    def pending(self, kind: type[object]) -> list[AnyUnsentRequest]:
        """The requests of this kind that have no answer yet."""
        return [unsent for unsent in self.unanswered if isinstance(unsent.request, kind)]

    def requests(self, kind: type[T]) -> list[T]:
        """The messages of this kind that have no answer yet."""
        return [unsent.request for unsent in self.unanswered if isinstance(unsent.request, kind)]

    def written_for(self, kind: type[T], version: int) -> T:
        """The oldest unanswered request of this kind, as it is written for a version."""
        make = self._find(kind).for_version
        assert make is not None
        request = make(version)
        assert isinstance(request, kind)
        return request

    def request(self, kind: type[T]) -> T:
        """The oldest unanswered request of this kind."""
        request = self._find(kind).request
        assert isinstance(request, kind)
        return request

    def unsent(self, kind: type[object]) -> AnyUnsentRequest:
        """The same with all that the network is told: destination, versions, timeout."""
        return self._find(kind)

    def answer(self, kind: type[object], answer: object) -> None:
        """Answer the oldest request of this kind, and take the turn that follows."""
        unsent = self._find(kind)
        self.unanswered.remove(unsent)
        unsent.on_answer(answer, self.now_ms)
        self.turn()

    def fail(self, kind: type[object], error: KafkaError | None = None) -> None:
        """Leave the oldest request of this kind without an answer."""
        unsent = self._find(kind)
        self.unanswered.remove(unsent)
        unsent.on_failure(error or DisconnectError("the broker hung up"), self.now_ms)
        self.turn()

    def _find(self, kind: type[object]) -> AnyUnsentRequest:
        for unsent in self.unanswered:
            if isinstance(unsent.request, kind):
                return unsent
        raise AssertionError(f"no {kind.__name__} among {self.unanswered}")

    def serve(self) -> None:
        """Answer metadata and coordinator look-ups until there are none."""
        for _ in range(ANSWERS_WITHOUT_END):
            if self.pending(MetadataRequest):
                self.answer(MetadataRequest, self.metadata())
            elif self.pending(FindCoordinatorRequest):
                self.answer(FindCoordinatorRequest, self.coordinator())
            else:
                return
        raise AssertionError(f"the same is asked again and again: {self.unanswered}")

    def serve_all_but_the_group(self) -> None:
        """The same, and what is committed: offset 5 everywhere."""
        for _ in range(ANSWERS_WITHOUT_END):
            self.serve()
            if not self.pending(OffsetFetchRequest):
                return
            asked = self.request(OffsetFetchRequest).groups[0].topics or []
            self.answer_committed({TopicPartition(t.name, number): 5 for t in asked for number in t.partition_indexes})
        raise AssertionError(f"the same is asked again and again: {self.unanswered}")

    def serve_once(self) -> None:
        """Answer the oldest metadata request only: what is missing is asked for again."""
        self.answer(MetadataRequest, self.metadata())

    def refresh(self, *, epoch: int = 5, topic_id: int = 0) -> None:
        """New metadata, after a second; the first topic has this id."""
        self.advance(1_000)
        self.managers.metadata.request_update()
        self.turn()
        answer = self.metadata(epoch=epoch)
        answer.topics[0].topic_id = UUID(int=topic_id)
        self.answer(MetadataRequest, answer)

    def metadata(self, *, errors: Mapping[str, ErrorCode] | None = None, epoch: int = 5) -> MetadataResponse:
        """The cluster as the oldest Metadata request asks for it."""
        asked = self.request(MetadataRequest).topics
        names = list(self.topics) if asked is None else [topic.name for topic in asked if topic.name is not None]
        return MetadataResponse(
            brokers=brokers(),
            topics=[self._topic(name, (errors or {}).get(name), epoch) for name in names],
        )

    def _topic(self, name: str, error: ErrorCode | None, epoch: int) -> MetadataResponseTopic:
        leaders = self.topics.get(name)
        if error is not None or leaders is None:
            return MetadataResponseTopic(name=name, error_code=error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = [
            MetadataResponsePartition(
                partition_index=number, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2]
            )
            for number, leader in enumerate(leaders)
        ]
        return MetadataResponseTopic(name=name, partitions=partitions)

    def coordinator(self, node_id: int = COORDINATOR_ID, error: ErrorCode = ErrorCode.NONE) -> FindCoordinatorResponse:
        found = Coordinator(key=GROUP, node_id=node_id, host=f"broker-{node_id}", port=9092, error_code=error)
        return FindCoordinatorResponse(coordinators=[found])

    # --- a group --------------------------------------------------------------------------------------------

    @property
    def state(self) -> ClassicState:
        membership = self.managers.membership
        assert isinstance(membership, ClassicGroupManager)
        return membership.state

    def expect(self, state: ClassicState) -> None:
        assert self.state is state

    def start_joining(self, *topics: str, wanted: str | None = None) -> None:
        """Up to the first JoinGroup."""
        self.subscribe(*(topics or ("orders",)))
        self.poll()
        self.serve()

    def join(
        self, generation: int = 1, *, leader: str = MEMBER, members: Mapping[str, Iterable[str]] | None = None
    ) -> None:
        """Answer JoinGroup: the group is complete."""
        wanted = members if members is not None else {MEMBER: self.subscription.topics}
        joined = JoinGroupResponse(
            generation_id=generation,
            protocol_name=self.assignors[0].name,
            leader=leader,
            member_id=MEMBER,
            members=[member(id_, topics) for id_, topics in wanted.items()] if leader == MEMBER else [],
        )
        self.answer(JoinGroupRequest, joined)

    def sync(self, *partitions: TopicPartition) -> None:
        """Answer SyncGroup: this is what the member gets."""
        self.answer(SyncGroupRequest, SyncGroupResponse(assignment=assignment(*partitions)))

    def refuse(self, kind: type[object], code: ErrorCode) -> None:
        """Answer with an error code and nothing else."""
        answers: dict[type[object], Callable[..., object]] = {
            JoinGroupRequest: JoinGroupResponse,
            SyncGroupRequest: SyncGroupResponse,
            HeartbeatRequest: HeartbeatResponse,
        }
        self.answer(kind, answers[kind](error_code=code))

    def become_stable(self, *partitions: TopicPartition, generation: int = 1, offset: int = 10) -> None:
        """Join, be assigned, find positions: the member is STABLE."""
        self.start_joining(*sorted({tp.topic for tp in partitions}))
        self.rejoin(*partitions, generation=generation, offset=offset)

    def rejoin(self, *partitions: TopicPartition, generation: int = 1, offset: int = 10) -> None:
        """From JoinGroup to STABLE."""
        self.join(generation)
        self.sync(*partitions)
        self.run_callback()
        if partitions:
            self.answer_committed(dict.fromkeys(partitions, offset))
        assert self.state is ClassicState.STABLE
        self.events.clear()

    # --- offsets --------------------------------------------------------------------------------------------

    def partition(self, tp: TopicPartition) -> AssignedPartition:
        return self.subscription.partitions[tp]

    def answer_committed(
        self, offsets: Mapping[TopicPartition, int], errors: Mapping[TopicPartition, ErrorCode] | None = None
    ) -> None:
        """Answer OffsetFetch in its newest shape; -1 for nothing committed."""
        topics = [
            OffsetFetchResponseTopics(
                name=tp.topic,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=tp.partition, committed_offset=offset, error_code=(errors or {}).get(tp, 0)
                    )
                ],
            )
            for tp, offset in offsets.items()
        ]
        self.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[OffsetFetchResponseGroup(topics=topics)]))

    def answer_commit(self, *codes: ErrorCode) -> None:
        """Answer OffsetCommit, partition by partition in the order of the request; without codes all succeed."""
        request = self.request(OffsetCommitRequest)
        left = list(codes)
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=left.pop(0) if left else ErrorCode.NONE
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        self.answer(OffsetCommitRequest, OffsetCommitResponse(topics=topics))

    def answer_offsets(
        self, offsets: Mapping[TopicPartition, int], errors: Mapping[TopicPartition, ErrorCode] | None = None
    ) -> None:
        """Answer ListOffsets."""
        topics = [
            ListOffsetsTopicResponse(
                name=tp.topic,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=tp.partition,
                        offset=offset,
                        timestamp=0,
                        leader_epoch=5,
                        error_code=(errors or {}).get(tp, 0),
                    )
                ],
            )
            for tp, offset in offsets.items()
        ]
        self.answer(ListOffsetsRequest, ListOffsetsResponse(topics=topics))

    def start_fetching(self, *partitions: TopicPartition, offset: int = 0) -> None:
        """By hand, with known positions, so that no coordinator is asked: up to the first fetches."""
        seeks = [Seek(tp, OffsetAndMetadata(offset), Reply()) for tp in partitions]
        self.post(Assign(frozenset(partitions), Reply()), *seeks)
        self.serve()
        assert self.pending(FetchRequest)


@contextmanager
def all_at_rest(kind: Callable[..., S]) -> Iterator[Callable[..., S]]:
    """Makes scenarios with the settings it is given; at the end none of them may spin."""
    made: list[S] = []

    def make(**settings: object) -> S:
        made.append(kind(**settings))
        return made[-1]

    yield make
    for scenario in made:
        scenario.assert_at_rest()


def error_of(reply: Reply[T]) -> KafkaError:
    """What a call raises that this reply has ended."""
    assert reply.done
    with pytest.raises(KafkaError) as caught:
        reply.result()
    return caught.value


def brokers() -> list[MetadataResponseBroker]:
    return [
        MetadataResponseBroker(node_id=node_id, host=f"broker-{node_id}", port=9092, rack=f"rack-{node_id}")
        for node_id in BROKERS
    ]


def member(member_id: str, topics: Iterable[str], rack: str | None = None) -> JoinGroupResponseMember:
    subscription = wire.ConsumerProtocolSubscription(topics=sorted(topics), rack_id=rack)
    return JoinGroupResponseMember(member_id=member_id, metadata=encode_subscription(3, subscription))


def assignment(*partitions: TopicPartition) -> bytes:
    assigned = [wire.TopicPartition(topic=tp.topic, partitions=[tp.partition]) for tp in sorted(partitions)]
    return encode_assignment(0, wire.ConsumerProtocolAssignment(assigned_partitions=assigned))
