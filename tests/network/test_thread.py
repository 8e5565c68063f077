"""A whole consumer, network thread included, against a scripted broker in memory: how it ends, and what is heard."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from kwire import Consumer, TopicPartition
from kwire.errors import InternalError
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse
from kwire.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
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
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.network_clients import network_thread_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.protocol.schema import Message, Request, Response
    from tests.network.conftest import MemoryNetwork, ScriptedBroker

BROKER = ("broker", 9092)
TP = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=7)
SESSION_ID = 42
# Version 0, one topic "orders" with partition 0, no user data: as a leader writes it.
ASSIGNMENT = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff"


class OneTopic:
    """What a broker with one empty topic and a group of one member says. It never answers what is in `silent_to`."""

    def __init__(self) -> None:
        self.silent_to: set[type[Request[Message]]] = set()
        self.fetches = 0

    def __call__(self, request: Request[Message], version: int) -> Response | None:  # noqa: C901  one case a kind
        if type(request) in self.silent_to:
            return None
        match request:
            case MetadataRequest():
                partition = MetadataResponsePartition(leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1])
                topic = MetadataResponseTopic(name=TP.topic, topic_id=TOPIC_ID, partitions=[partition])
                broker = MetadataResponseBroker(node_id=1, host=BROKER[0], port=BROKER[1])
                return MetadataResponse(brokers=[broker], topics=[topic])
            case FindCoordinatorRequest():
                host, port = BROKER
                found = Coordinator(key="group", node_id=1, host=host, port=port)
                return FindCoordinatorResponse(coordinators=[found])
            case JoinGroupRequest():
                return JoinGroupResponse(
                    generation_id=1, protocol_type="consumer", protocol_name="range", leader="other", member_id="me"
                )
            case SyncGroupRequest():
                return SyncGroupResponse(assignment=ASSIGNMENT)
            case OffsetFetchRequest():
                nothing = OffsetFetchResponsePartitions(committed_offset=-1)
                topics = [OffsetFetchResponseTopics(name=TP.topic, partitions=[nothing])]
                return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="group", topics=topics)])
            case ListOffsetsRequest():
                start = ListOffsetsPartitionResponse(offset=0, leader_epoch=0)
                return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TP.topic, partitions=[start])])
            case FetchRequest():
                return self._fetch()
            case HeartbeatRequest():
                return HeartbeatResponse()
            case LeaveGroupRequest():
                return LeaveGroupResponse()
            case _:
                return None

    def _fetch(self) -> FetchResponse | None:
        """The first makes the session, the second is a long poll without an end, and the last ends the session."""
        self.fetches += 1
        return FetchResponse(session_id=SESSION_ID) if self.fetches != 2 else None


@pytest.fixture
def says() -> OneTopic:
    return OneTopic()


@pytest.fixture
def broker(says: OneTopic, network: MemoryNetwork, scripted_broker: type[ScriptedBroker]) -> ScriptedBroker:
    network.hosts[BROKER] = scripted_broker(says)
    return network.hosts[BROKER]  # type: ignore[return-value]  # put there in the line above


@pytest.fixture
def consumer(
    broker: ScriptedBroker, network: MemoryNetwork, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Consumer[bytes, bytes]]:
    """In the group, assigned, and fetching."""
    monkeypatch.setattr("kwire.network.run.TcpTransport", lambda *sizes: network)
    with Consumer[bytes, bytes](
        TP.topic, bootstrap_servers="broker:9092", group_id="group", enable_auto_commit=False
    ) as consumer:
        until_s = time.monotonic() + 10
        while len(broker.times_of(FetchRequest)) < 2:  # the answer to the first has made the session
            assert not consumer.poll(0.01)
            assert time.monotonic() < until_s, broker.asked
        yield consumer


def last_of(broker: ScriptedBroker, kind: type[Request[Message]]) -> Request[Message]:
    return [request for _, request, _ in broker.asked if isinstance(request, kind)][-1]


def test_closing_says_goodbye(consumer: Consumer[bytes, bytes], broker: ScriptedBroker) -> None:
    """The group need not wait for the session timeout, nor the broker keep the fetch session."""
    assert consumer.assignment() == {TP}
    consumer.close()
    leave = last_of(broker, LeaveGroupRequest)
    assert isinstance(leave, LeaveGroupRequest)
    assert [member.member_id for member in leave.members] == ["me"]
    fetch = last_of(broker, FetchRequest)
    assert isinstance(fetch, FetchRequest)
    assert (fetch.session_id, fetch.session_epoch) == (SESSION_ID, -1)
    assert not network_thread_of(consumer).is_alive()


def test_closing_may_keep_the_membership(consumer: Consumer[bytes, bytes], broker: ScriptedBroker) -> None:
    consumer.close(leave_group=False)
    assert not broker.times_of(LeaveGroupRequest)
    assert not network_thread_of(consumer).is_alive()


@pytest.mark.parametrize("kind", [LeaveGroupRequest, FetchRequest])
def test_closing_waits_no_longer_than_it_may(
    consumer: Consumer[bytes, bytes], says: OneTopic, kind: type[Request[Message]]
) -> None:
    says.silent_to.add(kind)
    started_s = time.monotonic()
    consumer.close(timeout=0.1)
    assert 0.05 < time.monotonic() - started_s < 1
    assert not network_thread_of(consumer).is_alive()


def test_a_dead_network_thread_is_heard_of(
    consumer: Consumer[bytes, bytes], network: MemoryNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug somewhere below: the next call that needs the thread raises it with its cause, and close is quick."""

    def bug(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(consumer._session.link.mailbox, "drain", bug)
    with pytest.raises(
        InternalError, match=r"died: ZeroDivisionError\('a bug'\); this is a bug, please report"
    ) as caught:
        consumer.end_offsets([TP])
    assert caught.value.__cause__ is not None
    with pytest.raises(InternalError):
        consumer.poll(1.0)
    started_s = time.monotonic()
    consumer.close()
    assert time.monotonic() - started_s < 1
    assert not network_thread_of(consumer).is_alive()


def test_a_bug_that_looks_like_a_lost_connection_is_a_bug_all_the_same(
    consumer: Consumer[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers are handled in a turn that runs in the task of the connection's reader, and connections end quietly over
    errors of the operating system. A handler's must not be taken for one: the answer would be lost, and nobody told."""

    def bug(*_: object) -> None:
        raise ConnectionResetError("a bug")

    monkeypatch.setattr("kwire.managers.list_offsets.ListOffsetsManager._on_answer", bug)
    with pytest.raises(InternalError, match=r"died: ConnectionResetError\('a bug'\)"):
        consumer.end_offsets([TP], timeout=5)


def test_whatever_a_turn_for_an_event_raises_is_named(
    consumer: Consumer[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That turn runs in trio's task for calls of other threads, which knows but one answer to an exception: that trio
    itself is broken."""

    def bug(*_: object) -> None:
        raise SystemExit(3)

    monkeypatch.setattr(consumer._session.link.mailbox, "drain", bug)
    with pytest.raises(InternalError, match=r"died: SystemExit\(3\)"):
        consumer.end_offsets([TP], timeout=5)


def test_only_what_changes_is_asked_for_again(consumer: Consumer[bytes, bytes], broker: ScriptedBroker) -> None:
    """KIP-227: the second fetch of a session names no partition."""
    first, second = [request for _, request, _ in broker.asked if isinstance(request, FetchRequest)][:2]
    assert (first.session_epoch, [topic.topic_id for topic in first.topics]) == (0, [TOPIC_ID])
    assert (second.session_id, second.session_epoch, list(second.topics)) == (SESSION_ID, 1, [])
