"""What becomes of consumers in a process that is forked: the child has copies, without the network threads.

A copy must not touch the sockets, nor commit or leave the group for its parent. So in the child each consumer is made
unusable before any code of the child runs: its calls raise `ForkedConsumerError`.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from kwire.errors import ForkedConsumerError, KafkaError


class Disowned(Protocol):
    """What a copy is made unusable by."""

    def disown(self, error: KafkaError, /) -> None: ...


class Guarding(Protocol):
    """What keeps other threads out."""

    def forget_other_threads(self) -> None: ...


_consumers: weakref.WeakKeyDictionary[Disowned, tuple[Guarding | None, int]] = weakref.WeakKeyDictionary()


def disown_in_children(consumer: Disowned, guard: Guarding | None = None) -> None:
    """Make copies of this consumer unusable in processes that are forked from now on."""
    _consumers[consumer] = (guard, os.getpid())


def _disown_all() -> None:
    for consumer, (guard, owner) in list(_consumers.items()):
        if guard is not None:
            guard.forget_other_threads()
        consumer.disown(
            ForkedConsumerError(
                f"this consumer belongs to process {owner}, which has forked this one ({os.getpid()}): make a consumer "
                'in the child (with multiprocessing, or use its start method "spawn")'
            )
        )
    _consumers.clear()


if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(after_in_child=_disown_all)
