"""Consumers that nobody closes: the garbage collector finds them, or the interpreter ends. Groups hear of it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from types import FrameType
from typing import TYPE_CHECKING

import pytest

from kwire import Consumer, TopicPartition
from kwire.consumer.unclosed import Unclosed
from kwire.protocol.messages.leave_group import LeaveGroupRequest
from kwire.testing import Cluster
from tests.network_clients import network_thread_of

if TYPE_CHECKING:
    from _typeshed import TraceFunction

TP = TopicPartition("orders", 0)

PROGRAM = """
import os, signal, sys, threading, time
from kwire import Consumer, RebalanceListener

def opened(**settings):
    defaults = dict(bootstrap_servers=sys.argv[1], group_id="g", auto_offset_reset="earliest", max_poll_records=10)
    return Consumer("orders", **defaults, **settings)

def polled_twice():
    consumer = opened()
    consumer.poll(10)
    consumer.poll(10)
    return consumer
"""


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0


@pytest.fixture
def orders(kafka_cluster: Cluster) -> Cluster:
    kafka_cluster.create_topic("orders", partitions=1)
    kafka_cluster.produce("orders", *(b"%d" % number for number in range(30)))
    return kafka_cluster


def ran(orders: Cluster, script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", PROGRAM + textwrap.dedent(script)]
    return subprocess.run([*command, orders.bootstrap_servers], capture_output=True, text=True, timeout=30, check=False)


# --- the garbage collector ----------------------------------------------------------------------------------


def test_the_warning_names_the_line_that_made_the_consumer() -> None:
    line = sys._getframe().f_lineno + 1
    lost: Consumer[bytes, bytes] = Consumer(bootstrap_servers="127.0.0.1:1", group_id="g")
    with pytest.warns(ResourceWarning, match=rf"of group 'g', made at .*test_unclosed.py:{line}: close\(\)") as caught:
        del lost
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)


def test_those_that_are_collected_leave_no_thread_and_no_socket(orders: Cluster) -> None:
    def lose() -> threading.Thread:
        lost: Consumer[bytes, bytes] = Consumer("orders", bootstrap_servers=orders.bootstrap_servers, group_id="g")
        lost.poll(0.0)
        thread = network_thread_of(lost)
        with pytest.warns(ResourceWarning):
            del lost
        return thread

    lose().join(10.0)  # whatever is loaded once
    before = open_files()
    for thread in [lose() for _ in range(5)]:
        thread.join(10.0)
        assert not thread.is_alive()
    until_s = time.monotonic() + 10
    while open_files() > before:  # the cluster in this process closes its ends a moment later
        assert time.monotonic() < until_s


def test_the_collector_may_find_one_while_kwires_locks_are_held() -> None:
    """It runs wherever memory is asked for, also in the network thread, and must not wait there."""
    lost: Consumer[bytes, bytes] = Consumer(bootstrap_servers="127.0.0.1:1")
    link, guard = lost._session.link, lost._guard
    lost._cycle = lost  # type: ignore[attr-defined]  # so that the collector is needed
    told: list[warnings.WarningMessage] = []

    def collect() -> None:
        """A collection does nothing while one is under way, as in the network thread that has just begun."""
        until_s = time.monotonic() + 10
        while not told and time.monotonic() < until_s:
            gc.collect()

    gc.disable()
    try:
        del lost
        collector = threading.Thread(target=collect)
        with link.mailbox._lock, link.buffer._lock, guard._lock, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            collector.start()
            collector.join(20.0)
            assert not collector.is_alive()
        assert [each.category for each in told] == [ResourceWarning]
    finally:
        gc.enable()


# --- the interpreter ends -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("consumer = polled_twice()", 0),
        ("polled_twice()", 0),
        ("consumer = polled_twice(); 1 / 0", 1),
        ("consumer = polled_twice(); signal.raise_signal(2)", -2),
        ("consumer = polled_twice(); signal.signal(15, lambda *_: sys.exit(7)); signal.raise_signal(15)", 7),
    ],
    ids=["the last line", "a function that has returned", "an exception", "Ctrl-C", "sys.exit in a signal handler"],
)
def test_a_program_that_ends_leaves_the_group_and_commits_what_it_came_back_from(
    orders: Cluster, script: str, code: int
) -> None:
    """Its group waited for the session timeout, and what it had processed came again."""
    leaves = orders.control.on(LeaveGroupRequest).observe()
    done = ran(orders, script)
    assert done.returncode == code, done.stderr
    assert "unclosed consumer consumer-g-1 of group 'g', made at <string>:7" in done.stderr
    assert leaves.fired == 1
    assert orders.committed("g")[TP].offset == 10


@pytest.mark.slow
def test_a_program_that_ends_after_a_close_that_was_cancelled_leaves_the_group_and_commits(orders: Cluster) -> None:
    """The network thread was to finish by itself what it was at, and the end of the program cut it off."""
    leaves = orders.control.on(LeaveGroupRequest).observe()
    script = """
    import asyncio
    from kwire import AsyncConsumer

    async def main():
        consumer = AsyncConsumer("orders", bootstrap_servers=sys.argv[1], group_id="g", auto_offset_reset="earliest")
        assert await consumer.poll(10)
        await consumer.poll(0)  # they are done
        closing = asyncio.create_task(consumer.close(leave_group=True))
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()

    asyncio.run(main())
    """
    done = ran(orders, script)
    assert (done.returncode, done.stderr) == (0, "")
    assert leaves.fired == 1
    assert orders.committed("g")[TP].offset == 30


@pytest.mark.slow
def test_a_static_member_keeps_its_place(orders: Cluster) -> None:
    leaves = orders.control.on(LeaveGroupRequest).observe()
    assert ran(orders, "consumer = opened(group_instance_id='one'); consumer.poll(10)").returncode == 0
    assert leaves.fired == 0


@pytest.mark.slow
def test_an_exit_out_of_a_callback_is_an_exit(orders: Cluster) -> None:
    leaves = orders.control.on(LeaveGroupRequest).observe()
    script = """
    class Exits(RebalanceListener):
        def on_partitions_assigned(self, consumer, partitions):
            sys.exit(3)

    consumer = opened(); consumer.subscribe(["orders"], listener=Exits()); consumer.poll(10)
    """
    assert ran(orders, script).returncode == 3
    assert leaves.fired == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        """
        consumer, has_polled = opened(), threading.Event()

        def run():
            while True:
                consumer.poll(10)
                has_polled.set()
        """,
        """
        from kwire.processing import Processor
        consumer, has_polled = opened(enable_auto_commit=False), threading.Event()

        def handle(record):
            has_polled.set()
            time.sleep(60)

        def run():
            with consumer, Processor(consumer, handle):
                time.sleep(60)
        """,
    ],
    ids=["poll", "handler"],
)
def test_a_daemon_thread_that_is_in_a_call_does_not_keep_the_program(orders: Cluster, script: str) -> None:
    leaves = orders.control.on(LeaveGroupRequest).observe()
    begun = time.monotonic()
    end = "\nthreading.Thread(target=run, daemon=True).start(); has_polled.wait()"
    assert ran(orders, textwrap.dedent(script) + end).returncode == 0
    assert time.monotonic() - begun < 20
    assert leaves.fired == 1


@pytest.mark.slow
def test_a_coordinator_that_does_not_answer_does_not_keep_the_program(orders: Cluster) -> None:
    orders.control.on(LeaveGroupRequest).drop()
    begun = time.monotonic()
    assert ran(orders, "consumer = opened(); consumer.poll(10)").returncode == 0
    assert time.monotonic() - begun < 20


# --- several at a time --------------------------------------------------------------------------------------


def test_consumers_may_be_opened_while_another_ones_poll_looks_at_all_of_them() -> None:
    """The poll raised a RuntimeError: the set that it went through had changed its size."""
    with Consumer(bootstrap_servers="127.0.0.1:1", group_id="g") as first, Consumer(bootstrap_servers="127.0.0.1:1"):
        session = first._session
        opened: list[Unclosed] = []

        def open_another(frame: FrameType, event: str, _arg: object) -> TraceFunction | None:
            """At each line of the collection's code, as another thread might."""
            if "weakref" not in frame.f_code.co_filename:
                return None
            if event == "line":
                opened.append(Unclosed(session, session.link))
            return open_another

        before = sys.gettrace()
        sys.settrace(open_another)
        try:
            session.unclosed.tell_of_rival()
        finally:
            sys.settrace(before)
        for each in opened:
            each.detach()
    assert opened
