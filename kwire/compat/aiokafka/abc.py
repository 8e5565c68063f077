"""The base classes that users of aiokafka derive from."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from typing import TypeGuard

from kwire.compat.aiokafka.structs import TopicPartition

__all__ = ["AbstractTokenProvider", "ConsumerRebalanceListener", "is_listener"]


class ConsumerRebalanceListener(ABC):
    """The base class of rebalance listeners. Both methods may be coroutine functions."""

    @abstractmethod
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Awaitable[None] | None:
        """Called before these partitions are revoked, but not by `stop()`."""

    @abstractmethod
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Awaitable[None] | None:
        """Called with all partitions that are assigned now, before their first record."""


def is_listener(given: object) -> TypeGuard[ConsumerRebalanceListener]:
    """Whether it derives from the class above, or from aiokafka's own, which a program may have imported beside this
    package."""
    theirs = getattr(sys.modules.get("aiokafka.abc"), "ConsumerRebalanceListener", ConsumerRebalanceListener)
    return isinstance(given, ConsumerRebalanceListener | theirs)


class AbstractTokenProvider(ABC):
    """The base class of providers of OAUTHBEARER tokens."""

    @abstractmethod
    async def token(self) -> str:
        """Return a token that is valid now. Runs on an event loop of its own, in a thread of kwire's."""

    def extensions(self) -> Mapping[str, str]:
        """SASL extensions that are sent with the token."""
        return {}
