"""Subscriptions and assignments as the bytes that classic members pass each other through the coordinator.

An int16 version, then the structure. Versions may only append fields, so a reader takes a version that it does not know
as the newest one it does, and skips what is left; a client of any make and age may be in the group. The managers of
the classic protocol use this for JoinGroup and SyncGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kwire.errors import ProtocolError
from kwire.protocol.compiler import decode_prefix, encode_message
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

if TYPE_CHECKING:
    from kwire.protocol.schema import Message

D = TypeVar("D", ConsumerProtocolAssignment, ConsumerProtocolSubscription)

VERSION_BYTES = 2


def encode_subscription(version: int, subscription: ConsumerProtocolSubscription) -> bytes:
    """What a member sends in JoinGroup; fields that the version lacks are left out."""
    return _encode(version, subscription)


def decode_subscription(data: bytes | bytearray | memoryview) -> ConsumerProtocolSubscription:
    """What the leader learns of a member.

    Some old clients name version 1 and leave out its owned partitions: such a member owns none.

    Raises:
        ProtocolError: The bytes are no subscription.
    """
    try:
        return _decode(ConsumerProtocolSubscription, data)
    except ProtocolError:
        if (older := _without_owned_partitions(memoryview(data))) is None:
            raise
        return older


def _without_owned_partitions(view: memoryview) -> ConsumerProtocolSubscription | None:
    """What a subscription of version 1 says that ends where one of version 0 does."""
    if int.from_bytes(view[:VERSION_BYTES], "big") != 1:
        return None
    found, size_bytes = decode_prefix(ConsumerProtocolSubscription, 0, view[VERSION_BYTES:])
    return found if size_bytes == len(view) - VERSION_BYTES else None


def encode_assignment(version: int, assignment: ConsumerProtocolAssignment) -> bytes:
    """What the leader hands in for a member in SyncGroup."""
    return _encode(version, assignment)


def decode_assignment(data: bytes | bytearray | memoryview) -> ConsumerProtocolAssignment:
    """What a member gets from SyncGroup.

    Raises:
        ProtocolError: The bytes are no assignment.
    """
    return _decode(ConsumerProtocolAssignment, data)


def _encode(version: int, message: Message) -> bytes:
    return version.to_bytes(VERSION_BYTES, "big") + encode_message(message, version)


def _decode(cls: type[D], data: bytes | bytearray | memoryview) -> D:
    view = memoryview(data)
    if len(view) < VERSION_BYTES:
        raise ProtocolError(f"cannot decode {cls.__name__}: {len(view)} bytes are too few for its version")
    version = int.from_bytes(view[:VERSION_BYTES], "big", signed=True)
    if version < cls.min_version:
        raise ProtocolError(f"cannot decode {cls.__name__}: there is no version {version}")
    message, _ = decode_prefix(cls, min(version, cls.max_version), view[VERSION_BYTES:])
    return message
