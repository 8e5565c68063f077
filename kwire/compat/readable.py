"""How an adapter shows a private attribute of the other client's consumer to libraries that read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class Readable(Generic[T]):
    """A read-only attribute. A derived class may replace it, in its class body or in `__init__`."""

    def __init__(self, read: Callable[[Any], T]) -> None:
        self._read = read
        self.__doc__ = read.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...

    @overload
    def __get__(self, owner: object, kind: type) -> T: ...

    def __get__(self, owner: object, kind: type) -> Self | T:
        return self if owner is None else self._read(owner)
