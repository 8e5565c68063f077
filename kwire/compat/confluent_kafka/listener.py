"""The callbacks of `subscribe`, as a rebalance listener of kwire."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kwire.compat.confluent_kafka.arguments import listed
from kwire.compat.confluent_kafka.session import Session
from kwire.compat.confluent_kafka.values import TopicPartition
from kwire.consumer.listener import CalledOnce, RebalanceConsumer, RebalanceListener
from kwire.model import Partitions

Called: TypeAlias = Callable[[list[TopicPartition]], object]


class Listener(CalledOnce, RebalanceListener):
    """A listener that calls the callbacks with a list of partitions; the consumer is bound to them already."""

    def __init__(
        self, session: Session, on_assign: Called | None, on_revoke: Called | None, on_lost: Called | None
    ) -> None:
        self._session = session
        self._on_assign, self._on_revoke, self._on_lost = on_assign, on_revoke, on_lost or on_revoke

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._session.offered = partitions
        self._session.note_topics(partitions)
        try:
            self._call(self._on_assign, consumer, partitions)
        finally:
            self._session.offered = None

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        try:
            self._call(self._on_revoke, consumer, partitions)
        finally:
            self._session.commits.last(partitions)
            self._session.forget(partitions)

    def on_partitions_lost(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        try:
            self._call(self._on_lost, consumer, partitions)
        finally:
            self._session.forget(partitions)

    def _call(self, function: Called | None, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        if function is None:
            return
        self._session.in_callback = consumer
        try:
            with self._session.turns.in_callback():
                function(listed(partitions))
        finally:
            self._session.in_callback = None
