"""Which damage is skipped, and which is read again first."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from kwire.errors import CorruptRecordError, LogTruncationError, OffsetOutOfRangeError
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.processing.data_loss import LossSkipper

TP = TopicPartition("orders", 0)


class Source:
    """A consumer that notes where it is sought to."""

    def __init__(self) -> None:
        self.sought: list[int] = []

    def seek(self, _partition: TopicPartition, offset: OffsetAndMetadata, /) -> None:
        self.sought.append(offset.offset)

    def beginning_offsets(self, _: Collection[TopicPartition], /, *, timeout: float) -> Mapping[TopicPartition, int]:
        raise NotImplementedError

    end_offsets = beginning_offsets


@pytest.mark.parametrize(
    ("first", "behind", "is_read_again"),
    [(50, 60, True), (40, 51, True), (40, 50, False), (900, 950, False)],
    ids=["from there on", "up to there", "in front of it", "of another cursor"],
)
def test_damage_that_was_read_after_all_is_read_again_when_it_is_met_later(
    first: int, behind: int, is_read_again: bool
) -> None:
    """It had happened on the way. Met there a second time, after a rewind, sound records were skipped at once."""
    source = Source()
    skipper = LossSkipper(source)
    damage = CorruptRecordError("its checksum is wrong").at(*TP, 50)
    assert skipper.skip(damage)
    assert not source.sought, "it is read again"
    skipper.delivered(TP, first, behind)
    assert skipper.skip(damage)
    assert source.sought == ([] if is_read_again else [51])


class LogOfEighty(Source):
    """A consumer of a log with offsets 10 to 79."""

    def beginning_offsets(self, _: Collection[TopicPartition], /, *, timeout: float) -> Mapping[TopicPartition, int]:
        return {TP: 10}

    def end_offsets(self, _: Collection[TopicPartition], /, *, timeout: float) -> Mapping[TopicPartition, int]:
        return {TP: 80}


@pytest.mark.parametrize(
    ("error", "goes_on_at"),
    [
        (OffsetOutOfRangeError({TP: 5}), 10),
        (OffsetOutOfRangeError({TP: 90}), 80),
        (LogTruncationError({TP: 50}, {TP: OffsetAndMetadata(40)}), 40),
        (LogTruncationError({TP: 50}, {}, {TP}), 10),
    ],
    ids=["before the log", "behind the log", "truncated", "another topic of this name"],
)
def test_a_gap_is_skipped_to_the_nearest_record_and_a_new_topic_is_read_from_its_beginning(
    error: OffsetOutOfRangeError, goes_on_at: int
) -> None:
    """An offset of the old topic is in the new one's range by chance: it went on there, past records not yet read."""
    source = LogOfEighty()
    assert LossSkipper(source).skip(error)
    assert source.sought == [goes_on_at]
