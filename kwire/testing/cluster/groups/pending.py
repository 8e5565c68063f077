"""An answer that comes later: JoinGroup and SyncGroup are answered when the others have done their part.

The group completes it; the handler that waits is woken through `ClusterState.changed`, under the answer itself as key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")


class Pending(Generic[T]):
    """One answer, given at most once."""

    __slots__ = ("_notify", "value")

    def __init__(self, notify: Callable[[Hashable], None]) -> None:
        self._notify = notify
        self.value: T | None = None

    def complete(self, value: T) -> None:
        """Give the answer."""
        self.value = value
        self._notify(self)
