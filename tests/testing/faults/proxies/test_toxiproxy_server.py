"""Toxiproxy is built or says why not, and never outlives who started it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kwire.testing.faults.proxies.toxiproxy import Toxiproxy, ToxiproxyError
from kwire.testing.faults.proxies.toxiproxy_server import VERSION, ToxiproxyServer, ensure_toxiproxy
from kwire.testing.kafka.jars import ClusterError, MissingSoftwareError, cache_dir

TIMEOUT_S = 10.0

STARTS_AND_WAITS = """
import sys
from pathlib import Path
from kwire.testing.faults.proxies.toxiproxy_server import ToxiproxyServer
server = ToxiproxyServer(Path(sys.argv[1]))
server.start()
print(server.client.address[1], flush=True)
sys.stdin.read()
"""


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_without_go_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingSoftwareError, match="Go is needed to build toxiproxy: install it"):
        ensure_toxiproxy(tmp_path / "cache")


def test_a_build_that_fails_says_why_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "go", "echo downloading\necho no such host >&2\nexit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(MissingSoftwareError, match="it said: no such host"):
        ensure_toxiproxy(tmp_path / "cache")
    assert list((tmp_path / "cache" / "toxiproxy" / VERSION).iterdir()) == []


def test_it_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "go", f'echo built >> {tmp_path}/builds\necho program > "$GOBIN/server"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    programs = {ensure_toxiproxy(tmp_path / "cache") for _ in range(2)}
    assert [program.read_text() for program in programs] == ["program\n"]
    assert (tmp_path / "builds").read_text() == "built\n"


@pytest.mark.slow
def test_a_program_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    program = tmp_path / "toxiproxy" / VERSION / "toxiproxy"
    program.parent.mkdir(parents=True)
    script(program, "echo it is broken")
    with pytest.raises(ClusterError, match="toxiproxy does not start: it is broken"):
        ToxiproxyServer(tmp_path).start()


def test_the_cache_may_be_named_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started elsewhere, and was not found there."""
    (tmp_path / "toxiproxy" / VERSION).mkdir(parents=True)
    (tmp_path / "toxiproxy" / VERSION / "toxiproxy").touch()
    monkeypatch.chdir(tmp_path)
    assert ensure_toxiproxy(Path()) == tmp_path / "toxiproxy" / VERSION / "toxiproxy"


@pytest.mark.integration
def test_it_has_gone_when_it_is_stopped() -> None:
    server = ToxiproxyServer(cache_dir())
    with server:
        client = server.client
        assert client.proxies() == ()
    with pytest.raises(ToxiproxyError, match="does not answer"):
        client.version()
    with pytest.raises(ClusterError, match="not started"):
        _ = server.client


@pytest.mark.integration
@pytest.mark.slow
def test_it_does_not_outlive_a_killed_parent() -> None:
    command = [sys.executable, "-c", STARTS_AND_WAITS, str(cache_dir())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        client = Toxiproxy("127.0.0.1", int(parent.stdout.readline()))
        assert client.version() == VERSION
        parent.send_signal(signal.SIGKILL)
    deadline_s = time.monotonic() + TIMEOUT_S
    while is_answering(client):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def is_answering(client: Toxiproxy) -> bool:
    try:
        client.version()
    except ToxiproxyError:
        return False
    return True
