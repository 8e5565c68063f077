"""Waking up, closing, and what is left behind: nothing."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import threading
import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kwire import AsyncConsumer, Consumer, OffsetAndMetadata, TopicPartition
from kwire.errors import BootstrapError, InternalError, InvalidGroupIdError, WakeupError
from tests.network_clients import network_thread_of, network_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import BytesConsumer, OpenConsumer, Read
    from tests.integration.kafkas import SharedKafka

HOLE = "127.0.0.1:1"  # tcpmux: nobody listens
TP = TopicPartition("some-topic", 0)


def open_sockets(kafka: SharedKafka) -> set[int]:
    """This process's, by inode, but for the other ends of its connections, which are here too if that Kafka is.

    A socket of the broker has the broker's port. The system's list of connections cannot tell them apart: a connection
    that the broker has not accepted yet has no inode there.
    """
    ports = {int(address.rpartition(":")[2]) for address in kafka.bootstrap_servers.split(",")}
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # no socket, or closed by now, like the directory that was listed
            opened = socket.socket(fileno=int(name))
            try:
                address = opened.getsockname()
                if not (isinstance(address, tuple) and address[1] in ports):
                    found.add(os.fstat(opened.fileno()).st_ino)
            finally:
                opened.detach()
    return found


@pytest.fixture
def lonely() -> Iterator[BytesConsumer]:
    """A consumer that reaches nobody, so that whatever waits for an answer waits."""
    with Consumer[bytes, bytes](bootstrap_servers=HOLE, group_id="lonely", request_timeout_ms=60_000) as consumer:
        consumer.assign([TP])
        yield consumer


# --- wakeup ------------------------------------------------------------------------------------------------------

BLOCKING: dict[str, Callable[[BytesConsumer], object]] = {
    "poll": lambda consumer: consumer.poll(30),
    "iteration": lambda consumer: next(iter(consumer)),
    "position": lambda consumer: consumer.position(TP, timeout=30),
    "commit_sync": lambda consumer: consumer.commit_sync({TP: OffsetAndMetadata(1)}, timeout=30),
    "committed": lambda consumer: consumer.committed([TP], timeout=30),
    "end_offsets": lambda consumer: consumer.end_offsets([TP], timeout=30),
    "list_topics": lambda consumer: consumer.list_topics(timeout=30),
}


@pytest.mark.parametrize("call", BLOCKING.values(), ids=BLOCKING)
def test_wakeup_ends_a_call_that_waits(lonely: BytesConsumer, call: Callable[[BytesConsumer], object]) -> None:
    timer = threading.Timer(0.05, lonely.wakeup)
    started_s = time.monotonic()
    timer.start()
    with pytest.raises(WakeupError):
        call(lonely)
    assert time.monotonic() - started_s < 5
    timer.join()


def test_wakeup_before_a_call_ends_the_next_one_and_only_that(lonely: BytesConsumer) -> None:
    lonely.wakeup()
    lonely.wakeup()
    with pytest.raises(WakeupError):
        lonely.poll(30)
    with pytest.raises(Exception, match="no broker can be reached"):
        lonely.poll(0.3)


def test_ctrl_c_ends_a_call_that_waits(lonely: BytesConsumer) -> None:
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))

    def poll_and_be_struck() -> None:
        timer.start()
        lonely.poll(30)

    started_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        poll_and_be_struck()
    assert time.monotonic() - started_s < 5
    timer.join()


# --- close -------------------------------------------------------------------------------------------------------


def with_nothing(consumer: BytesConsumer, topic: str) -> None:
    pass


def subscribed(consumer: BytesConsumer, topic: str) -> None:
    consumer.subscribe(topic)


def joining(consumer: BytesConsumer, topic: str) -> None:
    consumer.subscribe(topic)
    consumer.poll(0)


def consuming(consumer: BytesConsumer, topic: str) -> None:
    consumer.subscribe(topic)
    until_s = time.monotonic() + 20
    while not consumer.poll(0.1):
        assert time.monotonic() < until_s


def paused(consumer: BytesConsumer, topic: str) -> None:
    consuming(consumer, topic)
    consumer.pause(consumer.assignment())


def reading_by_hand(consumer: BytesConsumer, topic: str) -> None:
    consumer.assign([TopicPartition(topic, 0)])
    until_s = time.monotonic() + 20
    while not consumer.poll(0.1):
        assert time.monotonic() < until_s


STATES = (with_nothing, subscribed, joining, consuming, paused, reading_by_hand)


@pytest.mark.parametrize("leave_group", [True, False])
@pytest.mark.parametrize("bring_to", STATES)
def test_close_is_quick_in_every_state_and_leaves_nothing(
    kafka: SharedKafka,
    topic: MakeTopic,
    produce: Produce,
    group_id: str,
    bring_to: Callable[[BytesConsumer, str], None],
    leave_group: bool,
) -> None:
    """Once, `close(leave_group=False)` while joining sent a JoinGroup and waited for its answer."""
    name = topic()
    produce(name, [b"1"])
    threads, sockets = network_threads(), open_sockets(kafka)
    consumer: BytesConsumer = Consumer(
        bootstrap_servers=kafka.bootstrap_servers, group_id=group_id, auto_offset_reset="earliest"
    )
    bring_to(consumer, name)
    started_s = time.monotonic()
    consumer.close(leave_group=leave_group)
    took_s = time.monotonic() - started_s
    assert took_s < 5, f"close took {took_s} s"
    assert network_threads() <= threads
    assert open_sockets(kafka) <= sockets
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        del consumer
        gc.collect()


@pytest.mark.parametrize("timeout", [0, 0.3])
def test_close_keeps_its_time_though_nobody_answers(lonely: BytesConsumer, timeout: float) -> None:
    lonely.commit_async({TP: OffsetAndMetadata(1)})
    started_s = time.monotonic()
    lonely.close(timeout=timeout)
    assert time.monotonic() - started_s < timeout + 1
    lonely.close()


def test_a_constructor_that_fails_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise InvalidGroupIdError("not this one")

    monkeypatch.setattr(Consumer, "subscribe", fail)
    threads = network_threads()
    with pytest.raises(InvalidGroupIdError):
        Consumer("a-topic", bootstrap_servers=HOLE, group_id="g")
    assert network_threads() <= threads


def test_many_consumers_come_and_go(kafka: SharedKafka, topic: MakeTopic) -> None:
    name = topic()
    threads, sockets = network_threads(), open_sockets(kafka)
    for _ in range(20):
        with Consumer[bytes, bytes](bootstrap_servers=kafka.bootstrap_servers) as consumer:
            assert consumer.partitions_for(name)
    assert network_threads() <= threads
    assert open_sockets(kafka) <= sockets


def test_a_network_thread_that_dies_is_heard_of_by_the_next_call(lonely: BytesConsumer) -> None:
    """Killed from inside: no call of the public kind does this (any more)."""
    lonely._session.link.mailbox.post("no event at all")  # type: ignore[arg-type]  # that is the point
    with pytest.raises(InternalError, match=r"the network thread has died: KeyError.*please report it") as caught:
        lonely.poll(5)
    assert caught.value.__cause__ is not None
    with pytest.raises(InternalError):
        lonely.end_offsets([TP])
    started_s = time.monotonic()
    lonely.close()
    assert time.monotonic() - started_s < 1
    assert not network_thread_of(lonely).is_alive()


# --- idling ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_idle_consumer_costs_next_to_nothing(topic: MakeTopic, open_consumer: OpenConsumer) -> None:
    consumer = open_consumer()
    consumer.assign([TopicPartition(topic(), 0)])
    assert not consumer.poll(0.2)
    before_s = time.process_time()
    assert not consumer.poll(1.0)
    assert time.process_time() - before_s < 0.1


def test_a_loop_over_records_ends_if_no_broker_was_ever_reached() -> None:
    """It waited for ever, and only the log said why: of a wrong `security_protocol`, for example."""
    with (
        Consumer("some-topic", bootstrap_servers=HOLE, group_id="lonely", default_api_timeout_ms=300) as consumer,
        pytest.raises(BootstrapError, match="no broker can be reached"),
    ):
        next(iter(consumer))


def test_so_does_one_that_awaits() -> None:
    async def read() -> None:
        async with AsyncConsumer("some-topic", bootstrap_servers=HOLE, default_api_timeout_ms=300) as consumer:
            await anext(aiter(consumer))

    with pytest.raises(BootstrapError, match="no broker can be reached"):
        asyncio.run(read())


@pytest.mark.slow
def test_polling_without_a_broker_costs_next_to_nothing(lonely: BytesConsumer) -> None:
    with pytest.raises(Exception, match="no broker can be reached"):
        lonely.poll(0.3)
    before_s = time.process_time()
    with pytest.raises(Exception, match="no broker can be reached"):
        lonely.poll(1.0)
    assert time.process_time() - before_s < 0.15


def test_the_next_record_is_not_kept_waiting(
    topic: MakeTopic, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    """A poll that waits is woken by the data, not by a timer."""
    name = topic()
    consumer = open_consumer()
    consumer.assign([TopicPartition(name, 0)])
    assert not consumer.poll(0.1)
    arrived_s: list[float] = []

    def write() -> None:
        produce(name, [b"now"])
        arrived_s.append(time.monotonic())

    thread = threading.Timer(0.05, write)
    thread.start()
    (record,) = read(consumer, 1)
    got_s = time.monotonic()
    thread.join()
    assert record.value == b"now"
    assert got_s - arrived_s[0] < 0.25
