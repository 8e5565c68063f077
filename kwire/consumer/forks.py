"""What becomes of consumers in a process that is forked: the child has copies, without the network threads.

A copy must not touch the sockets, nor commit or leave the group for its parent. So in the child each consumer is made
unusable before any code of the child runs: its calls raise `ForkedConsumerError`. A server written in C (uWSGI) may
fork without telling Python; then the first call of any consumer finds out (`look_for_fork`).
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from kwire.errors import ForkedConsumerError, KafkaError


class Disowned(Protocol):
    """A consumer, of which the copy in a forked child can be made unusable."""

    @property
    def identity(self) -> str:
        """Which consumer it is, as messages name it."""
        ...

    def disown(self, error: KafkaError, /) -> None: ...


_ADVICE = (
    "make a consumer in the child, after the fork (multiprocessing: in the target function; gunicorn: in post_fork; "
    "Celery: on worker_process_init; uWSGI: in a function marked @postfork)"
)

# Each consumer with the id of its process. A value that refers to its consumer would keep it for ever.
_consumers: weakref.WeakKeyDictionary[Disowned, int] = weakref.WeakKeyDictionary()
_process = os.getpid()


def disown_in_children(consumer: Disowned) -> None:
    """Make copies of this consumer unusable in processes that are forked from now on."""
    look_for_fork()
    _consumers[consumer] = _process


def not_picklable(consumer: object) -> str:
    """The error of pickling a consumer, as multiprocessing does where it does not fork."""
    return (
        f"{consumer!r} cannot be pickled: it has a thread, sockets and a place in a group; pass its settings on, and "
        "make a consumer where it is used"
    )


def look_for_fork() -> None:
    """Make the consumers of the parent unusable, if this process was forked and Python was not told."""
    if os.getpid() != _process:
        _disown_all()


def _disown_all() -> None:
    global _process  # noqa: PLW0603  there is one
    _process = os.getpid()
    for consumer, owner in list(_consumers.items()):
        consumer.disown(
            ForkedConsumerError(
                f"this consumer belongs to process {owner}, which has forked this one ({_process}): {_ADVICE}. It is "
                f"{consumer.identity}"
            )
        )
    _consumers.clear()


if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(after_in_child=_disown_all)
