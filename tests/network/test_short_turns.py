"""What the network thread does for an answer with a record in it, or for a commit: that alone, and nothing else."""

from __future__ import annotations

from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trio

from kwire.assignors import resolve
from kwire.config import ConsumerConfig
from kwire.events import Assign, Commit, PollStarted, Reply, Seek, Unsubscribe
from kwire.fetching.buffer import FetchBuffer
from kwire.mailbox import Mailbox
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.network.loop import Waker
from kwire.network.run import make_loop
from kwire.network.short_turns import OTHERS_WAIT_MS
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kwire.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
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
from kwire.protocol.registry import request_classes
from tests.network_clients import is_busy
from tests.record_batches import batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kwire.managers.unsent import PollResult
    from kwire.protocol.schema import Message, Request, Response
    from tests.network.conftest import InVirtualTime, MemoryNetwork, MemoryStream, Peer

BROKER = ("broker", 9092)
TP = TopicPartition("orders", 0)
PACE_S = 0.002
OFFER = [
    ApiVersion(api_key=key, min_version=cls.min_version, max_version=cls.max_version)
    for key, cls in request_classes().items()
]


class SteadyBroker:
    """Leads the partition, has a new record for every fetch, a moment after it was asked, and takes commits."""

    def __init__(self, peer: type[Peer]) -> None:
        self._peer = peer
        self.next_offset = 0
        self.has_records = True
        self.commits = 0
        self.commit_error = ErrorCode.NONE
        self.says = ErrorCode.NONE
        self.metadata_asked_s: list[float] = []

    async def __call__(self, stream: MemoryStream) -> None:
        peer = self._peer(stream)
        while (received := await peer.next_request()) is not None:
            request, version, header = received
            await peer.answer(header, version, await self._answer(request))

    async def _answer(self, request: Request[Message]) -> Response:
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsResponse(api_keys=OFFER)
        if isinstance(request, MetadataRequest):
            self.metadata_asked_s.append(trio.current_time())
            return metadata()
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(
                coordinators=[Coordinator(key="billing", node_id=7, host=BROKER[0], port=BROKER[1])]
            )
        if isinstance(request, OffsetCommitRequest):
            return self._commit()
        assert isinstance(request, FetchRequest)
        await (trio.sleep(PACE_S) if self.has_records else trio.sleep_forever())
        return self._one_record()

    def _commit(self) -> OffsetCommitResponse:
        self.commits += 1
        partition = OffsetCommitResponsePartition(error_code=self.commit_error)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=TP.topic, partitions=[partition])])

    def _one_record(self) -> FetchResponse:
        data = PartitionData(error_code=self.says, high_watermark=self.next_offset + 1)
        if self.says is ErrorCode.NONE:
            data.records = batch(self.next_offset)
            self.next_offset += 1
        return FetchResponse(responses=[FetchableTopicResponse(topic=TP.topic, partitions=[data])])


def metadata() -> MetadataResponse:
    partition = MetadataResponsePartition(leader_id=7, leader_epoch=1, replica_nodes=[7], isr_nodes=[7])
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=7, host=BROKER[0], port=BROKER[1])],
        topics=[MetadataResponseTopic(name=TP.topic, partitions=[partition])],
    )


@pytest.fixture
def broker(network: MemoryNetwork, peer: type[Peer], monkeypatch: pytest.MonkeyPatch) -> SteadyBroker:
    monkeypatch.setattr("kwire.network.run.monotonic_ms", lambda: trio.current_time() * 1000)
    steady = SteadyBroker(peer)
    network.hosts[BROKER] = steady
    return steady


class Reader(NamedTuple):
    mailbox: Mailbox
    polled_s: list[float]
    """When all managers were polled."""
    on_its_way: list[bool]
    """Whether something was on its way to a broker, each time the application heard of records."""


@asynccontextmanager
async def reading(network: MemoryNetwork, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reader]:
    """A network thread without its thread, which fetches the partition."""
    settings = {"bootstrap.servers": "broker:9092", "group.id": "billing", "enable.auto.commit": False}
    config = ConsumerConfig.of({**settings, "enable.metrics.push": False})
    mailbox = Mailbox()
    mailbox.post(Assign(frozenset({TP}), Reply()))
    mailbox.post(Seek(TP, OffsetAndMetadata(0), Reply()))
    assignors = resolve(config.partition_assignment_strategy)
    loop = make_loop(config, assignors, mailbox, FetchBuffer(), Waker(), client_id="me", transport=network)
    mailbox.attach(loop.turn_now)
    reader = Reader(mailbox, [], [])
    poll = loop._managers.poll

    def noted(now_ms: float) -> PollResult:
        reader.polled_s.append(trio.current_time())
        return poll(now_ms)

    monkeypatch.setattr(loop._managers, "poll", noted)

    def notify() -> None:
        reader.on_its_way.append(is_busy(loop._client))
        mailbox.notify()

    loop._short_turns._notify = notify
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loop.run)
        await trio.sleep(1)
        yield reader
        nursery.cancel_scope.cancel()


