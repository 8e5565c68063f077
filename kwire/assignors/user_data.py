"""The bytes that sticky members add to their subscriptions, so that the leader knows what they had.

`sticky` members tell their last assignment and its generation. The data has no version number: the first version of it
(KIP-54) ends after the partitions, the second (KIP-341) adds the generation; Java tries the second, then the first.
kafka-python 3 writes a version number in front all the same. The `cooperative-sticky` ones, whose partitions are in the
subscription itself, tell the generation only; librdkafka's send the data of `sticky` there too. Any member may send
anything, so what cannot be read counts as nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from kwire.assignors.base import NO_GENERATION, as_java_sorts
from kwire.errors import ProtocolError
from kwire.model import TopicPartition
from kwire.protocol.compiler import decode_prefix, encode_message
from kwire.protocol.schema import Array, Int32, Message, String, Structure, field

GENERATION_BYTES = 4  # an int32
VERSION_BYTES = 2  # an int16, of kafka-python


class TopicPartitions(Structure):
    """Partitions of one topic."""

    topic: String = ""
    partitions: Array[Int32] = field(default=[])


class StickyAssignorUserData(Message, versions="0-1"):
    """What a member was assigned last."""

    previous_assignment: Array[TopicPartitions] = field(default=[])
    generation: Int32 = field("1+", default=NO_GENERATION)


def encode_last_assignment(partitions: Iterable[TopicPartition], generation_id: int) -> bytes:
    """The user data of `sticky`, in the version with a generation."""
    by_topic: dict[str, list[int]] = {}
    for tp in sorted(partitions, key=lambda tp: (as_java_sorts(tp.topic), tp.partition)):
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    topics = [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]
    return encode_message(StickyAssignorUserData(previous_assignment=topics, generation=generation_id), 1)


def decode_last_assignment(data: bytes | None) -> tuple[frozenset[TopicPartition], int]:
    """The partitions in the user data of `sticky`, and their generation if it is known."""
    found = _decode(data or b"") or StickyAssignorUserData()
    partitions = (
        TopicPartition(entry.topic, number) for entry in found.previous_assignment for number in entry.partitions
    )
    return frozenset(partitions), found.generation


def encode_generation(generation_id: int) -> bytes:
    """The user data of `cooperative-sticky`."""
    return generation_id.to_bytes(GENERATION_BYTES, "big", signed=True)


def decode_generation(data: bytes | None) -> int:
    """The generation in the user data of `cooperative-sticky`, if it is known."""
    if data is None or len(data) < GENERATION_BYTES:
        return NO_GENERATION
    if len(data) > GENERATION_BYTES:
        return decode_last_assignment(data)[1]
    return int.from_bytes(data, "big", signed=True)


def _decode(data: bytes) -> StickyAssignorUserData | None:
    """By the form that takes all bytes; else by the first that takes any, as in Java."""
    forms = [(version, start) for start in (0, VERSION_BYTES) for version in (1, 0)]
    read = [found for version, start in forms if (found := _decode_as(version, data[start:])) is not None]
    whole = (found for found, left_bytes in read if not left_bytes)
    return next(whole, read[0][0] if read else None)


def _decode_as(version: int, data: bytes) -> tuple[StickyAssignorUserData, int] | None:
    """With how many bytes are left over; None if the data has another form."""
    try:
        found, taken_bytes = decode_prefix(StickyAssignorUserData, version, data)
    except ProtocolError:
        return None
    return found, len(data) - taken_bytes
