"""The report of a group with its lag, as text or JSON, which `describe` and `watch` print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kwire.cli.admin.cluster import LATEST, ClusterView
from kwire.cli.admin.group_values import DEAD, GroupState
from kwire.cli.admin.groups import Groups
from kwire.cli.admin.lag import LagRow, headline, lag_lines, lag_rows, partitions_of, total_lag
from kwire.cli.tables import table
from kwire.errors import InvalidArgumentError, UnknownTopicOrPartitionError
from kwire.model import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupReport:
    """A group at one moment."""

    state: GroupState
    rows: list[LagRow]

    @classmethod
    def of(cls, view: ClusterView, group: str) -> GroupReport:
        """Look the group up. Raises: KafkaError."""
        groups = Groups(view)
        state = groups.describe(group)
        committed = {} if state.state == DEAD else groups.committed(group)
        return cls(state, lag_rows(state, committed, ends_of(view, partitions_of(state, committed))))

    @property
    def is_missing(self) -> bool:
        return self.state.state == DEAD

    def lines(self, rates: Mapping[TopicPartition, float] | None = None) -> Iterator[str]:
        """The report as text."""
        if self.is_missing:
            yield f"{self.state.group}: there is no such group, or it has neither members nor commits"
            return
        yield headline(self.state, self.rows)
        if self.rows:
            yield from lag_lines(self.rows, rates)
        idle = [member for member in self.state.members if not member.partitions]
        if idle:
            yield "members without partitions:"
            yield from table(
                ("client", "host", "member"), [(each.client_id, each.host, each.member_id) for each in idle]
            )

    def to_json(self) -> dict[str, object]:
        """The report as values for JSON."""
        state = self.state
        return {
            "group": state.group,
            "state": state.state,
            "protocol": state.type,
            "assignor": state.assignor,
            "coordinator": str(state.coordinator),
            "lag": total_lag(self.rows),
            "members": [
                {
                    "member_id": member.member_id,
                    "instance_id": member.instance_id,
                    "client_id": member.client_id,
                    "host": member.host,
                    "partitions": [partition._asdict() for partition in member.partitions],
                }
                for member in state.members
            ],
            "partitions": [
                {
                    "topic": row.topic,
                    "partition": row.partition,
                    "committed": row.committed,
                    "end": row.end,
                    "lag": row.lag,
                    "member_id": row.member.member_id if row.member else None,
                }
                for row in self.rows
            ],
        }


def ends_of(view: ClusterView, partitions: list[TopicPartition]) -> dict[TopicPartition, int | None]:
    """The ends of partitions, looked up topic by topic, so that one that was deleted or may not be read does not affect
    others."""
    found: dict[TopicPartition, int | None] = {}
    for topic in dict.fromkeys(partition.topic for partition in partitions):
        wanted = [partition for partition in partitions if partition.topic == topic]
        try:
            found |= view.offsets(wanted, LATEST)
        except (InvalidArgumentError, UnknownTopicOrPartitionError):
            found |= dict.fromkeys(wanted)
    return found
