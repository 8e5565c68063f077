"""How damage in a fetch gets from the decoding to the consumer, which raises it with the position in front of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.epochs import AssignmentEpoch

if TYPE_CHECKING:
    from kwire.errors import CorruptRecordError
    from kwire.model import OffsetAndMetadata, TopicPartition


class CorruptPartitionError(Exception):
    """Carries the public error to the caller, with the position in front of the damage and the
    assignment epoch it is of; never leaves the package."""

    def __init__(
        self,
        tp: TopicPartition,
        error: CorruptRecordError,
        position: OffsetAndMetadata,
        epoch: AssignmentEpoch,
        next_offset: int | None = None,
    ) -> None:
        super().__init__(str(error))
        self.topic_partition = tp
        self.error = error.at(tp.topic, tp.partition, position.offset, next_offset)
        self.error.__cause__ = error
        self.position = position
        self.epoch = epoch
