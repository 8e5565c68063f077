"""What control batches hold: markers that end transactions (KIP-98), and notes in KRaft's own log (KIP-595, KIP-630).

A control record's key is an int16 version and a ControlRecordTypeSchema; its value is one of the others, in the version
that it names itself. LeaderChangeMessage 1 adds directory ids (KIP-853).

Consumers read markers with `record_control`, which needs no message object.
"""

from __future__ import annotations

from kwire.model import ZERO_UUID
from kwire.protocol.schema import Array, Int16, Int32, Int64, Message, Structure, Uuid, field


class ControlRecordTypeSchema(Message, versions="0"):
    """Which of the others the value is."""

    type: Int16 = 0


class EndTxnMarker(Message, versions="0"):
    """A transaction was committed or aborted here; the key says which."""

    coordinator_epoch: Int32 = 0


class Voter(Structure):
    """A member of the quorum."""

    voter_id: Int32 = 0
    voter_directory_id: Uuid = field("1+", default=ZERO_UUID)


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    """A new leader of the quorum, and who voted."""

    version: Int16 = 0
    leader_id: Int32 = 0
    voters: Array[Voter] = field(default=[])
    granting_voters: Array[Voter] = field(default=[])


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    """How a snapshot starts."""

    version: Int16 = 0
    last_contained_log_timestamp: Int64 = 0


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    """How a snapshot ends."""

    version: Int16 = 0


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    """The version of the protocol that the quorum speaks from here on (KIP-853)."""

    version: Int16 = 0
    kraft_version: Int16 = 0
