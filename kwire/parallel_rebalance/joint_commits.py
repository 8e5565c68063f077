"""Commits that go to two logs, and are done when both have them. Neither waits for the other."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.errors import KafkaError
from kwire.events import CommitCallback, CommitCompleted, Reply, ReplyPart
from kwire.managers.base import Deliver
from kwire.model import OffsetAndMetadata, TopicPartition


class JointReply:
    """The reply of a commit, from those of its parts: fails with the first error of them."""

    def __init__(self, whole: Reply[None], count: int) -> None:
        self._whole = whole
        self.parts = [ReplyPart[None](whole, self._look) for _ in range(count)]

    def _look(self) -> None:
        if not all(part.done for part in self.parts):
            return
        try:
            for part in self.parts:
                part.result()
        except KafkaError as error:
            self._whole.fail(error)
        else:
            self._whole.succeed(None)


class JointCallback:
    """The callback of an asynchronous commit: delivered once all parts have an outcome, with the first error."""

    def __init__(
        self,
        deliver: Deliver,
        callback: CommitCallback,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        count: int,
    ) -> None:
        self._deliver = deliver
        self._callback = callback
        self._offsets = offsets
        self._left = count
        self._error: KafkaError | None = None

    def part_done(self, _: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
        self._left -= 1
        self._error = self._error or error
        if not self._left:
            self._deliver(CommitCompleted(self._callback, self._offsets, self._error))
