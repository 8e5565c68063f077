"""Signals that arrive in the middle of a call, event loops that run around one, and a notebook's cell run again."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import pytest
import trio

from kwire import Consumer, TopicPartition
from kwire.consumer import unclosed
from kwire.errors import FencedInstanceIdError, IllegalStateError, WakeupError
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.leave_group import LeaveGroupRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.testing import Cluster

TP = TopicPartition("orders", 0)
Opened = Callable[..., "Consumer[bytes, bytes]"]


@pytest.fixture
def orders(kafka_cluster: Cluster) -> Cluster:
    kafka_cluster.create_topic("orders", partitions=1)
    kafka_cluster.produce("orders", *(b"%d" % number for number in range(12)))
    return kafka_cluster


@pytest.fixture
def opened(orders: Cluster) -> Opened:
    def make(group_instance_id: str | None = None) -> Consumer[bytes, bytes]:
        return Consumer(
            "orders",
            bootstrap_servers=orders.bootstrap_servers,
            group_id="g",
            group_instance_id=group_instance_id,
            heartbeat_interval_ms=100,
            auto_offset_reset="earliest",
            max_poll_records=4,
        )

    return make


def offsets(consumer: Consumer[bytes, bytes]) -> list[int]:
    return [record.offset for record in consumer.poll(10.0)]


def polled_until_it_raises(consumer: Consumer[bytes, bytes]) -> None:
    while True:
        consumer.poll(0.1)


def strike(number: int = signal.SIGINT) -> None:
    """From a thread of the cluster: the main thread is in a call that waits for an answer."""
    os.kill(os.getpid(), number)


@pytest.fixture
def on_sigterm() -> Iterator[Callable[[Callable[[], object]], None]]:
    before = signal.getsignal(signal.SIGTERM)

    def install(function: Callable[[], object]) -> None:
        def handle(_number: int, _frame: FrameType | None) -> None:
            function()

        signal.signal(signal.SIGTERM, handle)

    yield install
    signal.signal(signal.SIGTERM, before)


# --- in a poll ----------------------------------------------------------------------------------------------


def test_after_a_ctrl_c_in_a_poll_the_same_consumer_goes_on(orders: Cluster, opened: Opened) -> None:
    with opened() as consumer:
        assert offsets(consumer) == [0, 1, 2, 3]
        assert offsets(consumer) == [4, 5, 6, 7]
        assert offsets(consumer) == [8, 9, 10, 11]

        def poll_and_be_struck() -> None:
            orders.control.on(FetchRequest, times=1).observe(lambda *_: strike())
            consumer.poll(30.0)

        with pytest.raises(KeyboardInterrupt):  # around both: the network thread fetches without being asked
            poll_and_be_struck()
        orders.produce("orders", b"12")
        assert offsets(consumer) == [12]


def test_an_exit_by_sigterm_does_not_commit_what_was_handed_out_last(
    orders: Cluster, opened: Opened, on_sigterm: Callable[[Callable[[], object]], None]
) -> None:
    def leave() -> None:
        raise SystemExit(0)

    on_sigterm(leave)
    leaves = orders.control.on(LeaveGroupRequest).observe()

    def work() -> None:
        with opened() as consumer:
            assert offsets(consumer) == [0, 1, 2, 3]
            assert offsets(consumer) == [4, 5, 6, 7]
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(SystemExit):
        work()
    assert leaves.fired == 1
    assert orders.committed("g")[TP].offset == 4


def test_a_handler_of_sigterm_may_wake_the_poll_up(
    opened: Opened, on_sigterm: Callable[[Callable[[], object]], None]
) -> None:
    with opened() as consumer:
        on_sigterm(consumer.wakeup)
        for _ in range(3):
            offsets(consumer)
        timer = threading.Timer(0.01, strike, [signal.SIGTERM])
        timer.start()
        with pytest.raises(WakeupError):
            consumer.poll(30.0)
        timer.join()


# --- in a commit, and in close ------------------------------------------------------------------------------


def test_after_a_ctrl_c_in_a_commit_the_same_consumer_commits(orders: Cluster, opened: Opened) -> None:
    with opened() as consumer:
        offsets(consumer)
        orders.control.on(OffsetCommitRequest, times=1).observe(lambda *_: strike())
        orders.control.on(OffsetCommitRequest, times=1).drop()
        with pytest.raises(KeyboardInterrupt):
            consumer.commit_sync()
        orders.cut_connections()
        consumer.commit_sync()
        assert orders.committed("g")[TP].offset == 4
        assert offsets(consumer) == [4, 5, 6, 7]


@pytest.mark.parametrize("request_type", [OffsetCommitRequest, LeaveGroupRequest])
def test_a_ctrl_c_in_close_is_raised_when_the_consumer_is_closed(
    orders: Cluster, opened: Opened, request_type: type[OffsetCommitRequest | LeaveGroupRequest]
) -> None:
    """The network thread finishes what it is at; it is not waited for any longer."""
    consumer = opened()
    offsets(consumer)
    leaves = orders.control.on(LeaveGroupRequest).observe()
    orders.control.on(request_type, times=1).observe(lambda *_: strike())
    with pytest.raises(KeyboardInterrupt):
        consumer.close()
    with pytest.raises(IllegalStateError, match="closed"):
        consumer.poll(0.0)
    consumer.close()
    for thread in threading.enumerate():
        if thread.name.startswith("kwire-network"):
            thread.join(10.0)
            assert not thread.is_alive()
    assert leaves.fired == 1


# --- notebooks ----------------------------------------------------------------------------------------------


def test_an_event_loop_that_runs_in_the_same_thread_does_not_matter(opened: Opened) -> None:
    """A cell of Jupyter runs inside one."""

    async def cell() -> list[int]:
        with opened() as consumer:
            found = offsets(consumer)
            consumer.commit_sync()
            return found

    assert asyncio.run(cell()) == [0, 1, 2, 3]
    assert trio.run(cell) == [4, 5, 6, 7]


def test_a_cell_that_is_run_again_replaces_its_consumer(opened: Opened) -> None:
    """The new one is made first. That nobody holds the old one any more ends it, so the new one is not kept waiting."""
    consumer = opened()
    assert offsets(consumer) == [0, 1, 2, 3]
    with pytest.warns(ResourceWarning, match="unclosed consumer"):
        consumer = opened()
    with consumer:
        assert offsets(consumer) == [0, 1, 2, 3]


def test_a_consumer_that_an_old_traceback_still_holds_is_named(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Polls of the new one returned nothing, for `max_poll_interval_ms`, and nobody said why."""
    monkeypatch.setattr(unclosed, "IDLE_MS", -1.0)
    with opened() as held:
        offsets(held)
        with caplog.at_level(logging.WARNING, "kwire.group"), opened() as again:
            assert not again.poll(0.01)
            assert not again.poll(0.01)
            held.close()
            assert offsets(again) == [4, 5, 6, 7]
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("[")  # the client and its group, as each line of a consumer
    assert "gets no partitions while" in caplog.text
    assert f"made at {__file__}:" in caplog.text


def test_a_static_member_that_is_fenced_is_told_that_alone(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The other one has its place, and does not keep it waiting by not being polled."""
    monkeypatch.setattr(unclosed, "IDLE_MS", -1.0)
    with opened(group_instance_id="desk") as first, opened(group_instance_id="desk") as second:
        offsets(first)
        offsets(second)
        for _ in range(2):  # the second one begins without partitions
            with pytest.raises(FencedInstanceIdError):
                polled_until_it_raises(first)
    assert "gets no partitions while" not in caplog.text


def test_consumers_that_take_turns_are_not_warned_of(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    with opened() as one, opened() as other:
        offsets(one)
        other.poll(0.01)
    assert not caplog.messages
