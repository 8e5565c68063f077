"""The library that inflates gzip: ISA-L, two to three times as fast as zlib, or zlib where ISA-L is not installed.

Contract: both are used as zlib is, and say the same of good and of bad streams. Called by `compression.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable


class Inflater(Protocol):
    """As `zlib.decompressobj` makes it."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes | memoryview, max_length: int, /) -> bytes: ...


class GzipLibrary(NamedTuple):
    """What makes an inflater, given zlib's `wbits`, and what that raises."""

    inflater: Callable[[int], Inflater]
    error: type[Exception]


def isal_or_zlib() -> GzipLibrary:
    """Whichever is there."""
    try:
        from isal import isal_zlib
    except ImportError:  # there are no wheels of it for rare processors
        return only_zlib()
    return GzipLibrary(
        cast("Callable[[int], Inflater]", isal_zlib.decompressobj), cast("type[Exception]", isal_zlib.error)
    )


def only_zlib() -> GzipLibrary:
    import zlib

    return GzipLibrary(zlib.decompressobj, zlib.error)
