"""What has been sent and nobody has polled yet: how a world knows that it is drained."""

from __future__ import annotations

from collections.abc import Callable

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import Event, Polled, Removed, Sent, Truncated


class Backlog:
    """Fed with every event of a ledger."""

    def __init__(self) -> None:
        self._unread: dict[TopicPartition, dict[int, str]] = {}

    @property
    def is_empty(self) -> bool:
        return not any(self._unread.values())

    def apply(self, event: Event) -> None:
        match event:
            case Sent():
                self._unread.setdefault(event.partition, {})[event.offset] = event.value
            case Polled():
                unread = self._unread.get(event.partition, {})
                for offset, value in zip(event.offsets, event.values, strict=True):
                    if unread.get(offset) == value:
                        del unread[offset]
            case Removed():
                self._drop(event.partition, lambda offset: offset < event.before)
            case Truncated():
                self._drop(event.partition, lambda offset: offset >= event.to)
            case _:
                pass

    def _drop(self, partition: TopicPartition, gone: Callable[[int], bool]) -> None:
        unread = self._unread.get(partition, {})
        for offset in [offset for offset in unread if gone(offset)]:
            del unread[offset]
