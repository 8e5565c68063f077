"""Values for the answers of a cluster about groups."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.config import Endpoint
from kwire.model import TopicPartition

EMPTY, DEAD = "Empty", "Dead"
"""The states of groups without members, and of groups that do not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group in a list."""

    group: str
    state: str
    type: str
    protocol_type: str
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member and its partitions."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A group and its members.

    Attributes:
        type: classic or consumer (KIP-848).
        assignor: The assignor, if the coordinator names it.
    """

    group: str
    state: str
    type: str
    assignor: str
    coordinator: Endpoint
    members: tuple[Member, ...]
