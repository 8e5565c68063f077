"""The live objects of this process: consumers, for `describe_on_signal`; open ones, for the end of the interpreter.

Any thread may add one, take one out, or look, without a lock: each is one step of the interpreter.
"""

from __future__ import annotations

import weakref
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Live(Generic[T]):
    """Objects, each as long as somebody else holds it."""

    def __init__(self) -> None:
        self._objects: weakref.WeakValueDictionary[int, T] = weakref.WeakValueDictionary()

    def add(self, one: T) -> None:
        self._objects[id(one)] = one

    def discard(self, one: T) -> None:
        self._objects.pop(id(one), None)

    def all(self) -> list[T]:
        """All there are, the oldest first."""
        return [one for ref in self._objects.valuerefs() if (one := ref()) is not None]


class Described(Protocol):
    """What has a page to show."""

    def page(self) -> str | None:
        """None: it is closed, or another process's."""
        ...


live_consumers: Live[Described] = Live()
