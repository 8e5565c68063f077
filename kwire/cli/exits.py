"""Exits of commands: an error becomes one line on stderr and an exit code, never a traceback.

0: done; 1: an error of Kafka or of the output; 2: the command or a setting was wrong; 128 + n: stopped by signal n.

If the reader closes the pipe early (`kwire consume orders | head -3`), it has all it wanted, so that is 0, too. The
alternative, dying by SIGPIPE (141) as `cat` does, would make such pipelines fail under `set -o pipefail`.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import ClassVar, TextIO

import typer

from kwire.errors import ConfigError, InvalidGroupIdError, KafkaError

READER_GONE = 0
FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 128 + signal.SIGINT
HOW_TO_INSTALL = "pip install 'kwire["
"""The text of errors about an extra that is not installed."""


@contextmanager
def clean_exits() -> Iterator[None]:
    """A context around a whole command. Raises: typer.Exit, for every expected error."""
    try:
        yield
    except BrokenPipeError:
        raise typer.Exit(READER_GONE) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (ConfigError, InvalidGroupIdError) as error:
        raise typer.Exit(_complain(error, WRONG_USAGE)) from None
    except KafkaError as error:
        raise typer.Exit(_complain(error, FAILED)) from None
    except ImportError as error:
        if HOW_TO_INSTALL not in str(error):
            raise
        raise typer.Exit(_complain(error, WRONG_USAGE)) from None


class LogLines(logging.StreamHandler[TextIO]):
    """The log of a command, on stderr. An error that it has logged is not printed again when it ends the command."""

    said: ClassVar[set[str]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            self.said.add(record.getMessage().removeprefix(getattr(record, "log_prefix", "")))
        super().emit(record)


def _complain(error: Exception, code: int) -> int:
    if str(error) not in LogLines.said:
        said = " ".join(str(error).split()) or type(error).__name__
        print(f"kwire: {said}", file=sys.stderr)
    return code


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """A context in which SIGTERM stops what runs and removes files, as Ctrl-C does. The exit code is SIGTERM's."""
    received: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if received:
            raise typer.Exit(128 + signal.SIGTERM) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


class StopSignals:
    """Within its `with`, the first SIGINT or SIGTERM asks to stop, so that a batch under way is finished.

    A second one interrupts as SIGINT usually does, for instance if the output blocks.
    """

    NUMBERS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.received: int | None = None
        self._previous: list[signal._HANDLER] = []

    def __enter__(self) -> StopSignals:
        self._previous = [signal.signal(number, self._on_signal) for number in self.NUMBERS]
        return self

    def __exit__(self, *_exc_info: object) -> None:
        for number, handler in zip(self.NUMBERS, self._previous, strict=True):
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = number

    def exit_if_received(self) -> None:
        if self.received is not None:
            raise typer.Exit(128 + self.received)
