"""Committed offsets of all groups, and those that open transactions will commit: Kafka's OffsetMetadataManager.

They belong to a group's name, so they survive its change of kind. Whether somebody may commit is the group's decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.model import TopicPartition


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A committed position: the next offset to read. The epoch is -1 where none was told."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


Offsets = dict["TopicPartition", tuple[int, CommittedOffset]]
"""Positions with the number of their commit: of two for one partition the later one counts, whatever its offset."""


class OffsetStore:
    """Positions by group and partition, in the order in which they came.

    Attributes:
        on_put: Told of each commit, but not of those in transactions.
    """

    def __init__(self) -> None:
        self._commits = 0
        self._committed: dict[str, Offsets] = {}
        self._pending: dict[int, dict[str, Offsets]] = {}
        self.on_put: Callable[[str, TopicPartition, CommittedOffset], None] | None = None

    # --- writing ---------------------------------------------------------------------------------------------

    def put(self, group_id: str, partition: TopicPartition, position: CommittedOffset) -> None:
        """Commit an offset."""
        self._commits += 1
        self._committed.setdefault(group_id, {})[partition] = (self._commits, position)
        if self.on_put is not None:
            self.on_put(group_id, partition, position)

    def put_pending(
        self, producer_id: int, group_id: str, partition: TopicPartition, position: CommittedOffset
    ) -> None:
        """Commit an offset once the producer's transaction commits (KIP-98)."""
        self._commits += 1
        groups = self._pending.setdefault(producer_id, {})
        groups.setdefault(group_id, {})[partition] = (self._commits, position)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """The producer's transaction is over: its positions count, or never were. One without positions is none."""
        groups = self._pending.pop(producer_id, {})
        if not committed:
            return
        for group_id, offsets in groups.items():
            kept = self._committed.setdefault(group_id, {})
            for partition, (number, position) in offsets.items():
                if partition not in kept or number > kept[partition][0]:
                    kept[partition] = (number, position)

    def delete(self, group_id: str, partition: TopicPartition) -> None:
        """Delete an offset, also a pending one."""
        for offsets in self._all_of(group_id):
            offsets.pop(partition, None)

    def delete_group(self, group_id: str) -> None:
        """Forget everything of a group."""
        self._committed.pop(group_id, None)
        for groups in self._pending.values():
            groups.pop(group_id, None)

    def delete_topic(self, topic: str) -> None:
        """Forget everything about a topic."""
        for groups in (self._committed, *self._pending.values()):
            for offsets in groups.values():
                for partition in [known for known in offsets if known.topic == topic]:
                    del offsets[partition]

    # --- reading ---------------------------------------------------------------------------------------------

    def get(self, group_id: str, partition: TopicPartition) -> CommittedOffset | None:
        """The position, if there is one."""
        found = self._committed.get(group_id, {}).get(partition)
        return found[1] if found is not None else None

    def of_group(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """All positions of a group."""
        return {partition: position for partition, (_, position) in self._committed.get(group_id, {}).items()}

    def is_pending(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether an open transaction is going to commit one: the present one is not stable (KIP-447)."""
        return any(partition in groups.get(group_id, {}) for groups in self._pending.values())

    def _all_of(self, group_id: str) -> list[Offsets]:
        groups = (self._committed, *self._pending.values())
        return [by_group[group_id] for by_group in groups if group_id in by_group]
