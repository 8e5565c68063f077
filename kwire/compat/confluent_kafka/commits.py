"""Commits of the adapter for confluent-kafka: stored offsets are committed, and callbacks are told."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping

from kwire import errors
from kwire.clock import Deadline
from kwire.compat.confluent_kafka.arguments import answered
from kwire.compat.confluent_kafka.kafka_error import error_of
from kwire.compat.confluent_kafka.settings import OwnSettings
from kwire.compat.confluent_kafka.stored_offsets import StoredOffsets
from kwire.compat.confluent_kafka.turns import Turns
from kwire.consumer.session import COMMIT_SHARE_OF_CLOSE
from kwire.consumer.sync import Consumer
from kwire.events import Commit, Reply
from kwire.model import OffsetAndMetadata, Partitions
from kwire.model import TopicPartition as Partition

log = logging.getLogger("kwire.compat")

# Errors after which the next commit, which covers the same offsets, may succeed.
_FOR_THE_NEXT_COMMIT = (errors.RetriableError, errors.RebalanceInProgressError)


class Commits:
    """The commits of a `Session`."""

    def __init__(self, own: OwnSettings, consumer: Consumer[bytes, bytes], turns: Turns) -> None:
        self._own = own
        self._consumer = consumer
        self._turns = turns
        interval_s = consumer.config.auto_commit_interval_ms / 1000.0 or math.inf  # 0: only where one has to be
        self.stored = StoredOffsets(interval_s if own.auto_commits else math.inf, time.monotonic())
        self._last_commit_ms = float(consumer.config.default_api_timeout_ms)

    def in_background(self, now_s: float) -> None:
        """Begin the background commit, if it is due."""
        if due := self.stored.due(now_s):
            self.begin(due)

    def begin(self, offsets: Mapping[Partition, OffsetAndMetadata] | None) -> None:
        """Begin a commit without waiting; None stands for the offsets that kwire counts as returned."""
        self._consumer.commit_async(offsets, callback=self._done)

    def _done(self, offsets: Mapping[Partition, OffsetAndMetadata], error: Exception | None) -> None:
        if error is None:
            self.stored.committed(offsets)
        if self._own.on_commit is not None:
            found = error_of(error) if isinstance(error, errors.KafkaError) else None
            with self._turns.in_callback():
                self._own.on_commit(found, [answered(tp, at) for tp, at in offsets.items()])
        elif error is not None:
            level = logging.DEBUG if isinstance(error, _FOR_THE_NEXT_COMMIT) else logging.WARNING
            log.log(level, "a commit of %s failed: %s", ", ".join(map(str, sorted(offsets))), error)

    # --- before partitions are given up ---------------------------------------------------------------------

    def begin_last(self, partitions: Partitions) -> None:
        """Begin to commit what is stored of these and not committed, with auto-commit."""
        if left := self._left(partitions):
            self.begin(left)

    def last(self, partitions: Partitions) -> None:
        """As `begin_last`, and wait for it: afterwards the partitions are another member's."""
        if not (left := self._left(partitions)):
            return
        link = self._consumer._session.link
        reply: Reply[None] = link.post(lambda reply: Commit(left, reply, is_last=True))
        try:
            link.run(link.wait_for(reply, "auto-commit", Deadline.after(self._last_commit_ms), wakeable=False))
        except errors.KafkaError as error:
            self._done(left, error)
        else:
            self._done(left, None)

    def _left(self, partitions: Partitions) -> dict[Partition, OffsetAndMetadata]:
        left = self.stored.left() if self._own.auto_commits else {}
        return {tp: at for tp, at in left.items() if tp in partitions}

    def hurry(self) -> None:
        """Shorten the time of the last commit: the consumer is being closed."""
        self._last_commit_ms = COMMIT_SHARE_OF_CLOSE * self._consumer.config.close_timeout_ms
