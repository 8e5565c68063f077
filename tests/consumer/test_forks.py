"""A process that forks while it has a consumer: the child's copy is refused, and the parent's goes on unharmed."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerProcess, SpawnProcess
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue

import pytest

from kwire import AsyncConsumer, Consumer, TopicPartition
from kwire.config import ConsumerConfig
from kwire.consumer.range_consumer import RangeConsumer
from kwire.errors import ForkedConsumerError, IllegalStateError, WakeupError
from kwire.processing import Processor
from kwire.protocol.messages.leave_group import LeaveGroupRequest
from kwire.testing import Cluster

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # Python 3.12: forks beside threads
]

TP = TopicPartition("orders", 0)


def in_child(work: Callable[[], object]) -> str:
    """What the work answers in a forked process, or the name of what it raises."""
    return told_by_child(os.fork, work)


def told_by_child(fork: Callable[[], int], work: Callable[[], object]) -> str:
    read, write = os.pipe()
    child = fork()
    if child == 0:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                told = repr(work())
        except BaseException as error:  # noqa: BLE001  told to the parent
            told = f"{type(error).__name__}: {error}"
        os.write(write, json.dumps(told).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return str(json.loads(told))


@pytest.fixture
def consumer(kafka_cluster: Cluster) -> Consumer[bytes, bytes]:
    kafka_cluster.create_topic("orders", partitions=1)
    kafka_cluster.produce("orders", *(b"%d" % number for number in range(10)))
    return Consumer(
        "orders",
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        max_poll_records=4,
    )


CALLS: dict[str, Callable[[Consumer[bytes, bytes]], object]] = {
    "poll": lambda consumer: consumer.poll(0.1),
    "iterate": lambda consumer: next(iter(consumer)),
    "commit_sync": lambda consumer: consumer.commit_sync(),
    "commit_async": lambda consumer: consumer.commit_async(),
    "assignment": lambda consumer: consumer.assignment(),
    "seek": lambda consumer: consumer.seek(TP, 0),
    "position": lambda consumer: consumer.position(TP),
    "pause": lambda consumer: consumer.pause([TP]),
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
    "end_offsets": lambda consumer: consumer.end_offsets([TP]),
}


@pytest.mark.parametrize("call", CALLS)
def test_each_call_of_the_copy_says_whose_it_is(consumer: Consumer[bytes, bytes], call: str) -> None:
    """Polls returned nothing, silently, for ever."""
    with consumer:
        consumer.poll(10.0)
        told = in_child(lambda: CALLS[call](consumer))
        assert told.startswith(f"{ForkedConsumerError.__name__}: this consumer belongs to process {os.getpid()}")
        assert "of group 'billing', made at" in told
        assert f"{__file__}:" in told
    assert issubclass(ForkedConsumerError, IllegalStateError)


def test_closing_the_copy_touches_nothing_of_the_parents(
    kafka_cluster: Cluster, consumer: Consumer[bytes, bytes]
) -> None:
    with consumer:
        assert [record.value for record in consumer.poll(10.0)] == [b"0", b"1", b"2", b"3"]
        assert in_child(consumer.close) == "None"
        assert kafka_cluster.committed("billing") == {}, "the copy has not committed"
        assert [record.value for record in consumer.poll(10.0)] == [b"4", b"5", b"6", b"7"]
        assert consumer.group_metadata().generation_id == 1, "nor left the group"
        consumer.commit_sync()
        assert [record.value for record in consumer.poll(10.0)] == [b"8", b"9"]
    assert kafka_cluster.committed("billing")[TP].offset == 10


def test_a_copy_that_is_forgotten_says_nothing(consumer: Consumer[bytes, bytes]) -> None:
    holder = [consumer]
    with consumer:
        consumer.poll(10.0)
        del consumer
        assert in_child(holder.clear) == "None"
        assert holder[0].poll(10.0)


def test_a_block_that_a_fork_was_made_in_can_be_left_in_the_child(consumer: Consumer[bytes, bytes]) -> None:
    def leave() -> None:
        with consumer:
            pass

    consumer.poll(10.0)
    assert in_child(leave) == "None"
    consumer.close()


def test_a_consumer_of_ranges_is_refused_too(kafka_cluster: Cluster) -> None:
    config = ConsumerConfig.of(bootstrap_servers=kafka_cluster.bootstrap_servers, auto_offset_reset="none")
    kafka_cluster.create_topic("orders", partitions=1)
    with RangeConsumer(config) as ranges:
        assert ranges.bounds(TP, timeout_ms=10_000) == (0, 0)
        assert in_child(lambda: ranges.bounds(TP, timeout_ms=1_000)).startswith(ForkedConsumerError.__name__)
        assert ranges.bounds(TP, timeout_ms=10_000) == (0, 0)


def test_a_handler_that_forks_harms_nobody(kafka_cluster: Cluster, consumer: Consumer[bytes, bytes]) -> None:
    told: list[str] = []
    consumer.close()

    def fork(_record: object) -> None:
        told.append(in_child(lambda: 7))
        if len(told) == 3:
            processor.stop(drain=False)

    with Consumer[bytes, bytes](
        "orders",
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        group_id="forking",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as mine:
        processor = Processor(mine, fork)
        processor.run()
    assert told[:3] == ["7", "7", "7"]
    assert kafka_cluster.committed("forking")[TP].offset == len(told)


def test_a_child_is_told_while_another_thread_of_its_parent_polls(consumer: Consumer[bytes, bytes]) -> None:
    """The guard is taken, by a thread that the child does not have."""

    def poll() -> None:
        with contextlib.suppress(WakeupError):
            consumer.poll(30.0)

    with consumer:
        while consumer.poll(0.2):
            pass
        polling = threading.Thread(target=poll)
        polling.start()
        while not consumer._guard._ground.thread:
            pass
        told = in_child(lambda: consumer.poll(0.1))
        consumer.wakeup()
        polling.join(10.0)
    assert told.startswith(ForkedConsumerError.__name__)


@pytest.mark.skipif(sys.platform != "linux", reason="calls the C library")
def test_a_fork_that_python_is_not_told_of_is_found_by_the_first_call(consumer: Consumer[bytes, bytes]) -> None:
    """uWSGI's workers: polls returned nothing, silently, for ever."""

    def commit_and_close() -> None:
        with pytest.raises(ForkedConsumerError):
            consumer.commit_sync()
        consumer.close()

    with consumer:
        consumer.poll(10.0)
        fork = ctypes.PyDLL(None).fork  # keeps the interpreter's lock, as a server's own module does
        with nobody_asking_for_the_interpreter():
            assert told_by_child(fork, lambda: consumer.poll(0.1)).startswith(ForkedConsumerError.__name__)
            assert told_by_child(fork, commit_and_close) == "None"
        assert consumer.poll(10.0)


