"""`kwire consume` as people use it: in a pipe, stopped with Ctrl-C, and with nobody to talk to."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.kafkas import SharedKafka

pytestmark = [
    pytest.mark.slow,
    pytest.mark.only("kafka", reason="each test starts a program; the client in it is tested against both"),
]

TIMEOUT_S = 30.0
RECORDS = 20_000


def command(kafka: SharedKafka | None, *arguments: str) -> list[str]:
    servers = kafka.bootstrap_servers if kafka is not None else "127.0.0.1:1"
    return [sys.executable, "-m", "kwire", "consume", "--bootstrap", servers, *arguments]


def run(kafka: SharedKafka | None, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(kafka, *arguments), capture_output=True, timeout=TIMEOUT_S, check=False)


@pytest.fixture(scope="module")
def filled(topic: MakeTopic, produce: Produce) -> str:
    """A topic with numbered records in three partitions."""
    name = topic(3)
    for partition in range(3):
        values = [b"%d" % number for number in range(partition, RECORDS, 3)]
        produce(name, values, keys=[b"k"] * len(values), partition=partition, config={"linger.ms": 50})
    return name


def test_everything_up_to_the_end(kafka: SharedKafka, filled: str) -> None:
    done = run(kafka, filled, "--exit-at-end")
    assert (done.returncode, done.stderr) == (0, b"")
    assert sorted(map(int, done.stdout.split())) == list(range(RECORDS))


def test_a_count_and_keys(kafka: SharedKafka, filled: str) -> None:
    done = run(kafka, filled, "-n", "3", "-p", "1", "-K", ":")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"k:1\nk:4\nk:7\n", b"")


def test_a_reader_that_has_enough_ends_it_in_silence(kafka: SharedKafka, filled: str) -> None:
    with subprocess.Popen(command(kafka, filled), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().strip().isdigit()
        process.stdout.close()
        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_without_a_traceback(kafka: SharedKafka, filled: str, number: signal.Signals) -> None:
    with subprocess.Popen(command(kafka, filled), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip().isdigit()  # it is running, and waits for more soon
        process.send_signal(number)
        _, said = process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, said) == (128 + number, b"")


def test_nobody_to_talk_to_is_a_line_at_once_and_one_in_the_end(kafka: SharedKafka) -> None:
    """Who waits wants to know for whom, and not only when the waiting is over."""
    done = run(None, "some-topic", "-X", "default_api_timeout_ms=500")
    assert done.returncode == 1
    *at_once, in_the_end = done.stderr.decode().splitlines()
    assert len(at_once) <= 1  # none, if the time is over before anything could be tried
    assert all(line.endswith("broker 127.0.0.1:1: Connection refused") for line in at_once)
    assert in_the_end.startswith("kwire: ")
    assert "127.0.0.1:1" in in_the_end
    assert "Connection refused" in in_the_end


def test_a_topic_that_is_not_there_is_one_line_and_is_not_created(kafka: SharedKafka) -> None:
    for _ in range(2):
        done = run(kafka, "not-there-by-a-slip-of-the-finger")
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.decode().splitlines() == [
            (
                "kwire: there is no topic 'not-there-by-a-slip-of-the-finger', or this client may not see it; "
                "'kwire topics list' shows those that it may see"
            )
        ]


def test_a_setting_that_does_not_exist_is_wrong_usage(kafka: SharedKafka) -> None:
    done = run(kafka, "some-topic", "-X", "max_pol_records=5")
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert "max_poll_records" in line


def test_with_parallel_rebalance_the_end_is_the_end_of_the_lag_as_well(kafka: SharedKafka, filled: str) -> None:
    """The group has read a little of each partition; the rest is a lag, and comes beside what is new."""
    group = ["--group", f"catching-up-{filled}", "-X", "enable_parallel_rebalance=true"]
    first = run(kafka, filled, "-n", "10", *group)
    assert first.returncode == 0
    rest = run(kafka, filled, "--exit-at-end", *group)
    assert (rest.returncode, rest.stderr) == (0, b"")
    assert sorted(map(int, first.stdout.split() + rest.stdout.split())) == list(range(RECORDS))
    nothing = run(kafka, filled, "--exit-at-end", *group)
    assert (nothing.returncode, nothing.stdout) == (0, b"")
