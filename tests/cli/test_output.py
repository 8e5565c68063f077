"""Standard output: what is written arrives as a whole, whatever happens to the process meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from fcntl import ioctl
from struct import unpack
from termios import FIONREAD

import pytest

from kwire.testing.faults.process_state import is_stopped

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
