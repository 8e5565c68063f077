"""`kwire describe`: have a running process print the state of its consumers."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Annotated

import typer

from kwire.cli.exits import clean_exits
from kwire.errors import ConfigError

Pid = Annotated[int, typer.Argument(metavar="PID", help="The process.", show_default=False, min=1)]
Force = Annotated[
    bool, typer.Option("--force", help="Send the signal although nobody can say whether the process expects it.")
]


def describe_process(pid: Pid, force: Force = False) -> None:
    """Have a running process print why no records come.

    The process prints how its consumers stand, to its stderr, when it gets SIGUSR1. It has to expect the signal: `kwire
    consume` does, and so does a program that has called `kwire.describe_on_signal()`. The signal would end any other
    process, so this command does not send it there.
    """
    with clean_exits():
        if not hasattr(signal, "SIGUSR1"):
            raise ConfigError("this system has no SIGUSR1")
        if not force:
            _check_expects(pid, signal.SIGUSR1)
        try:
            os.kill(pid, signal.SIGUSR1)
        except OSError as error:
            raise ConfigError(f"process {pid} cannot be sent SIGUSR1: {error.strerror}") from error
        typer.echo(f"process {pid} has been sent SIGUSR1: it prints how its consumers stand to its stderr")


def _check_expects(pid: int, signum: int) -> None:
    caught = _caught_signals(pid)
    if caught is None:
        raise ConfigError(
            f"nothing here says whether process {pid} expects SIGUSR1, which would end it otherwise; "
            "if you know that it has called kwire.describe_on_signal(), add --force"
        )
    if not caught >> (signum - 1) & 1:
        raise ConfigError(
            f"process {pid} does not expect SIGUSR1, which would end it: it has to call kwire.describe_on_signal()"
        )


def _caught_signals(pid: int) -> int | None:
    """The signals that a process catches, as a mask; None if the system does not tell. Raises: ConfigError, if there is
    no such process."""
    if not Path("/proc/self/status").exists():
        return None
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError as error:
        raise ConfigError(f"there is no process {pid}, or it cannot be looked at: {error.strerror}") from error
    return next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), None)