@contextlib.contextmanager
def nobody_asking_for_the_interpreter() -> Iterator[None]:
    """A child that inherits the request of another thread hands the interpreter over to it, and waits for it for ever:
    Python was not told that this thread is not there."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(100.0)
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)


def run_program(program: str, cluster: Cluster) -> str:
    """What it prints."""
    command = [sys.executable, "-c", program, cluster.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_child_that_ends_as_programs_do_ends_nothing_of_its_parents(kafka_cluster: Cluster) -> None:
    """Its modules are torn down, and what runs at exit runs; a consumer of its own is closed by that, and no other."""
    kafka_cluster.create_topic("orders", partitions=1)
    kafka_cluster.produce("orders", *(b"%d" % number for number in range(10)))
    leaves: list[str] = []
    kafka_cluster.control.on(LeaveGroupRequest).observe(lambda request, _: leaves.append(request.group_id))
    program = """
import os, sys
from kwire import Consumer

def opened(group_id):
    defaults = dict(bootstrap_servers=sys.argv[1], auto_offset_reset="earliest", max_poll_records=4)
    return Consumer("orders", group_id=group_id, **defaults)

consumer = opened("parents")
consumer.poll(10)
if os.fork() == 0:
    own = opened("childs")
    sys.exit(len(own.poll(10)))
