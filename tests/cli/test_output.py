"""Standard output: what is written arrives as a whole, whatever happens to the process meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path
from struct import unpack
from termios import FIONREAD
from typing import TextIO

import pytest

import kwire.cli
from kwire.cli.checked_text import CheckedText
from kwire.testing import Cluster
from kwire.testing.faults.process_state import is_stopped

FAILING = {  # commands, and their exit codes if the output cannot be written
    "--help": 1,
    "topics -h": 1,
    "--version": 1,
    "demo": 1,
    "fake": 1,
    "faults list": 1,
    "faults scenarios": 1,
    "audit --local {history}": 2,
    "conformance -b {server} -k DescribeCluster": 2,
}
LINE_BYTES = 2_000_000
WRITES = f"from kwire.cli.output import Output; Output.standard().write(b'x' * {LINE_BYTES})"


def unread_bytes(pipe: int) -> int:
    (count,) = unpack("i", ioctl(pipe, FIONREAD, bytes(4)))
    return int(count)


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.001)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_process_that_is_stopped_in_the_middle_of_a_line_ends_it_when_it_goes_on(unbuffered: str) -> None:
    """With PYTHONUNBUFFERED, as containers have it, what was not in the pipe at Ctrl-Z never came."""
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen([sys.executable, "-c", WRITES], stdout=subprocess.PIPE, env=environment) as process:
        pipe = process.stdout
        assert pipe is not None
        # Then it waits for room: a pipe takes 64 KiB.
        until(lambda: unread_bytes(pipe.fileno()) > 0 or process.poll() is not None)
        process.send_signal(signal.SIGSTOP)
        until(lambda: is_stopped(process.pid) is True)
        process.send_signal(signal.SIGCONT)
        assert len(pipe.read()) == LINE_BYTES
    assert process.returncode == 0


@pytest.fixture
def command_line(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """The words of a command of `FAILING`."""
    history = tmp_path / "history"
    history.write_text('{"at_ms": 0, "event": "Ended"}\n')
    with Cluster() as cluster:
        command = str(request.param).format(server=cluster.bootstrap_servers, history=history)
        yield ["kwire", *command.split()]


def exit_code(monkeypatch: pytest.MonkeyPatch, words: list[str], stdout: TextIO | None) -> object:
    monkeypatch.setattr("sys.argv", words)
    monkeypatch.setattr("sys.stdout", stdout)
    with pytest.raises(SystemExit) as exited:
        kwire.cli.main()
    return exited.value.code


@pytest.mark.skipif(sys.platform != "linux", reason="writes to /dev/full")
@pytest.mark.parametrize(("command_line", "code"), FAILING.items(), indirect=["command_line"])
@pytest.mark.parametrize("output", ["full", "closed"])
def test_an_output_that_cannot_be_written_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command_line: list[str], code: int, output: str
) -> None:
    """There were tracebacks, exit code 0, and the code of a broker that does not conform."""
    with open("/dev/full", "w") as full:
        assert exit_code(monkeypatch, command_line, full if output == "full" else None) == code
    said = capsys.readouterr().err
    assert re.fullmatch("kwire: (cannot write to standard output: .*|standard output is closed)\n", said)


@pytest.mark.parametrize("command_line", FAILING, indirect=True)
def test_a_reader_that_leaves_has_all_it_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command_line: list[str]
) -> None:
    """`kwire conformance ... | head -1` could end with 1, the code of a broker that does not conform."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as left:
        assert exit_code(monkeypatch, command_line, left) == 0
    assert capsys.readouterr().err == ""


def test_checked_text_goes_silently_when_its_stream_has_been_closed() -> None:
    """Python 3.13 wrote of an ignored ValueError when such an object went."""
    with open(os.devnull, "w") as stream:
        text = CheckedText(stream)
        text.write("a line\n")
    text.close()
