"""Subscriptions and assignments inside JoinGroup and SyncGroup, of members of any age."""

from __future__ import annotations

import pytest

from kwire.errors import ProtocolError
from kwire.protocol.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kwire.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

OWNED = [TopicPartition(topic="t", partitions=[0, 2])]
SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["t"], user_data=b"u", owned_partitions=OWNED, generation_id=4, rack_id="r"
)
ASSIGNMENT = ConsumerProtocolAssignment(assigned_partitions=OWNED, user_data=b"u")


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_both_are_a_version_and_the_structure(version: int) -> None:
    data = encode_assignment(version, ASSIGNMENT)
    assert data[:2] == bytes([0, version])
    assert decode_assignment(data) == ASSIGNMENT
    assert encode_subscription(version, SUBSCRIPTION)[:2] == bytes([0, version])


def test_older_versions_drop_what_they_do_not_know() -> None:
    assert decode_subscription(encode_subscription(3, SUBSCRIPTION)) == SUBSCRIPTION
    expected = ConsumerProtocolSubscription(topics=["t"], user_data=b"u", owned_partitions=OWNED)
    assert decode_subscription(encode_subscription(1, SUBSCRIPTION)) == expected
    expected = ConsumerProtocolSubscription(topics=["t"], user_data=b"u")
    assert decode_subscription(encode_subscription(0, SUBSCRIPTION)) == expected


@pytest.mark.parametrize("version", [4, 0x7FFF])
def test_a_newer_version_is_read_as_the_newest_known_and_the_rest_skipped(version: int) -> None:
    body = encode_subscription(3, SUBSCRIPTION)[2:]
    assert decode_subscription(version.to_bytes(2, "big") + body + b"what comes after") == SUBSCRIPTION
    body = encode_assignment(3, ASSIGNMENT)[2:]
    assert decode_assignment(memoryview(version.to_bytes(2, "big") + body + b"more")) == ASSIGNMENT


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0", b"\xff\xff\0\0\0\0", b"\0\1\0\0\0\1\0"])
def test_bytes_that_are_neither_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="cannot decode ConsumerProtocolSubscription"):
        decode_subscription(data)
    with pytest.raises(ProtocolError, match="cannot decode ConsumerProtocolAssignment"):
        decode_assignment(data)


def test_a_subscription_of_version_1_may_lack_owned_partitions() -> None:
    """Old clients send it so, and one of them would stop the whole group."""
    written = encode_subscription(0, ConsumerProtocolSubscription(topics=["orders"], user_data=b"u"))
    found = decode_subscription(b"\x00\x01" + written[2:])
    assert (found.topics, found.user_data, found.owned_partitions) == (["orders"], b"u", [])


@pytest.mark.parametrize("rest", [b"\x00", b"\x00\x00\x00\x07"])
def test_a_subscription_of_version_1_that_ends_within_its_owned_partitions_is_refused(rest: bytes) -> None:
    written = encode_subscription(0, ConsumerProtocolSubscription(topics=["orders"]))
    with pytest.raises(ProtocolError):
        decode_subscription(b"\x00\x01" + written[2:] + rest)