_, status = os.wait()
print(os.waitstatus_to_exitcode(status), [record.offset for record in consumer.poll(10)], flush=True)
os._exit(0)
"""
    assert run_program(program, kafka_cluster) == "4 [4, 5, 6, 7]\n"
    assert leaves == ["childs"]


@pytest.mark.slow
def test_a_callback_of_the_first_poll_may_fork(kafka_cluster: Cluster) -> None:
    """What decodes records is being loaded by then, in a thread that the child has not."""
    kafka_cluster.create_topic("orders", partitions=1)
    kafka_cluster.produce("orders", *(b"%d" % number for number in range(10)))
    program = """
import os, sys
from kwire import Consumer

def opened(group_id):
    defaults = dict(bootstrap_servers=sys.argv[1], auto_offset_reset="earliest", max_poll_records=4)
    return Consumer(group_id=group_id, **defaults)

def fork(consumer, partitions):
    if os.fork() == 0:
        own = opened("childs")
        own.subscribe(["orders"])
        os._exit(len(own.poll(10)))

consumer = opened("parents")
consumer.subscribe(["orders"], on_assigned=fork)
print(len(consumer.poll(10)), os.waitstatus_to_exitcode(os.wait()[1]))
consumer.close()
"""
    assert run_program(program, kafka_cluster) == "4 4\n"


def use(consumer: Consumer[bytes, bytes], told: SimpleQueue[str]) -> None:
    """The target of a process."""
    try:
        consumer.poll(0.1)
    except ForkedConsumerError as error:
        told.put(str(error))


def test_multiprocessing_that_forks_gives_a_copy(consumer: Consumer[bytes, bytes]) -> None:
    context = multiprocessing.get_context("fork")
    told = context.SimpleQueue()
    with consumer:
        child = context.Process(target=use, args=(consumer, told))
        child.start()
        assert told.get().startswith("this consumer belongs to process")
        child.join(10.0)
        assert child.exitcode == 0
        assert consumer.poll(10.0)


@pytest.mark.parametrize("process", [SpawnProcess, ForkServerProcess])
def test_multiprocessing_that_does_not_fork_is_refused_a_consumer(
    consumer: Consumer[bytes, bytes], process: type[BaseProcess]
) -> None:
    """It said "cannot pickle '_thread.RLock' object"."""
    with consumer:
        with pytest.raises(TypeError, match=r"<Consumer .*> cannot be pickled: .* pass its settings on"):
            process(target=use, args=(consumer, None)).start()
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(consumer)


@pytest.mark.parametrize("is_used", [False, True], ids=["unused", "used"])
def test_a_copy_of_an_async_consumer_says_whose_it_is(kafka_cluster: Cluster, is_used: bool) -> None:
    """One that was used spoke of another event loop: that of the parent."""
    kafka_cluster.create_topic("orders", partitions=1)
    consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer("orders", bootstrap_servers=kafka_cluster.bootstrap_servers)
    if is_used:
        asyncio.run(consumer.poll(0))
    for call in (consumer.poll, consumer.list_topics):
        assert in_child(lambda call=call: asyncio.run(call())).startswith("ForkedConsumerError")  # type: ignore[misc]
    assert in_child(consumer.assignment).startswith("ForkedConsumerError")
    asyncio.run(consumer.close())


def test_an_async_consumer_cannot_be_pickled_either(kafka_cluster: Cluster) -> None:
    async def told() -> str:
        async with AsyncConsumer[bytes, bytes](bootstrap_servers=kafka_cluster.bootstrap_servers) as consumer:
            with pytest.raises(TypeError) as caught:
                pickle.dumps(consumer)
            return str(caught.value)

    assert "cannot be pickled: it has a thread" in asyncio.run(told())
