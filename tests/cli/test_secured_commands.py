"""Commands against brokers that want TLS and a login: what they take, and that they tell it once, without a secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kwire.testing import Cluster

pytestmark = pytest.mark.slow

PASSWORD = "not-to-be-seen-91"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    users = {"alice": PASSWORD}
    with Cluster(topics={"orders": 1}, security_protocol="SASL_SSL", tls=True, users=users) as cluster:
        cluster.produce("orders", b"one", b"two")
        yield cluster


@pytest.fixture
def file(cluster: Cluster, tmp_path: Path) -> Path:
    """A client's file without its password."""
    path = tmp_path / "client.properties"
    config = {name: value for name, value in cluster.client_config().items() if name != "sasl.password"}
    path.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    return path


def run(*arguments: object, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(
        command, env={**os.environ, **(environ or {})}, capture_output=True, text=True, timeout=300, check=False
    )


def test_consume_takes_the_password_from_the_environment(file: Path) -> None:
    done = run("kwire", "consume", "orders", "--config", file, "-e", environ={"KWIRE_SASL_PASSWORD": PASSWORD})
    assert (done.returncode, done.stdout, done.stderr) == (0, "one\ntwo\n", "")


def test_a_password_in_a_flag_works_and_is_warned_of(file: Path) -> None:
    done = run("kwire", "consume", "orders", "--config", file, "-e", "-X", f"sasl.password={PASSWORD}")
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n")
    (warning,) = done.stderr.splitlines()
    assert warning.startswith("kwire: -X sasl.password: every user of this machine can see a secret")
    assert PASSWORD not in warning


def test_a_refused_login_is_one_line_and_exit_1(file: Path) -> None:
    """The network thread logs it, and the call raises it."""
    done = run("kwire", "consume", "orders", "--config", file, "-e", environ={"KWIRE_SASL_PASSWORD": PASSWORD + "!"})
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert "refuses the login of alice by PLAIN" in line
    assert PASSWORD not in line


def test_the_verifiable_consumer_logs_in_by_its_file(cluster: Cluster, file: Path) -> None:
    with file.open("a") as more:
        more.write(f"sasl.password={PASSWORD}\n")
    flags = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", "orders", "--group-id", "g"]
    done = run("kwire.verifiable_consumer", *flags, "--max-messages", 2, "--consumer.config", file)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 2
    assert PASSWORD not in done.stdout + done.stderr


def test_a_pipeline_logs_in_and_writes_its_password_nowhere(file: Path, tmp_path: Path) -> None:
    where = ["--path", tmp_path / "table", "--metrics", tmp_path / "metrics.jsonl", "--exit-at-end"]
    flags = [*where, "--master", "local[1]", "--kafka-config", file]
    done = run("kwire", "pipeline", "orders", *flags, environ={"KWIRE_SASL_PASSWORD": PASSWORD})
    assert done.returncode == 0, done.stderr
    assert '"rows": 2' in (tmp_path / "metrics.jsonl").read_text()
    (tmp_path / "output").write_text(done.stdout + done.stderr)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("offsets" in path.parts for path in written)
    assert [path for path in written if PASSWORD.encode() in path.read_bytes()] == []
