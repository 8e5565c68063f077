"""Clusters of real brokers: side by side, through a broker's death and return, and gone with their parent process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.testing.faults.admin.wire import ask
from kwire.testing.faults.topic_settings import OLDER_KAFKA
from kwire.testing.kafka import ClusterError, KafkaCluster, cluster
from kwire.testing.kafka.addresses import HOST, Address, choose_addresses, free_ports
from kwire.testing.kafka.node import is_stopped, running_processes
from kwire.testing.kafka.probe import known_brokers
from proofs.proxy import HeartbeatProxy

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.integration

START_AND_STAY = """
import time
from kwire.testing.kafka import KafkaCluster
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


def test_a_broker_has_stopped_when_it_is_paused_however_late_its_guard_is() -> None:
    with KafkaCluster() as kafka:
        running = running_processes(kafka.directory / "broker-0")
        assert running is not None
        os.kill(running.guard, signal.SIGSTOP)
        later = threading.Timer(0.2, os.kill, (running.guard, signal.SIGCONT))
        later.start()
        kafka.pause_broker(0)
        assert is_stopped(running.broker)
        later.join()


def newest_commit(address: tuple[str, int]) -> int:
    """The version of OffsetCommit that a broker offers: 10 from Kafka 4.1 on (KIP-848's topic ids)."""
    answer = ask(address, ApiVersionsRequest(), version=0)  # which all releases answer
    return next(api.max_version for api in answer.api_keys if api.api_key == OffsetCommitRequest.api_key)


@pytest.mark.slow
def test_a_broker_becomes_one_of_an_older_release_and_back_with_its_data() -> None:
    with KafkaCluster(storage_of=OLDER_KAFKA) as kafka:
        with pytest.raises(ClusterError, match="broker 0 runs: its release changes while it does not"):
            kafka.change_release(0, OLDER_KAFKA)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(30)
        offered = [newest_commit(kafka.addresses[0])]
        for release in (OLDER_KAFKA, None):
            kafka.stop_broker(0)
            kafka.change_release(0, release)
            kafka.start_broker(0)
            offered.append(newest_commit(kafka.addresses[0]))
        assert offered == [10, 9, 10]
        assert "kept" in admin.list_topics(timeout=30).topics


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
        monkeypatch.setattr(cluster, "choose_addresses", lambda *_wanted: choices.pop())
        with KafkaCluster() as kafka:
            assert choices == []
            assert kafka.addresses[0][1] != taken


def test_a_broker_that_cannot_start_shows_its_log_and_leaves_nothing(tmp_path: Path) -> None:
    kafka = KafkaCluster(directory=tmp_path, settings={"log.segment.bytes": "many"})
    with pytest.raises(ClusterError, match=r"(?s)broker 0 ended while starting; its log ends:.*log\.segment\.bytes"):
        kafka.start()
    assert running_processes(tmp_path / "broker-0") is None


def told_by(servers: str) -> set[int]:
    """The ports of all brokers, as a client hears of them that begins with these."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    return {broker.port for broker in admin.list_topics(timeout=30).brokers.values()}


def test_clients_stay_behind_the_proxies_and_brokers_go_past_them() -> None:
    ports = free_ports(2)
    with KafkaCluster(2, advertised=[(HOST, port) for port in ports]) as kafka:
        assert kafka.bootstrap_servers == f"{HOST}:{ports[0]},{HOST}:{ports[1]}"
        with ExitStack() as proxies:
            for port, (_, client_port) in zip(ports, kafka.client_addresses, strict=True):
                proxies.enter_context(HeartbeatProxy(port, client_port))
            assert told_by(kafka.bootstrap_servers) == set(ports)
        # The proxies are gone. Replication goes on, and so do the clients that were let past them.
        assert told_by(kafka.direct_servers) == {port for _, port in kafka.addresses}
        admin = AdminClient({"bootstrap.servers": kafka.direct_servers})
        admin.create_topics([NewTopic("copied", 1, 2)])["copied"].result(30)
        producer = Producer({"log_level": 0, "bootstrap.servers": kafka.direct_servers, "acks": "all"})
        producer.produce("copied", b"value")
        assert producer.flush(30) == 0


def test_a_broker_comes_back_behind_its_proxy() -> None:
    with KafkaCluster(advertised=[(HOST, free_ports(1)[0])]) as kafka:
        listening = kafka.client_addresses
        assert known_brokers(*listening[0]) == {0}
        kafka.restart_broker(0)
        assert kafka.client_addresses == listening
        assert known_brokers(*listening[0]) == {0}
