"""Clusters of real brokers: side by side, through a broker's death and return, and gone with whoever started them."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import kafka_cluster
import pytest
from kafka_cluster import KafkaCluster, choose_addresses
from kafka_jars import ClusterError
from kafka_node import Address, running_processes
from kafka_probe import known_brokers

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.integration

SCRIPTS = Path(kafka_cluster.__file__).parent
START_AND_STAY = f"""
import sys, time
sys.path.insert(0, {str(SCRIPTS)!r})
from kafka_cluster import KafkaCluster
with KafkaCluster() as kafka:
    print(kafka.directory, flush=True)
    time.sleep(600)
"""


def wait_until_gone(directory: Path, timeout_s: float = 20.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while directory.exists():
        assert time.monotonic() < deadline_s, f"left behind: {sorted(directory.rglob('*'))}"
        time.sleep(0.01)


def test_clusters_run_side_by_side_and_know_only_themselves() -> None:
    with KafkaCluster() as one, KafkaCluster() as two:
        directories = [one.directory, two.directory]
        assert one.bootstrap_servers != two.bootstrap_servers
        assert known_brokers(*one.addresses[0]) == known_brokers(*two.addresses[0]) == {0}
    assert not any(directory.exists() for directory in directories)


def test_a_broker_dies_comes_back_and_pauses() -> None:
    with KafkaCluster(3) as kafka:
        servers = kafka.bootstrap_servers
        assert known_brokers(*kafka.addresses[0]) == {0, 1, 2}
        kafka.kill_broker(1)
        assert not kafka.is_running(1)
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(kafka.addresses[1], timeout=5)
        kafka.start_broker(1)
        assert known_brokers(*kafka.addresses[1]) == {0, 1, 2}
        kafka.pause_broker(2)
        assert known_brokers(*kafka.addresses[2]) == frozenset()  # takes the connection, says nothing
        kafka.resume_broker(2)
        kafka.restart_broker(2)
        assert kafka.bootstrap_servers == servers
        with pytest.raises(ClusterError, match="broker 2 is running already"):
            kafka.start_broker(2)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_the_process_that_started_it(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", START_AND_STAY], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as starter:
        assert starter.stdout is not None
        directory = Path(starter.stdout.readline().strip())
        assert running_processes(directory / "broker-0") is not None
        starter.send_signal(number)
    wait_until_gone(directory)


def test_a_port_taken_meanwhile_makes_it_choose_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as intruder:
        taken = intruder.getsockname()[1]
        choices: list[Sequence[Address]] = [choose_addresses(1), [Address(broker_port=taken, controller_port=1025)]]
        monkeypatch.setattr(kafka_cluster, "choose_addresses", lambda brokers: choices.pop())
        with KafkaCluster() as kafka:
            assert choices == []
            assert kafka.addresses[0][1] != taken


def test_a_broker_that_cannot_start_shows_its_log_and_leaves_nothing(tmp_path: Path) -> None:
    kafka = KafkaCluster(directory=tmp_path, settings={"log.segment.bytes": "many"})
    with pytest.raises(ClusterError, match=r"(?s)broker 0 ended while starting; its log ends:.*log\.segment\.bytes"):
        kafka.start()
    assert running_processes(tmp_path / "broker-0") is None
