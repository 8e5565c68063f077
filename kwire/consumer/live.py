"""The consumers of this process, for who wants to see them all: `describe_on_signal`.

Any thread may add one or look, without a lock: each is one step of the interpreter.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Protocol


class Described(Protocol):
    """What has a page to show."""

    def page(self) -> str | None:
        """None: it is closed, or another process's."""
        ...


_numbers = itertools.count()
_consumers: weakref.WeakValueDictionary[int, Described] = weakref.WeakValueDictionary()


def remember(consumer: Described) -> None:
    """As long as it lives."""
    _consumers[next(_numbers)] = consumer


def live_consumers() -> list[Described]:
    """All there are, the oldest first."""
    return [consumer for ref in _consumers.valuerefs() if (consumer := ref()) is not None]
