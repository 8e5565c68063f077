"""The private attributes of aiokafka's consumer that libraries read: tracers, metrics and frameworks.

Each value is computed when it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kwire.compat.readable import Readable
from kwire.consumer.async_consumer import AsyncConsumer


@dataclass(eq=False)
class Client:
    """What libraries read from the client. ddtrace also stores attributes here."""

    _bootstrap_servers: object
    """The value of `bootstrap_servers`, as the program gave it."""
    _client_id: str

    def get_random_node(self) -> int | None:
        """Returns None. ddtrace would send a request for the cluster's id to any other node, through this client."""
        return None

    async def force_metadata_update(self) -> bool:
        """ddtrace awaits this if no broker is known."""
        return False


@dataclass(frozen=True)
class Coordinator:
    """What libraries read of the group's coordinator."""

    member_id: str
    """Empty while the consumer is no member."""


@dataclass(frozen=True)
class Subscription:
    """What libraries read of the subscription."""

    topics: frozenset[str]


class PrivateAttributes:
    """The attributes, which kwire itself does not read. They show the consumer, and do not change it."""

    _kwire_client: Client
    _kwire_consumer: AsyncConsumer[Any, Any]
    _kwire_group_id: str | None
    _kwire_topics: frozenset[str]
    _kwire_is_stopped: bool

    @Readable
    def _client(self) -> Client:
        """OpenTelemetry reads both values after each record; ddtrace reads the servers."""
        self._kwire_client._client_id = self._kwire_consumer._session.link.client_id
        return self._kwire_client

    @Readable
    def _group_id(self) -> str | None:
        """OpenTelemetry, ddtrace, FastStream and kstreams read it."""
        return self._kwire_group_id

    @Readable
    def _coordinator(self) -> Coordinator:
        """FastStream reads the member's id in its rebalance listener."""
        member = self._kwire_consumer._session.state.view.group
        return Coordinator("" if member is None else member.member_id)

    @Readable
    def _subscription(self) -> Subscription:
        """FastStream reads the topics, for a warning that a member has no partitions."""
        return Subscription(self._kwire_topics or self._kwire_consumer.subscription())

    @Readable
    def _enable_auto_commit(self) -> bool:
        """kstreams reads it when partitions are revoked, to commit if nobody else does."""
        return self._kwire_consumer.config.enable_auto_commit

    @Readable
    def _closed(self) -> bool:
        """Health checks of programs read whether the consumer was stopped."""
        return self._kwire_is_stopped
