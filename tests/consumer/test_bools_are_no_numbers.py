"""Where a whole number is expected, a bool is refused as text and fractions are: it is a mistake, and 1 to Python."""

from __future__ import annotations

import pytest

from kwire.consumer.arguments import checked_partition, checked_position
from kwire.errors import InvalidArgumentError
from kwire.model import OffsetAndMetadata, TopicPartition

T0 = TopicPartition("t", 0)


def test_an_offset_to_commit() -> None:
    with pytest.raises(InvalidArgumentError, match="an offset must be a whole number, not True"):
        OffsetAndMetadata(True)


def test_an_offset_to_seek_to() -> None:
    with pytest.raises(InvalidArgumentError, match="must be a whole number, not True"):
        checked_position(T0, True)


def test_a_leader_epoch() -> None:
    with pytest.raises(InvalidArgumentError, match="the leader epoch for t-0 must be a whole number, not False"):
        checked_position(T0, OffsetAndMetadata(1, leader_epoch=False))


def test_the_number_of_a_partition() -> None:
    with pytest.raises(InvalidArgumentError, match="must be a whole number, not True"):
        checked_partition(TopicPartition("t", True))
