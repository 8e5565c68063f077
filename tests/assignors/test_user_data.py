"""The user data of the sticky assignors: Java's bytes, librdkafka's habit, and whatever else may come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.assignors.user_data import (
    decode_generation,
    decode_last_assignment,
    encode_generation,
    encode_last_assignment,
)
from kwire.model import TopicPartition

# What StickyAssignor.subscriptionUserData of kafka-clients 4.3.1 answers after it got a-0 and a-1 in generation 7.
JAVA = bytes.fromhex("00000001 0001 61 00000002 00000000 00000001 00000007")
# What StickyAssignorUserData of kafka-python 3.0.12 encodes for the same: Java's bytes behind a version number.
KAFKA_PYTHON = bytes.fromhex("0001") + JAVA
PARTITIONS = frozenset({TopicPartition("a", 0), TopicPartition("a", 1)})

topic_names = st.text("ab.\u00e9", min_size=1, max_size=5)
partitions = st.frozensets(st.builds(TopicPartition, topic_names, st.integers(0, 2**31 - 1)), max_size=6)
generations = st.integers(-1, 2**31 - 1)


def test_the_last_assignment_is_written_as_java_does() -> None:
    assert encode_last_assignment(PARTITIONS, 7) == JAVA


def test_the_first_version_has_no_generation() -> None:
    assert decode_last_assignment(JAVA[:-4]) == (PARTITIONS, -1)


def test_kafka_python_writes_a_version_in_front() -> None:
    assert decode_last_assignment(KAFKA_PYTHON) == (PARTITIONS, 7)
    assert decode_last_assignment(bytes.fromhex("0000") + JAVA[:-4]) == (PARTITIONS, -1)
    assert decode_last_assignment(bytes.fromhex("0001 00000000 00000007")) == (frozenset(), 7)


def test_bytes_behind_the_data_change_nothing() -> None:
    assert decode_last_assignment(JAVA + b"more") == (PARTITIONS, 7)


@given(partitions, generations)
def test_the_last_assignment_is_read_back(tps: frozenset[TopicPartition], generation_id: int) -> None:
    assert decode_last_assignment(encode_last_assignment(tps, generation_id)) == (tps, generation_id)


@pytest.mark.parametrize("data", [None, b"", b"\x00", b"\xff" * 40, b"\x7f\xff\xff\xff" + b"\x00" * 8, JAVA[:12]])
def test_what_cannot_be_read_counts_as_nothing(data: bytes | None) -> None:
    assert decode_last_assignment(data) == (frozenset(), -1)


@given(st.binary(max_size=40))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    tps, generation_id = decode_last_assignment(data)
    assert isinstance(generation_id, int)
    assert len(tps) * 4 <= len(data)
    assert isinstance(decode_generation(data), int)


@given(generations)
def test_a_generation_is_four_bytes(generation_id: int) -> None:
    data = encode_generation(generation_id)
    assert len(data) == 4
    assert decode_generation(data) == generation_id


def test_a_cooperative_member_of_librdkafka_sends_the_data_of_sticky() -> None:
    assert decode_generation(JAVA) == 7


@pytest.mark.parametrize("data", [None, b"", b"\x00\x00\x01"])
def test_no_generation_is_none(data: bytes | None) -> None:
    assert decode_generation(data) == -1
