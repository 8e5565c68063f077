"""Expectations of checks, and the exception for an answer that does not meet them.

Every check states its expectations through these functions, so that the reasons in the report read alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kwire.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


class NonconformanceError(Exception):
    """The broker does not do what Kafka does; the message says what was expected and what was received."""


def expect(condition: bool, problem: str) -> None:
    """Raises: NonconformanceError with `problem`, unless `condition` holds."""
    if not condition:
        raise NonconformanceError(problem)


def expect_equal(found: object, wanted: object, what: str) -> None:
    """Raises: NonconformanceError, unless the two are equal."""
    if found != wanted:
        raise NonconformanceError(f"{what} is {found!r:.300}, but should be {wanted!r:.300}")


def expect_error(code: int, *wanted: ErrorCode, what: str) -> None:
    """Raises: NonconformanceError, unless `code` is one of those wanted."""
    if code not in wanted:
        names = " or ".join(error.name for error in wanted)
        raise NonconformanceError(f"{what} answers {ErrorCode.of(code).name} ({code}), but should answer {names}")


def expect_ok(code: int, what: str) -> None:
    """Raises: NonconformanceError, if `code` means anything but success."""
    expect_error(code, ErrorCode.NONE, what=what)


def only(items: Iterable[T], what: str) -> T:
    """The only item. Raises: NonconformanceError, if there are none or several."""
    found = list(items)
    if len(found) != 1:
        raise NonconformanceError(f"there should be one {what}, not {len(found)}: {found!r:.300}")
    return found[0]


def the(items: Iterable[T], wanted: Callable[[T], bool], what: str) -> T:
    """The only item for which `wanted` is true. Raises: NonconformanceError, as `only`."""
    return only((item for item in items if wanted(item)), what)
