"""What groups of both kinds have in common, for the store and the handlers that serve both.

JoinGroup and its kin are not here: see `classic_join` and its neighbours, and `classic_in_consumer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID


class Group(Protocol):
    """A group under its id."""

    @property
    def group_id(self) -> str: ...

    @property
    def kind(self) -> str:
        """ "classic" or "consumer", as ListGroups writes it."""

    @property
    def state_name(self) -> str: ...

    @property
    def protocol_type(self) -> str:
        """ "consumer", another one, or nothing for a group that only has offsets."""

    @property
    def is_empty(self) -> bool: ...

    def check_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int,
        is_transactional: bool,
        partitions: Iterable[tuple[UUID, int]],
    ) -> None:
        """Raises: Refusal, if this commit is not taken."""

    def check_fetch(self, *, member_id: str | None, generation: int) -> None:
        """Raises: Refusal, if this member may not ask for offsets."""

    def subscribes(self, topic: str) -> bool:
        """Whether its offsets for the topic are in use."""

    def next_timer_ms(self) -> float:
        """When `expire` has something to do; infinity for never."""

    def expire(self, now_ms: float) -> float:
        """Do what is due. Returns when something is due next; infinity for never."""

    def coordinator_moved(self, now_ms: float) -> None:
        """Another broker has become the coordinator, which knows only what is in the log."""
