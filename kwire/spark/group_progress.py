"""Commits how far a streaming query is to a group of Kafka's, for tools that show lag. Nothing ever reads it here."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kwire import Consumer
from kwire.errors import KafkaError
from kwire.model import OffsetAndMetadata
from kwire.spark.kafka_options import driver_settings
from kwire.spark.offsets import Offsets

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0


class GroupProgress:
    """Commits a streaming query's progress to a group, for tools that show lag.

    Args:
        group_id: The group; nobody may be a member of it.
        settings: Of the consumer.
    """

    def __init__(self, group_id: str, settings: Mapping[str, object]) -> None:
        self._group_id = group_id
        self._settings = settings
        self._committed: Offsets = {}
        self._consumer: Consumer[bytes, bytes] | None = None

    def commit(self, offsets: Offsets) -> None:
        """Commit that everything in front of these is through. A failure is logged; the query goes on."""
        changed = {tp: offset for tp, offset in offsets.items() if self._committed.get(tp) != offset}
        if not changed:
            return
        try:
            if self._consumer is None:
                self._consumer = Consumer(config={**driver_settings(self._settings), "group_id": self._group_id})
            self._consumer.commit_sync(
                {tp: OffsetAndMetadata(offset) for tp, offset in changed.items()}, timeout=TIMEOUT_S
            )
        except KafkaError as error:
            log.warning("progress was not committed to group %s: %s", self._group_id, error)
        else:
            self._committed |= changed

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
