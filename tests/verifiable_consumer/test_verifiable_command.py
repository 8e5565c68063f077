"""From the command line to settings and exit codes, and what signals do."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.config import ConsumerConfig, GroupProtocol, Secret, login_of
from kwire.errors import ConfigError
from kwire.verifiable_consumer.arguments import parse
from kwire.verifiable_consumer.command import Shutdown, main
from kwire.verifiable_consumer.events import EventLog

if TYPE_CHECKING:
    from tests.verifiable_consumer.verifiable_lines import LinesInMemory
else:
    from verifiable_lines import LinesInMemory

NEEDED = ("--bootstrap-server", "a:1,b:2", "--topic", "t", "--group-id", "g")


def config_of(*more: str) -> ConsumerConfig:
    return ConsumerConfig.of(parse([*NEEDED, *more]).settings)


# --- flags ------------------------------------------------------------------------------------------------------


def test_defaults_are_those_of_java() -> None:
    options, config = parse(NEEDED), config_of()
    assert (options.topic, options.max_messages, options.auto_commit, options.verbose) == ("t", -1, False, False)
    assert [str(endpoint) for endpoint in config.bootstrap_servers] == ["a:1", "b:2"]
    assert (config.group_id, config.group_protocol) == ("g", GroupProtocol.CLASSIC)
    assert (config.group_instance_id, config.enable_auto_commit) == (None, False)
    assert str(config.auto_offset_reset) == "earliest"
    assert config.partition_assignment_strategy == ("range",)
    assert config.session_timeout_ms == 45_000


def test_what_the_system_tests_pass_to_a_classic_member() -> None:
    """The order and the spelling of kafkatest's services/verifiable_consumer.py."""
    arguments = (
        "--verbose --group-instance-id g-instance-1 "
        "--assignment-strategy org.apache.kafka.clients.consumer.RoundRobinAssignor "
        "--enable-autocommit --bootstrap-server b:9092 --reset-policy latest --group-id g --topic t "
        "--session-timeout 30000 --max-messages 10"
    )
    options = parse(arguments.split())
    config = ConsumerConfig.of(options.settings)
    assert (options.verbose, options.auto_commit, options.max_messages) == (True, True, 10)
    assert (config.group_instance_id, config.session_timeout_ms) == ("g-instance-1", 30_000)
    assert config.partition_assignment_strategy == ("roundrobin",)
    assert (str(config.auto_offset_reset), config.enable_auto_commit) == ("latest", True)


@pytest.mark.parametrize("protocol", ["consumer", "CONSUMER"])
def test_what_the_system_tests_pass_to_a_member_of_the_new_protocol(protocol: str) -> None:
    config = config_of("--group-protocol", protocol, "--group-remote-assignor", "uniform")
    assert (config.group_protocol, config.group_remote_assignor) == (GroupProtocol.CONSUMER, "uniform")


def test_flags_of_the_other_protocol_are_left_out() -> None:
    assert config_of("--group-remote-assignor", "uniform").group_remote_assignor is None
    assert config_of("--group-protocol", "consumer", "--assignment-strategy", "no such").group_id == "g"


def test_a_session_timeout_is_not_for_the_new_protocol() -> None:
    with pytest.raises(ConfigError, match="session_timeout_ms cannot be set"):
        config_of("--group-protocol", "consumer", "--session-timeout", "30000")


@pytest.mark.parametrize(
    "strategies",
    [
        "roundrobin,range",
        "org.apache.kafka.clients.consumer.RoundRobinAssignor, org.apache.kafka.clients.consumer.RangeAssignor",
    ],
)
def test_several_assignors_by_either_name(strategies: str) -> None:
    assert config_of("--assignment-strategy", strategies).partition_assignment_strategy == ("roundrobin", "range")


# --- the file ---------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "verifiable_consumer.properties"
    path.write_text(
        "security.protocol=PLAINTEXT\n"
        "group.id=somebody-else\nbootstrap.servers=elsewhere:1\nenable.auto.commit=true\n"
        "max.poll.records=5\nmax.poll.records=6\n"
        "key.deserializer=com.example.Fancy\n"
        "no.such.setting=1\n"
    )
    return path


