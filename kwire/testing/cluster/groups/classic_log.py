"""A classic group as Kafka logs it in `__consumer_offsets`: the last generation that was assigned, and its members.

A rebalance under way is not in the log, nor are ids that were handed out; a new coordinator does not know of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from kwire.testing.cluster.groups.classic_answers import GenerationFacts
from kwire.testing.cluster.groups.classic_states import ClassicGroupState

if TYPE_CHECKING:
    from kwire.testing.cluster.groups.classic_member import ClassicMemberEntry


class LoggedState(GenerationFacts, Protocol):
    """What the log tells of a group: `classic.ClassicGroup`."""

    state: ClassicGroupState


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedGroup:
    """A group's record. Of each member's protocols, the log has the chosen one."""

    generation: int = 0
    protocol_type: str = ""
    protocol_name: str | None = None
    leader_id: str | None = None
    members: tuple[ClassicMemberEntry, ...] = ()

    @classmethod
    def of(cls, group: LoggedState) -> LoggedGroup:
        """The group as it is now."""
        chosen = group.protocol_name
        return cls(
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=chosen,
            leader_id=group.roster.leader_id,
            members=tuple(_copy(m, [(chosen or "", m.metadata(chosen))]) for m in group.members.values()),
        )

    def restore(self, group: LoggedState) -> None:
        """Make the group what the log says it is: stable, or empty."""
        group.generation = self.generation
        group.protocol_type, group.protocol_name = self.protocol_type, self.protocol_name
        group.roster.clear()
        for member in self.members:
            group.roster.add(_copy(member, list(member.protocols)))
        group.roster.leader_id = self.leader_id
        group.state = ClassicGroupState.STABLE if self.members else ClassicGroupState.EMPTY


EMPTY_GROUP = LoggedGroup()


def _copy(member: ClassicMemberEntry, protocols: list[tuple[str, bytes]]) -> ClassicMemberEntry:
    return replace(member, protocols=protocols, is_new=False, waiting_join=None, waiting_sync=None)
