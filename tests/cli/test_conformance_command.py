"""`kwire conformance` where nothing can be judged: what it says, and the exit code that tells it from a bad broker."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kwire import Consumer
from kwire.cli.commands import app
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.testing import Cluster

WAIT_S = 30.0


def test_nobody_there_is_exit_2_and_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    done = CliRunner().invoke(app, ["conformance", "--bootstrap", f"127.0.0.1:{port}"])
    assert done.exit_code == 2
    assert done.stderr.startswith("kwire: no Kafka broker to judge at")
    assert done.stderr.count("\n") == 1


def test_what_is_no_address_is_exit_2_and_one_line() -> None:
    done = CliRunner().invoke(app, ["conformance", "--bootstrap", "nowhere"])
    assert done.exit_code == 2
    assert done.stderr.startswith("kwire: --bootstrap: bootstrap_servers='nowhere': 'nowhere' has no port")
    assert done.stderr.count("\n") == 1


def _of_another_request(answer: bytes) -> bytes:
    return bytes([*answer[:3], answer[3] ^ 1, *answer[4:]])


def _cut_short(answer: bytes) -> bytes:
    return answer[:-3]


@pytest.mark.parametrize("change", [_of_another_request, _cut_short])
def test_a_broker_whose_metadata_is_broken_does_not_conform(change: Callable[[bytes], bytes]) -> None:
    """It was exit 2, that of no broker at all."""
    with Cluster() as cluster:
        cluster.control.on(MetadataRequest).corrupt(change)
        done = CliRunner().invoke(app, ["conformance", "-b", cluster.bootstrap_servers])
    assert done.exit_code == 1
    assert done.stderr.startswith(f"kwire: the broker at {cluster.bootstrap_servers} does not conform: Metadata cannot")
    assert done.stderr.count("\n") == 1


def test_a_file_for_the_report_that_cannot_be_written_is_said_before_the_checks_run(tmp_path: Path) -> None:
    """All checks ran, and their report was thrown away."""
    with Cluster() as cluster:
        asked = cluster.control.on(ApiVersionsRequest).observe()
        file = tmp_path / "missing" / "report.json"
        done = CliRunner().invoke(app, ["conformance", "-b", cluster.bootstrap_servers, "--json", str(file)])
    assert (done.exit_code, asked.fired) == (2, 0)
    assert done.stderr.startswith("kwire: [Errno 2] No such file or directory")


@pytest.mark.skipif(sys.platform != "linux", reason="writes to /dev/full")
def test_the_report_is_printed_even_if_its_file_cannot_be_written() -> None:
    with Cluster() as cluster:
        arguments = ["conformance", "-b", cluster.bootstrap_servers, "-k", "DescribeCluster", "--json", "/dev/full"]
        done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, "passed" in done.stdout) == (2, True)
    assert "No space left on device" in done.stderr


@pytest.mark.slow
def test_stopped_by_sigterm_it_deletes_what_it_has_made() -> None:
    """As CI systems stop jobs: topics and groups were left behind on the broker, which others may use."""
    with Cluster() as cluster:
        fetched = threading.Event()
        cluster.control.on(FetchRequest).delay(60_000)
        cluster.control.on(FetchRequest, times=1).observe(lambda _request, _call: fetched.set())
        command = [sys.executable, "-m", "kwire", "conformance", "-b", cluster.bootstrap_servers, "--timeout", "1"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            assert fetched.wait(WAIT_S)
            process.terminate()
            assert process.wait(WAIT_S) == 128 + signal.SIGTERM
        with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
            assert not consumer.list_topics()


def test_the_broker_may_be_named_as_for_other_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster() as cluster:
        monkeypatch.setenv("KWIRE_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)
        done = CliRunner().invoke(app, ["conformance", "-k", "DescribeCluster"])
    assert done.exit_code == 0, done.stderr


def test_a_broker_that_offers_nothing_of_what_was_asked_for_does_not_conform() -> None:
    """It was exit 0, that of a broker that passes every check."""
    with Cluster() as cluster:
        done = CliRunner().invoke(app, ["conformance", "-b", cluster.bootstrap_servers, "-k", "ShareFetch"])
    assert done.exit_code == 2
    assert "not offered  ShareFetch" in done.stdout
    assert done.stderr == "kwire: nothing was judged: the broker offers none of what was asked for\n"
