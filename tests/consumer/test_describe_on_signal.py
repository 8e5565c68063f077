"""A process that is sent SIGUSR1 prints how its consumers stand, whatever it is at."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kwire import describe_on_signal
from kwire.errors import IllegalStateError
from kwire.testing import Cluster

pytestmark = [
    pytest.mark.slow,  # processes
    pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signal here"),
]

POLLS = """
import sys, kwire
kwire.describe_on_signal()
with kwire.Consumer("orders", bootstrap_servers=sys.argv[1], group_id="billing") as consumer:
    while not consumer.assignment():
        consumer.poll(0.1)
    print("ready", flush=True)
    consumer.poll(60.0)
"""
# The main thread holds the mailbox's lock, and the one of threading that starts threads, when the signal comes.
HOLDS_LOCKS = """
import signal, sys, threading, kwire
kwire.describe_on_signal()
consumer = kwire.Consumer("orders", bootstrap_servers=sys.argv[1], group_id="billing")
with consumer._session.link.mailbox._lock, threading._active_limbo_lock:
    signal.raise_signal(signal.SIGUSR1)
print("ready", flush=True)
consumer.close()
sys.stdin.read()
"""


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def lines_until(process: subprocess.Popen[str], end: str) -> str:
    """What it prints to stderr up to the line that begins like that."""
    assert process.stderr is not None
    found = ""
    for line in process.stderr:
        found += line
        if line.strip().startswith(end):
            return found
    pytest.fail(f"it ended without {end!r}:\n{found}")


def wait_until_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 1}) as running_cluster:
        yield running_cluster


def test_a_process_prints_its_consumers_when_it_is_told_to(cluster: Cluster) -> None:
    with running("-c", POLLS, cluster.bootstrap_servers) as process:
        wait_until_ready(process)
        told = subprocess.run(
            [sys.executable, "-m", "kwire", "describe", str(process.pid)], capture_output=True, text=True, check=True
        )
        page = lines_until(process, "orders-0")
        assert process.poll() is None  # and it goes on
    assert "it prints how its consumers stand to its stderr" in told.stdout
    assert f"1 consumer in process {process.pid}" in page
    assert "group billing (classic)" in page


def test_locks_that_the_interrupted_thread_holds_do_no_harm(cluster: Cluster) -> None:
    with running("-c", HOLDS_LOCKS, cluster.bootstrap_servers) as process:
        wait_until_ready(process)
        assert "in process" in lines_until(process, "kwire: ")


def test_kwire_consume_expects_it(cluster: Cluster) -> None:
    cluster.produce("orders", b"first")
    with running("-m", "kwire", "consume", "orders", "-b", cluster.bootstrap_servers) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "first\n"
        process.send_signal(signal.SIGUSR1)
        assert "partitions assigned by hand" in lines_until(process, "orders-0")


def test_a_process_that_does_not_expect_it_is_left_alone() -> None:
    with running("-c", "print('ready', flush=True); input()") as process:
        wait_until_ready(process)
        told = subprocess.run(
            [sys.executable, "-m", "kwire", "describe", str(process.pid)], capture_output=True, text=True, check=False
        )
        assert process.poll() is None
    assert told.returncode != 0
    assert "it has to call kwire.describe_on_signal()" in told.stderr


def test_only_the_main_thread_can_install_it() -> None:
    errors: list[Exception] = []

    def install() -> None:
        try:
            describe_on_signal()
        except IllegalStateError as error:
            errors.append(error)

    thread = threading.Thread(target=install)
    thread.start()
    thread.join()
    assert "main thread" in str(errors[0])
