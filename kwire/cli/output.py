"""Standard output for batches of bytes: each batch is flushed, and a closed pipe is reported."""

from __future__ import annotations

import io
import os
import select
import sys
from typing import BinaryIO

from kwire.errors import KafkaError

CLOSED = "standard output is closed"


class OutputError(KafkaError):
    """The output cannot be written any more: the disk is full, or it was closed."""


class Output:
    """Writes whole batches."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    @classmethod
    def standard(cls) -> Output:
        # None, whatever its type says, when the shell closed it: `kwire consume orders >&-`.
        if not sys.stdout:
            raise OutputError(CLOSED)
        stream: BinaryIO | io.RawIOBase = sys.stdout.buffer  # raw, whatever its type says, with PYTHONUNBUFFERED
        return cls(_buffered(stream) if isinstance(stream, io.RawIOBase) else stream)

    def write(self, data: bytes) -> None:
        """Write a batch. When this returns, the operating system has all of it.

        Raises:
            BrokenPipeError: the reader has closed the pipe.
            OutputError: the output cannot be written.
        """
        try:
            self._stream.write(data)
            self._stream.flush()
        except BrokenPipeError:
            self._discard_the_rest()
            raise
        except OSError as error:
            self._discard_the_rest()
            raise unwritable(error) from error

    def check_reader(self) -> None:
        """Check for a closed pipe while there is nothing to write, as `tail -f` does. Raises: BrokenPipeError."""
        if hasattr(select, "poll"):  # not on Windows
            poll = select.poll()
            poll.register(self._stream.fileno(), 0)  # errors are reported without being asked for
            if any(happened & select.POLLERR for _fd, happened in poll.poll(0)):
                self._discard_the_rest()
                raise BrokenPipeError

    def _discard_the_rest(self) -> None:
        discard_the_rest_of(self._stream.fileno())


def unwritable(error: OSError) -> OutputError:
    """The error of an output that cannot be written."""
    return OutputError(f"cannot write to standard output: {error.strerror}")


def discard_the_rest_of(descriptor: int) -> None:
    """The interpreter flushes stdout once more on exit; what is left must not fail there again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def _buffered(stream: io.RawIOBase) -> BinaryIO:
    """A buffered stream: a raw one may write only a part, such as when the process is stopped and continued (Ctrl-Z,
    `fg`)."""
    return open(stream.fileno(), "wb", closefd=False)
