"""What users of aiokafka derive from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping

from kwire.compat.aiokafka.structs import TopicPartition

__all__ = ["AbstractTokenProvider", "ConsumerRebalanceListener"]


class ConsumerRebalanceListener(ABC):
    """Both methods may be coroutine functions."""

    @abstractmethod
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Awaitable[None] | None:
        """They are about to be given back. Not called by `stop()`."""

    @abstractmethod
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Awaitable[None] | None:
        """All that is assigned now, before the first record of it."""


class AbstractTokenProvider(ABC):
    """Gives tokens for OAUTHBEARER."""

    @abstractmethod
    async def token(self) -> str:
        """A token that is valid now. It runs on an event loop of its own, in a thread of kwire's."""

    def extensions(self) -> Mapping[str, str]:
        """SASL extensions that are sent beside it."""
        return {}
