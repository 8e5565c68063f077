"""`kwire fake`: says where it is, serves, and ends with Ctrl-C."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.cli.fake import parse_topics, parse_users
from kwire.conformance.client import BrokerAddress, ClientConnection
from kwire.errors import InvalidArgumentError
from kwire.protocol.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.fake_consumer import Command
    from tests.secured_clients import IGNORED, read_with_confluent
else:
    from secured_clients import IGNORED, read_with_confluent

TIMEOUT_S = 30.0
COMMAND = (sys.executable, "-m", "kwire", "fake")


def test_topics_have_one_partition_unless_told_otherwise() -> None:
    assert parse_topics("orders:3, payments ,") == {"orders": 3, "payments": 1}
    assert parse_topics("") == {}


@pytest.mark.parametrize("text", ["orders:", "orders:0", "orders:many", ":3"])
def test_what_is_no_topic_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="NAME:PARTITIONS"):
        parse_topics(text)


def test_users_have_a_name_and_a_password_which_may_have_colons() -> None:
    assert parse_users(["alice:secret", "bob:a:b"]) == {"alice": "secret", "bob": "a:b"}


@pytest.mark.parametrize("text", ["secret", ":secret", "alice:", ""])
def test_what_is_no_user_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="NAME:PASSWORD") as refusal:
        parse_users([text])
    assert "secret" not in str(refusal.value)


def test_tls_without_what_makes_certificates_is_told_in_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended with a traceback of four screens."""
    monkeypatch.setitem(sys.modules, "trustme", None)
    monkeypatch.delitem(sys.modules, "kwire.testing.certificates", raising=False)
    outcome = command("fake", "--tls")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "kwire: test certificates need trustme; install it with: pip install 'kwire[testing]'\n"


def test_a_port_that_is_taken_is_told_in_one_line(command: Command) -> None:
    """It ended with a traceback, of the first command that a newcomer is shown for a broker."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = command("fake", "--port", port)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(f"kwire: no broker can listen at --port {port}: Address already in use")
    assert outcome.err.count("\n") == 1
    outcome = command("fake", "--port", 65535, "--brokers", 2)
    assert outcome.code == 2
    assert outcome.err == "kwire: --port 65535 leaves no ports for 2 brokers: the last is 65535\n"


@pytest.mark.slow
@pytest.mark.filterwarnings(IGNORED)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_with_tls_and_users_it_prints_what_clients_have_to_set(number: signal.Signals) -> None:
    """SIGTERM, which tests in other languages send, left the keys behind."""
    command = [*COMMAND, "--topics", "orders", "--tls", "--user", "alice:secret"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            bootstrap = process.stdout.readline().strip()
            lines = [process.stdout.readline().strip() for _ in range(8)]
            config = dict(line.split("=", 1) for line in lines)
            assert config["bootstrap.servers"] == bootstrap
            assert config["security.protocol"] == "SASL_SSL"
            assert lines[-1] == f"# librdkafka: ssl.ca.location={config['ssl.truststore.location']}"
            del config["# librdkafka: ssl.ca.location"]
            assert read_with_confluent(config, "orders") == []
            process.send_signal(number)
            assert process.communicate(timeout=TIMEOUT_S) == ("", "")
            assert process.returncode == 128 + number
            assert not Path(config["ssl.truststore.location"]).exists()
        finally:
            process.kill()


@pytest.fixture
def running() -> Iterator[subprocess.Popen[str]]:
    command = [*COMMAND, "--brokers", "2", "--topics", "orders:3,payments", "--release", "3.9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_it_serves_the_topics_named_until_it_is_interrupted(running: subprocess.Popen[str]) -> None:
    assert running.stdout is not None
    bootstrap = running.stdout.readline().strip()
    assert bootstrap.count(",") == 1
    with ClientConnection(BrokerAddress.parse(bootstrap), TIMEOUT_S) as connection:
        answer = connection.ask(MetadataRequest(topics=None), 12)
    assert {topic.name: len(topic.partitions) for topic in answer.topics} == {"orders": 3, "payments": 1}
    running.send_signal(signal.SIGINT)
    _out, complaints = running.communicate(timeout=TIMEOUT_S)
    assert (running.returncode, complaints) == (128 + signal.SIGINT, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--release", "1.1"], "cannot be Kafka '1.1'"),
        (["--topics", "a:b"], "not 'a:b'"),
        (["--security-protocol", "SSL", "--user", "a:b"], "SSL has none"),
    ],
)
def test_a_wrong_argument_is_one_line_on_stderr(arguments: list[str], complaint: str) -> None:
    ran = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert ran.returncode != 0
    assert complaint in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
