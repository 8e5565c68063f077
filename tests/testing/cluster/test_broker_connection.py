"""One connection to a broker: order, what closes it, standing still, and what request control does to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pytest
import trio
import trio.testing

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.testing.cluster.state import ClusterState

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.protocol.schema import Message
    from kwire.testing.cluster.control import RequestControl, Rule
    from kwire.testing.cluster.request_context import RequestContext
    from tests.testing.cluster.in_memory import MemoryClient, in_trio
else:
    from in_memory import MemoryClient, in_trio

NOTHING_YET = FetchTopic(topic="orders", partitions=[FetchPartition(partition=0, partition_max_bytes=1_000)])
HELLO = ApiVersionsRequest(client_software_name="kwire", client_software_version="1")


@in_trio
async def test_a_connection_s_requests_are_answered_in_order_even_behind_a_long_poll(nursery: trio.Nursery) -> None:
    cluster = ClusterState()
    cluster.create_topic("orders")
    client = MemoryClient(cluster, nursery)
    await client.send(FetchRequest(max_wait_ms=500, min_bytes=1, replica_id=-1, topics=[NOTHING_YET]), 4)
    await client.send(HELLO, 3)
    assert isinstance(await client.receive(), FetchResponse)
    assert trio.current_time() == pytest.approx(0.5)
    assert isinstance(await client.receive(), ApiVersionsResponse)


@in_trio
async def test_a_request_that_comes_byte_by_byte_is_answered(nursery: trio.Nursery) -> None:
    client = MemoryClient(ClusterState(), nursery)
    for byte in client._framing.send(MetadataRequest(topics=[]), 9):
        await client.stream.send_all(bytes([byte]))
    assert isinstance(await client.receive(), MetadataResponse)


@in_trio
async def test_bytes_behind_a_request_are_not_looked_at(nursery: trio.Nursery) -> None:
    """librdkafka asks for all topics with three of them, and once lost its connection over that."""
    client = MemoryClient(ClusterState(), nursery)
    whole = client._framing.send(MetadataRequest(topics=None), 9)
    length = int.from_bytes(whole[:4], "big") + 3
    await client.stream.send_all(length.to_bytes(4, "big") + whole[4:] + bytes(3))
    assert isinstance(await client.receive(), MetadataResponse)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",  # a negative length
        b"\x7f\xff\xff\xff",  # more than socket.request.max.bytes
        b"\x00\x00\x00\x00",  # no header
        b"\x00\x00\x00\x0a\x7f\xff\x00\x00\x00\x00\x00\x00\xff\xff",  # an API there is not
        b"\x00\x00\x00\x0a\x00\x03\x7f\xff\x00\x00\x00\x00\xff\xff",  # Metadata from the future
        b"\x00\x00\x00\x0b\x00\x03\x00\x00\x00\x00\x00\x00\xff\xff\x00",  # Metadata that ends too early
    ],
)
def test_what_is_no_request_ends_the_connection_without_a_word(data: bytes) -> None:
    @in_trio
    async def run(nursery: trio.Nursery) -> None:
        client = MemoryClient(ClusterState(), nursery)
        await client.stream.send_all(data)
        assert await client.stream.receive_some(100) == b""

    run()


@in_trio
async def test_a_killed_broker_breaks_its_connections_off(nursery: trio.Nursery) -> None:
    cluster = ClusterState(brokers=2)
    cluster.create_topic("orders", assignments=[[1]])
    doomed, other = MemoryClient(cluster, nursery, 1), MemoryClient(cluster, nursery, 0)
    await doomed.send(FetchRequest(max_wait_ms=60_000, min_bytes=1, replica_id=-1, topics=[NOTHING_YET]), 4)
    await trio.testing.wait_all_tasks_blocked()
    cluster.kill_broker(1)
    with pytest.raises(EOFError):
        await doomed.receive()
    metadata = await other.ask(MetadataRequest(topics=[]))
    assert [broker.node_id for broker in metadata.brokers] == [0]
    assert not cluster.brokers[1].connections


@in_trio
async def test_a_paused_broker_answers_once_it_goes_on(nursery: trio.Nursery) -> None:
    cluster = ClusterState()
    client = MemoryClient(cluster, nursery)
    cluster.pause_broker(0)
    await client.send(HELLO, 3)
    with trio.move_on_after(100) as waiting:
        await client.receive()
    assert waiting.cancelled_caught
    cluster.resume_broker(0)
    assert isinstance(await client.receive(), ApiVersionsResponse)


@in_trio
async def test_a_dropped_request_is_never_answered_and_nothing_behind_it(nursery: trio.Nursery) -> None:
    cluster = ClusterState()
    rule = cluster.control.on(MetadataRequest, times=1).drop()
    client = MemoryClient(cluster, nursery)
    await client.send(MetadataRequest(topics=[]))
    await client.send(HELLO, 3)
    with trio.move_on_after(1000) as waiting:
        await client.receive()
    assert waiting.cancelled_caught
    assert rule.fired == 1
    assert rule.is_spent
    again = MemoryClient(cluster, nursery)
    await again.ask(MetadataRequest(topics=[]))


@pytest.mark.parametrize("handled", [False, True])
def test_a_cut_happens_before_or_behind_the_handling(handled: bool) -> None:
    @in_trio
    async def run(nursery: trio.Nursery) -> None:
        cluster = ClusterState()
        cluster.control.on(CreateTopicsRequest).cut(handled=handled)
        client = MemoryClient(cluster, nursery)
        with pytest.raises(EOFError):
            await client.ask(
                CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)])
            )
        assert ("orders" in cluster.topics) is handled

    run()


@pytest.mark.parametrize("handled", [False, True])
def test_a_delay_happens_before_or_behind_the_handling(handled: bool) -> None:
    @in_trio
    async def run(nursery: trio.Nursery) -> None:
        cluster = ClusterState()
        cluster.control.on(CreateTopicsRequest).delay(2_000, handled=handled)
        client = MemoryClient(cluster, nursery)
        await client.send(
            CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)])
        )
        await trio.sleep(1)
        assert ("orders" in cluster.topics) is handled
        await client.receive()
        assert trio.current_time() == pytest.approx(2)
        assert "orders" in cluster.topics

    run()


@in_trio
async def test_an_answer_may_be_made_up_or_spoilt(nursery: trio.Nursery) -> None:
    cluster = ClusterState()
    cluster.control.on(MetadataRequest, times=1).answer(
        lambda request: MetadataResponse(cluster_id=f"{len(request.topics or ())} asked for")
    )
    client = MemoryClient(cluster, nursery)
    assert (await client.ask(MetadataRequest(topics=[]))).cluster_id == "0 asked for"
    cluster.control.on(MetadataRequest, times=1).corrupt(lambda payload: payload[:4] + b"spoilt")
    await client.send(MetadataRequest(topics=[]))
    assert (await client.stream.receive_some(100))[8:] == b"spoilt"


@in_trio
async def test_an_answer_may_be_edited_and_only_that_one(nursery: trio.Nursery) -> None:
    cluster = ClusterState()

    def forget(answer: Message) -> None:
        assert isinstance(answer, MetadataResponse)
        answer.brokers.clear()

    rule = cluster.control.on(MetadataRequest, times=1).edit(forget)
    client = MemoryClient(cluster, nursery)
    assert (await client.ask(MetadataRequest(topics=[]))).brokers == []
    assert len((await client.ask(MetadataRequest(topics=[]))).brokers) == len(cluster.brokers)
    assert rule.fired == 1


@in_trio
async def test_observing_changes_nothing_and_counts(nursery: trio.Nursery) -> None:
    cluster = ClusterState()
    seen: list[str] = []

    def see(request: MetadataRequest, call: RequestContext) -> None:
        seen.append(f"{call.client_id} v{call.version} {len(request.topics or ())}")

    rule = cluster.control.on(MetadataRequest).observe(see)
    client = MemoryClient(cluster, nursery)
    await client.ask(MetadataRequest(topics=[]), 9)
    await client.ask(HELLO, 3)
    assert (rule.fired, seen) == (1, ["test v9 0"])


@in_trio
async def test_the_newest_rule_that_matches_decides_and_spent_ones_step_aside(nursery: trio.Nursery) -> None:
    cluster = ClusterState()
    older = cluster.control.on(MetadataRequest).answer(MetadataResponse(cluster_id="older"))
    newer = cluster.control.on(MetadataRequest, times=1, where=lambda _request, call: call.version == 9).answer(
        MetadataResponse(cluster_id="newer")
    )
    client = MemoryClient(cluster, nursery)
    found = [(await client.ask(MetadataRequest(topics=[]), version)).cluster_id for version in (8, 9, 9)]
    assert found == ["older", "newer", "older"]
    assert (older.fired, newer.fired) == (2, 1)
    older.remove()
    assert (await client.ask(MetadataRequest(topics=[]))).cluster_id == cluster.cluster_id


@in_trio
async def test_a_throttled_answer_comes_at_once_and_the_next_request_waits(nursery: trio.Nursery) -> None:
    """KIP-219."""
    cluster = ClusterState()
    cluster.throttle(MetadataRequest, 3_000)
    client = MemoryClient(cluster, nursery)
    assert (await client.ask(MetadataRequest(topics=[]))).throttle_time_ms == 3_000
    assert trio.current_time() == 0
    await client.ask(HELLO, 3)
    assert trio.current_time() == pytest.approx(3)


@in_trio
async def test_a_failing_handler_ends_the_connection_and_is_remembered(nursery: trio.Nursery) -> None:
    cluster = ClusterState()
    cluster.cluster_id = None  # type: ignore[assignment]  # a bug of the cluster's, made on purpose
    cluster.brokers[0].host = None  # type: ignore[assignment]  # the same
    cluster.topics["broken"] = None  # type: ignore[assignment]  # the same
    client = MemoryClient(cluster, nursery)
    with pytest.raises(EOFError):
        await client.ask(MetadataRequest(topics=None))
    assert [type(error) for error in cluster.failures] == [AttributeError]


def _fail(*_arguments: object) -> NoReturn:
    raise AssertionError("what the test found")


@pytest.mark.parametrize(
    "give",
    [
        lambda control: control.on(MetadataRequest, where=_fail, times=1).cut(),
        lambda control: control.on(MetadataRequest, times=1).observe(_fail),
        lambda control: control.on(MetadataRequest, times=1).answer(_fail),
        lambda control: control.on(MetadataRequest, times=1).edit(_fail),
        lambda control: control.on(MetadataRequest, times=1).corrupt(_fail),
        lambda control: control.on(MetadataRequest, times=1).write(_fail),
        lambda control: control.on(MetadataRequest, times=1).answer(MetadataResponse(controller_id=1 << 40)),
    ],
    ids=["where", "observe", "answer", "edit", "corrupt", "write", "an answer that cannot be encoded"],
)
def test_a_rule_whose_function_raises_ends_that_connection_alone_and_is_remembered(
    give: Callable[[RequestControl], Rule],
) -> None:
    """It ended the whole cluster, and nobody was told: a test that asserted something there passed."""

    async def body(nursery: trio.Nursery) -> None:
        cluster = ClusterState()
        rule = give(cluster.control)
        other, client = MemoryClient(cluster, nursery), MemoryClient(cluster, nursery)
        with pytest.raises(EOFError):
            await client.ask(MetadataRequest(topics=[]))
        assert len(cluster.failures) == 1
        rule.remove()
        assert (await other.ask(MetadataRequest(topics=[]))).cluster_id == cluster.cluster_id

    in_trio(body)()


@in_trio
async def test_a_version_of_api_versions_from_the_future_is_answered_in_version_0(nursery: trio.Nursery) -> None:
    """KIP-511."""
    client = MemoryClient(ClusterState(), nursery)
    await client.send(HELLO, 4)
    assert ErrorCode.of((await client.receive()).error_code) is ErrorCode.NONE  # type: ignore[attr-defined]  # it has one
    await client.stream.send_all(b"\x00\x00\x00\x0a\x00\x12\x00\x63\x00\x00\x00\x07\xff\xff")
    answer = await client.stream.receive_some(1000)
    # length, correlation id 7, error 35, one API: key 18, versions 0 to 4
    assert answer == bytes.fromhex("00000010 00000007 0023 00000001 0012 0000 0005")
