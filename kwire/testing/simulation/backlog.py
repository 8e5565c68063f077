"""The backlog: records that were sent and not polled, or not handled, yet. It tells whether a world is drained."""

from __future__ import annotations

from collections.abc import Callable

from kwire.model import TopicPartition
from kwire.testing.invariants.handling_events import HandlingEnded
from kwire.testing.invariants.ledger import Event, Polled, Removed, Sent, Truncated
from kwire.testing.invariants.user_events import GivenUp


class Backlog:
    """The backlog of a world, which gets every event of its ledger.

    Args:
        by_handling: whether a record leaves the backlog when it is handled, not when it is polled.
    """

    def __init__(self, *, by_handling: bool = False) -> None:
        self._by_handling = by_handling
        self._unread: dict[TopicPartition, dict[int, str]] = {}

    @property
    def is_empty(self) -> bool:
        return not any(self._unread.values())

    def apply(self, event: Event) -> None:
        match event:
            case Sent():
                self._unread.setdefault(event.partition, {})[event.offset] = event.value
            case Polled() if not self._by_handling:
                for offset, value in zip(event.offsets, event.values, strict=True):
                    self._take(event.partition, offset, value)
            case HandlingEnded() if self._by_handling and event.is_done:
                self._take(event.partition, event.offset, event.value)
            case GivenUp():
                for unread in self._unread.values():
                    _drop_value(unread, event.value)
            case Removed():
                self._drop(event.partition, lambda offset: offset < event.before)
            case Truncated():
                self._drop(event.partition, lambda offset: offset >= event.to)
            case _:
                pass

    def _take(self, partition: TopicPartition, offset: int, value: str) -> None:
        unread = self._unread.get(partition, {})
        if unread.get(offset) == value:
            del unread[offset]

    def _drop(self, partition: TopicPartition, gone: Callable[[int], bool]) -> None:
        unread = self._unread.get(partition, {})
        for offset in [offset for offset in unread if gone(offset)]:
            del unread[offset]


def _drop_value(unread: dict[int, str], given_up: str) -> None:
    for offset in [offset for offset, value in unread.items() if value == given_up]:
        del unread[offset]
