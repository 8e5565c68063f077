"""Reads standard input line by line, and tells when no more input is there yet: typing users make pauses, and so do
programs that log."""

from __future__ import annotations

import io
import select
import sys
from collections.abc import Iterator
from typing import Protocol, cast

from kwire.errors import ConfigError

CHUNK_BYTES = 65_536


class Input(Protocol):
    """The part of a buffered stream that is needed here."""

    def read1(self, size: int, /) -> bytes: ...

    def fileno(self) -> int: ...


def standard_input() -> Input:
    """Raises: ConfigError, if it is closed."""
    if not sys.stdin:  # None, whatever its type says, when the shell closed it
        raise ConfigError("standard input is closed; --value gives values")
    return cast("Input", sys.stdin.buffer)


def lines_as_they_come(stream: Input) -> Iterator[tuple[list[bytes], bool]]:
    """Lines without line ends, each with whether more input is there already."""
    rest = b""
    while chunk := stream.read1(CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        yield lines, _has_more(stream)
    if rest:
        yield [rest], False


def _has_more(stream: Input) -> bool:
    """A stream that cannot be asked is no pipe, and does not wait."""
    try:
        return bool(select.select([stream.fileno()], [], [], 0)[0])
    except io.UnsupportedOperation:
        return True
