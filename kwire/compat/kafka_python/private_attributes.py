"""The private attributes of kafka-python's consumer that libraries read.

Each value is computed when it is read. OpenTelemetry and New Relic read `config` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kwire.compat.readable import Readable
from kwire.consumer.sync import Consumer


@dataclass(frozen=True)
class Subscription:
    """What libraries read of the subscription."""

    subscription: set[str] | None
    """The topics; None if there are none."""


class PrivateAttributes:
    """The attributes, which kwire itself does not read."""

    _kwire_consumer: Consumer[Any, Any]

    @property
    def _kwire_topics_read(self) -> frozenset[str]:
        session = self._kwire_consumer._session
        return session.whole_topics.names or session.state.view.topics

    @Readable
    def _subscription(self) -> Subscription:
        """Elastic APM reads the topics at each poll, to name its span."""
        return Subscription(set(self._kwire_topics_read) or None)
