"""The members of the quorum, as a control record in KRaft's own log tells them (KIP-853)."""

from __future__ import annotations

from kwire.model import ZERO_UUID
from kwire.protocol.schema import Array, Int16, Int32, Message, String, Structure, UInt16, Uuid, field


class Endpoint(Structure):
    """One of the places where a voter listens."""

    name: String = ""
    host: String = ""
    port: UInt16 = 0


class KRaftVersionFeature(Structure):
    """The versions of the quorum's protocol that a voter speaks."""

    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class Voter(Structure):
    """A voter."""

    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    endpoints: Array[Endpoint] = field(default=[])
    kraft_version_feature: KRaftVersionFeature = field(default=KRaftVersionFeature())


class VotersRecord(Message, versions="0", flexible="0+"):
    """All voters."""

    version: Int16 = 0
    voters: Array[Voter] = field(default=[])
