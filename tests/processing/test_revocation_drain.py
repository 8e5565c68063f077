"""A processor that is asked for partitions, where the consumer can revoke later (KIP-983): what stays does not wait."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Literal

import pytest
import trio

from kwire import Consumer, Record, TopicPartition
from kwire.processing import Processor
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from kwire.config import Settings
    from kwire.protocol.messages.heartbeat import HeartbeatResponse

pytestmark = pytest.mark.slow

DEADLINE_S = 30.0
PARTITIONS = 4
EVERY = set(range(PARTITIONS))
BytesRecord = Record[bytes, bytes]
BytesConsumer = Consumer[bytes, bytes]
SLEEPS: dict[str, Callable[[float], Awaitable[None]]] = {"asyncio": asyncio.sleep, "trio": trio.sleep}
CANCELLED: dict[str, type[BaseException]] = {"asyncio": asyncio.CancelledError, "trio": trio.Cancelled}
PROTOCOLS: dict[str, Settings] = {
    "eager": {"partition_assignment_strategy": "range", "heartbeat_interval_ms": 50},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky", "heartbeat_interval_ms": 50},
    "consumer": {"group_protocol": "consumer"},
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    settings = {"group.consumer.heartbeat.interval.ms": 50, "group.consumer.assignment.interval.ms": 0}
    with Cluster(brokers=1, topics={"orders": PARTITIONS}, settings=settings) as made:
        yield made


@pytest.fixture
def new_consumer(cluster: Cluster, protocol: str) -> Iterator[Callable[..., BytesConsumer]]:
    opened: list[BytesConsumer] = []

    def make(**more: object) -> BytesConsumer:
        settings: dict[str, object] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": "billing",
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "enable_async_revocation": True,
            **PROTOCOLS[protocol],
            **more,
        }
        opened.append(Consumer("orders", config=settings))
        return opened[-1]

    yield make
    for consumer in opened:
        consumer.close(timeout=5.0)


def wait_until(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < until_s, "still not so"
        time.sleep(0.005)


class Handler:
    """Counts what it has done, and takes as long over "slow" records as their partition's gate is closed."""

    def __init__(self) -> None:
        self.gates: defaultdict[int, threading.Event] = defaultdict(threading.Event)
        self.begun: set[int] = set()
        self.done: Counter[tuple[int, int]] = Counter()
        self._lock = threading.Lock()

    def __call__(self, record: BytesRecord) -> None:
        if record.value == b"slow":
            self.begun.add(record.partition)
            assert self.gates[record.partition].wait(DEADLINE_S)
        with self._lock:
            self.done[record.partition, record.offset] += 1

    def so_far(self) -> Counter[tuple[int, int]]:
        """What is done, while it goes on."""
        with self._lock:
            return self.done.copy()

    def count(self, partitions: set[int]) -> int:
        return sum(times for (partition, _), times in self.so_far().items() if partition in partitions)


def asked(consumer: BytesConsumer) -> set[int]:
    """What a rebalance wants back and has not got yet, as the processor's thread, whose consumer it is, knows it."""
    request = consumer._session.callbacks._request
    return set() if request is None else {tp.partition for tp in request.event.partitions}


def begin_all(cluster: Cluster, handler: Handler) -> None:
    """One record of each partition in the handler's hands."""
    for partition in range(PARTITIONS):
        cluster.produce("orders", b"slow", partition=partition)
    wait_until(lambda: len(handler.begun) == PARTITIONS)


@pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])
def test_what_stays_is_handled_while_what_goes_is_drained(
    protocol: str, cluster: Cluster, new_consumer: Callable[..., BytesConsumer]
) -> None:
    """And what goes, goes with its commits: nothing is handled twice."""
    first, second = Handler(), Handler()
    mine, other = new_consumer(), new_consumer()
    with Processor(mine, first):
        begin_all(cluster, first)
        with Processor(other, second):
            wait_until(lambda: bool(asked(mine)))
            going = asked(mine)
            staying = EVERY - going
            assert bool(staying) is (protocol != "eager")
            for partition in staying:
                first.gates[partition].set()
                cluster.produce("orders", *[b"quick"] * 50, partition=partition)
            wait_until(lambda: first.count(staying) == 51 * len(staying))
            assert asked(mine) == going
            assert not second.done
            for partition in going:
                first.gates[partition].set()
                cluster.produce("orders", *[b"quick"] * 50, partition=partition)
            wait_until(lambda: first.count(EVERY) + second.count(EVERY) >= 51 * PARTITIONS)
            wait_until(lambda: bool(mine._session.state.assignment) and bool(other._session.state.assignment))
    handled = first.done + second.done
    assert len(handled) == 51 * PARTITIONS
    assert set(handled.values()) == {1}


