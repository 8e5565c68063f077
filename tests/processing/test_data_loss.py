"""Which damage is skipped, and which is read again first."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from kwire.errors import CorruptRecordError
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
