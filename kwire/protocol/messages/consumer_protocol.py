"""What the members of a classic group tell each other inside JoinGroup and SyncGroup: subscription and assignment.

* 1 adds the partitions a member owns (KIP-429); 2 its generation (KIP-792); 3 its rack (KIP-881).

The bytes begin with an int16 version. A member that meets a newer version reads as much as it knows and skips the
rest: later versions may only append (KIP-54's rule, and why nothing here is flexible).
"""

from __future__ import annotations

from kwire.protocol.schema import Array, Int32, Message, NullableBytes, NullableString, String, Structure, field


class TopicPartition(Structure):
    """Partitions of one topic."""

    topic: String = ""
    partitions: Array[Int32] = field(default=[])


class ConsumerProtocolSubscription(Message, versions="0-3"):
    """What a member wants to read, and what it owns."""

    topics: Array[String] = field(default=[])
    user_data: NullableBytes = None
    owned_partitions: Array[TopicPartition] = field("1+", default=[], ignorable=True)
    generation_id: Int32 = field("2+", default=-1, ignorable=True)
    rack_id: NullableString = field("3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """What a member is to read."""

    assigned_partitions: Array[TopicPartition] = field(default=[])
    user_data: NullableBytes = None
