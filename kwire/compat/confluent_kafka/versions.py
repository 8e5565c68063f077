"""`version()` and `libversion()`, which programs log."""

from __future__ import annotations

from kwire.version import __version__


def version() -> str:
    """kwire's.

    Returns:
        As in `kwire.__version__`.
    """
    return __version__


def libversion() -> tuple[str, int]:
    """The same, as text and as a number: there is no librdkafka.

    Returns:
        The number has a byte each for the first three parts, as librdkafka's.
    """
    numbers = [int(part) for part in __version__.split(".")[:3] if part.isdecimal()]
    return __version__, int.from_bytes(bytes([*numbers, 0, 0, 0, 0][:4]))