def test_while_records_come_the_other_managers_are_polled_now_and_then(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, broker: SteadyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with reading(network, monkeypatch) as reader:
            reader.polled_s.clear()
            came = broker.next_offset
            await trio.sleep(1)
            assert broker.next_offset - came == pytest.approx(1 / PACE_S, abs=2)
            assert len(reader.polled_s) == pytest.approx(1_000 / OTHERS_WAIT_MS, abs=2)
            assert max(b - a for a, b in pairwise(reader.polled_s)) <= 1.1 * OTHERS_WAIT_MS / 1_000

    in_virtual_time(scenario)


def test_the_application_hears_of_records_when_the_next_fetch_is_out(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, broker: SteadyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before: woken at once, it waits for the interpreter, and the fetch for nothing."""

    async def scenario() -> None:
        async with reading(network, monkeypatch) as reader:
            assert len(reader.on_its_way) == broker.next_offset > 0
            assert all(reader.on_its_way)
            assert reader.mailbox.signal() >= broker.next_offset

    in_virtual_time(scenario)


def test_an_answer_that_concerns_others_reaches_them_at_once(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, broker: SteadyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with reading(network, monkeypatch):
            asked = len(broker.metadata_asked_s)
            broker.says = ErrorCode.NOT_LEADER_OR_FOLLOWER
            changed_s = trio.current_time()
            await trio.sleep(0.2)
            assert broker.metadata_asked_s[asked] - changed_s <= 2 * PACE_S

    in_virtual_time(scenario)


async def commit(reader: Reader, offset: int = 0) -> Reply[None]:
    """A commit, once it is done."""
    reply: Reply[None] = Reply()
    reader.mailbox.post(Commit({TP: OffsetAndMetadata(offset)}, reply))
    while not reply.done:
        await trio.sleep(PACE_S)
    return reply


@asynccontextmanager
async def committing(network: MemoryNetwork, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reader]:
    """The same, after a first commit: the coordinator is known."""
    async with reading(network, monkeypatch) as reader:
        await commit(reader)
        reader.polled_s.clear()
        yield reader


def test_who_commits_each_record_does_not_have_all_managers_polled_for_it(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, broker: SteadyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.has_records = False

    async def scenario() -> None:
        async with committing(network, monkeypatch) as reader:
            began_s = trio.current_time()
            for offset in range(200):
                (await commit(reader, offset)).result()
            seconds = trio.current_time() - began_s
            assert broker.commits == 201
            assert len(reader.polled_s) == pytest.approx(1_000 * seconds / OTHERS_WAIT_MS, abs=2)
            assert max(b - a for a, b in pairwise(reader.polled_s)) <= 1.1 * OTHERS_WAIT_MS / 1_000

    in_virtual_time(scenario)


def test_the_coordinator_that_a_commit_needs_is_looked_up_at_once(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, broker: SteadyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.has_records = False

    async def scenario() -> None:
        async with reading(network, monkeypatch) as reader:
            began_s = trio.current_time()
            (await commit(reader)).result()
            assert trio.current_time() - began_s < 0.5 * OTHERS_WAIT_MS / 1_000

    in_virtual_time(scenario)


def test_what_was_posted_beside_a_commit_reaches_the_others_at_once(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, broker: SteadyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.has_records = False

    async def scenario() -> None:
        async with committing(network, monkeypatch) as reader:
            reader.mailbox.note(PollStarted())
            reader.mailbox.post(Commit({TP: OffsetAndMetadata(0)}, Reply()))
            assert reader.polled_s == [trio.current_time()]

    in_virtual_time(scenario)


def test_a_commit_that_met_an_error_has_the_others_look_at_once(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, broker: SteadyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator has moved: it is looked up at once, and the commit repeated there."""
    broker.has_records = False

    async def scenario() -> None:
        async with committing(network, monkeypatch) as reader:
            broker.commit_error = ErrorCode.NOT_COORDINATOR
            reader.mailbox.post(Commit({TP: OffsetAndMetadata(0)}, Reply()))
            await trio.sleep(0.2 * OTHERS_WAIT_MS / 1_000)
            assert reader.polled_s

    in_virtual_time(scenario)


def test_what_needs_a_poll_again_in_the_turn_that_hears_of_one_begins_a_round(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, broker: SteadyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poll waits, and another task unsubscribes before the network thread has heard of the poll. To it, polls
    mattered all along."""
    broker.has_records = False

    async def scenario() -> None:
        async with reading(network, monkeypatch) as reader:
            assert reader.mailbox.awaits_poll, "nobody has polled yet"
            seen = reader.mailbox.poll_round
            reader.mailbox.note(PollStarted())
            reader.mailbox.post(Unsubscribe(Reply()))
            assert reader.mailbox.awaits_poll
            assert reader.mailbox.poll_round > seen

    in_virtual_time(scenario)
