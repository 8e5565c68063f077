"""Standard output for the text of `print` and of the help.

An output that fails is an error of the command, and a reader that closes the pipe is not.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, TextIO, cast

import typer

from kwire.cli.exits import READER_GONE
from kwire.cli.output import CLOSED, OutputError, discard_the_rest_of, unwritable


class CheckedText(io.TextIOBase):
    """Standard output as `print` and the help need it: each line is flushed, so that it fails here and not on exit.

    Args:
        stream: The real one; None if the shell closed it.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str, /) -> int:
        """Raises: typer.Exit, if the reader has closed the pipe: it has all it wanted; OutputError."""
        if text == "":  # typer tries this, and takes an error for a no
            return 0
        stream = self._open()
        try:
            count = stream.write(text)
            if "\n" in text:
                stream.flush()
        except BrokenPipeError:
            discard_the_rest_of(stream.fileno())
            raise typer.Exit(READER_GONE) from None
        except OSError as error:
            discard_the_rest_of(stream.fileno())
            raise unwritable(error) from error
        return count

    def flush(self) -> None:
        if self._stream is not None:
            self._stream.flush()

    def close(self) -> None:
        """The real stream stays as it is. Python closes this object when nobody has it any more, maybe after that."""

    def fileno(self) -> int:
        return self._open().fileno()

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]  # of a stream it is no property, but never set either
        """Without it, and `errors`, typer would write past this object, to the bytes behind it."""
        return "utf-8" if self._stream is None else self._stream.encoding

    @property
    def errors(self) -> str:  # type: ignore[override]  # as above
        """As `encoding`."""
        return "strict" if self._stream is None else self._stream.errors or "strict"

    @property
    def buffer(self) -> BinaryIO:
        """The bytes behind the text. Raises: OutputError."""
        return self._open().buffer

    def _open(self) -> TextIO:
        if self._stream is None:
            raise OutputError(CLOSED)
        return self._stream


@contextmanager
def checked_text() -> Iterator[None]:
    """A context in which the text of `print` is checked: it fails where it is printed."""
    before = sys.stdout
    sys.stdout = cast("TextIO", CheckedText(before))
    try:
        yield
    finally:
        sys.stdout = before