@pytest.mark.parametrize("protocol", ["consumer"])
def test_a_last_commit_that_fails_is_insisted_on(cluster: Cluster, new_consumer: Callable[..., BytesConsumer]) -> None:
    first, second = Handler(), Handler()
    mine, other = new_consumer(), new_consumer()

    def refused(request: OffsetCommitRequest) -> OffsetCommitResponse:
        def topic(asked: OffsetCommitRequestTopic) -> OffsetCommitResponseTopic:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.value
            parts = [
                OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                for each in asked.partitions
            ]
            return OffsetCommitResponseTopic(topic_id=asked.topic_id, partitions=parts)

        return OffsetCommitResponse(topics=list(map(topic, request.topics)))

    with Processor(mine, first):
        begin_all(cluster, first)
        with Processor(other, second):
            wait_until(lambda: bool(asked(mine)))
            rule = cluster.control.on(OffsetCommitRequest, times=1).answer(refused)
            for partition in range(PARTITIONS):
                first.gates[partition].set()
            wait_until(lambda: bool(other._session.state.assignment))
            assert rule.fired == 1
    assert set((first.done + second.done).values()) == {1}
    assert set(cluster.committed("billing")) == {TopicPartition("orders", number) for number in range(PARTITIONS)}


@pytest.mark.parametrize("protocol", ["cooperative"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("later", [False, True])
def test_async_handlers_are_cancelled_when_their_partition_has_to_go(
    cluster: Cluster, new_consumer: Callable[..., BytesConsumer], backend: Literal["asyncio", "trio"], later: bool
) -> None:
    """They went on beside the next owner's. What a cancelled one leaves counts as undone, though it says that it is
    done."""
    cancelled: set[int] = set()
    begun: set[int] = set()
    go = threading.Event()

    async def handle(record: BytesRecord) -> None:
        begun.add(record.partition)
        try:
            until_s = time.monotonic() + DEADLINE_S
            while not go.is_set() and time.monotonic() < until_s:
                await SLEEPS[backend](0.01)
        except CANCELLED[backend]:
            cancelled.add(record.partition)
            if backend == "trio":
                raise

    second = Handler()
    mine = new_consumer(max_poll_interval_ms=1_000, enable_async_revocation=later)
    other = new_consumer()
    for partition in range(PARTITIONS):
        cluster.produce("orders", b"1", partition=partition)
    with Processor(mine, handle, backend=backend, commit_interval=0.05):
        wait_until(lambda: len(begun) == PARTITIONS)
        with Processor(other, second, commit_interval=0.05):
            wait_until(lambda: bool(second.done))
            assert {partition for partition, _ in second.so_far()} <= cancelled
            go.set()
            wait_until(lambda: len(cluster.committed("billing")) == PARTITIONS)


@pytest.mark.parametrize("protocol", ["cooperative"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_async_handlers_are_cancelled_when_their_partition_is_lost(
    cluster: Cluster, new_consumer: Callable[..., BytesConsumer], backend: Literal["asyncio", "trio"]
) -> None:
    cancelled: list[int] = []
    begun: list[int] = []

    async def handle(record: BytesRecord) -> None:
        begun.append(record.partition)
        try:
            await SLEEPS[backend](DEADLINE_S)
        except CANCELLED[backend]:
            cancelled.append(record.partition)
            raise

    mine = new_consumer()

    def fence(answer: HeartbeatResponse) -> None:
        answer.error_code = ErrorCode.UNKNOWN_MEMBER_ID

    for partition in range(PARTITIONS):
        cluster.produce("orders", b"1", partition=partition)
    with Processor(mine, handle, backend=backend) as processor:
        wait_until(lambda: len(begun) == PARTITIONS)
        cluster.control.on(HeartbeatRequest, times=1).edit(fence)  # type: ignore[arg-type]  # it is what heartbeats are answered with
        wait_until(lambda: sorted(cancelled) == list(range(PARTITIONS)))
        processor.stop(drain=False)
    assert {at.offset for at in cluster.committed("billing").values()} == {0}, "where it began"


@pytest.mark.parametrize("protocol", ["cooperative"])
def test_only_records_that_handlers_are_at_are_given_up_in_the_middle(
    cluster: Cluster, new_consumer: Callable[..., BytesConsumer], caplog: pytest.LogCaptureFixture
) -> None:
    """All records behind them in their runs were counted, too: 197, where one was at work."""
    begun: list[int] = []
    go = threading.Event()

    def handle(record: BytesRecord) -> None:
        begun.append(record.offset)
        go.wait(DEADLINE_S)

    def fence(answer: HeartbeatResponse) -> None:
        answer.error_code = ErrorCode.UNKNOWN_MEMBER_ID

    cluster.produce("orders", *(b"1" for _ in range(50)), partition=0)
    with Processor(new_consumer(), handle) as processor:
        wait_until(lambda: bool(begun))
        cluster.control.on(HeartbeatRequest, times=1).edit(fence)  # type: ignore[arg-type]  # it is what heartbeats are answered with
        wait_until(lambda: "given up in the middle of their work" in caplog.text)
        go.set()
        processor.stop(drain=False)
    assert "records given up in the middle of their work, to come again: 1\n" in caplog.text
