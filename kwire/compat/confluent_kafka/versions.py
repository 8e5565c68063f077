"""`version()` and `libversion()`, which programs log."""

from __future__ import annotations

from kwire.version import __version__


def version() -> str:
    """The version of kwire.

    Returns:
        The text of `kwire.__version__`.
    """
    return __version__


def libversion() -> tuple[str, int]:
    """The version of kwire, as text and as a number, since there is no librdkafka.

    Returns:
        The text, and a number with one byte for each of the first three parts, as in librdkafka.
    """
    numbers = [int(part) for part in __version__.split(".")[:3] if part.isdecimal()]
    return __version__, int.from_bytes(bytes([*numbers, 0, 0, 0, 0][:4]))