@pytest.mark.parametrize("flag", ["--consumer.config", "--command-config"])
def test_a_file_is_read_under_the_flags(flag: str, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = config_of(flag, str(file))
    assert (config.max_poll_records, config.group_id, config.enable_auto_commit) == (6, "g", False)
    assert str(config.bootstrap_servers[0]) == "a:1"
    assert config.key_deserializer is None
    assert [record.getMessage() for record in caplog.records] == [
        f"{file}:8: there is no setting 'no.such.setting'; it is ignored"
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("interceptor.classes=com.example.Spy", "kwire has no setting"),
        ("max.poll.records=many", "max_poll_records='many'"),
        ("security.protocol=KERBEROS", "security_protocol"),
    ],
)
def test_a_bad_line_is_refused_with_its_place(line: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.properties"
    path.write_text(f"\n{line}\n")
    with pytest.raises(ConfigError, match=problem) as refused:
        config_of("--command-config", str(path))
    assert str(refused.value).startswith(f"{path}:2: ")


def test_the_file_of_a_client_that_logs_in_is_read_as_it_is(tmp_path: Path) -> None:
    """As Kafka's system tests write it: with settings of the JVM's that change nothing here."""
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_SSL\nssl.truststore.location=/certs/ca.pem\nssl.truststore.type=PEM\n"
        "ssl.protocol=TLSv1.3\nssl.keymanager.algorithm=SunX509\nsasl.mechanism=SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        '  username="kafka" password="not-to-be-seen";\n'
    )
    options = parse([*NEEDED, "--command-config", str(path)])
    login = login_of(ConsumerConfig.of(options.settings))
    assert (login.username, login.password) == ("kafka", Secret("not-to-be-seen"))
    assert "not-to-be-seen" not in repr(options)


# --- exit codes -------------------------------------------------------------------------------------------------


def exit_code(arguments: Sequence[str]) -> int | str | None:
    with pytest.raises(SystemExit) as exited:
        main(arguments)
    return exited.value.code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (NEEDED[:4], "--group-id"),
        ((*NEEDED, "--nope"), "--nope"),
        ((*NEEDED, "--max-messages", "many"), "--max-messages"),
        ((*NEEDED, "--verb"), "--verb"),
        ((*NEEDED, "--consumer.config", "f", "--command-config", "f"), "not allowed with"),
    ],
    ids=["a flag is missing", "an unknown flag", "not a number", "half a flag", "two files"],
)
def test_a_wrong_command_line_exits_with_1(
    arguments: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: verifiable-consumer ")
    assert said in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--group-protocol", "x"), "group_protocol='x'"),
        (("--command-config", "/does/not/exist"), "cannot read /does/not/exist"),
        (("--reset-policy", "nothing"), "auto_offset_reset='nothing'"),
    ],
)
def test_settings_that_cannot_be_exit_with_1(
    arguments: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*NEEDED, *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("verifiable-consumer: ")
    assert said in err


def test_no_arguments_and_a_cry_for_help_are_answered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert exit_code(["-h"]) == 0
    first, second = capsys.readouterr().out.split("usage: verifiable-consumer ")[1:]
    assert first == second
    assert "--assignment-strategy" in first


def test_a_closed_stdout_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(NEEDED) == 1
    assert "standard output is closed" in capsys.readouterr().err


# --- signals ----------------------------------------------------------------------------------------------------


@pytest.fixture
def kept_handlers() -> Iterator[None]:
    """Whatever a test does, the handlers are those of before."""
    before = {number: signal.getsignal(number) for number in Shutdown.NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("kept_handlers")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_first_signal_is_told_and_wakes_and_the_second_does_nothing(number: signal.Signals) -> None:
    lines, woken = LinesInMemory(), []
    with Shutdown(EventLog(lines), lambda: woken.append(True)) as shutdown:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), signal.SIGTERM)
    assert shutdown.received == number
    assert woken == [True]
    assert lines.events() == [{"name": "shutdown_requested"}]


@pytest.mark.usefixtures("kept_handlers")
def test_an_end_without_a_signal_tells_of_the_shutdown_too_as_javas_hook_does() -> None:
    lines, woken = LinesInMemory(), []
    before = signal.getsignal(signal.SIGTERM)
    with Shutdown(EventLog(lines), lambda: woken.append(True)) as shutdown:
        assert signal.getsignal(signal.SIGTERM) != before
    assert (shutdown.received, woken) == (None, [])
    assert lines.events() == [{"name": "shutdown_requested"}]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.usefixtures("kept_handlers")
def test_a_signal_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Shutdown(EventLog(LinesInMemory()), lambda: None) as shutdown:
        os.kill(os.getpid(), signal.SIGHUP)
    assert shutdown.received is None


@pytest.mark.usefixtures("kept_handlers")
def test_a_signal_wakes_the_consumer_even_when_nobody_reads() -> None:
    class Closed:
        def write(self, data: bytes, /) -> None:
            raise BrokenPipeError

    woken = []
    with Shutdown(EventLog(Closed()), lambda: woken.append(True)):
        os.kill(os.getpid(), signal.SIGTERM)
    assert woken == [True]
