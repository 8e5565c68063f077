"""The lag of a group: a row for each partition that it has committed, or that a member has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kwire.cli.admin.group_values import GroupState, Member
from kwire.cli.tables import counted, table
from kwire.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """A partition of a group. A field is None if there is no commit, no member, or no leader that knows the end of the
    log."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    member: Member | None

    @property
    def lag(self) -> int | None:
        """Offsets from the commit to the end of the log; negative if the commit lies beyond the end, as after the topic
        was deleted and created again."""
        return None if self.committed is None or self.end is None else self.end - self.committed


def partitions_of(state: GroupState, committed: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    """The partitions that the group has committed, or that a member has."""
    owned = {partition for member in state.members for partition in member.partitions}
    return sorted(owned | committed.keys())


def lag_rows(
    state: GroupState, committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int | None]
) -> list[LagRow]:
    """The rows in the order of topics and partitions."""
    owners = {partition: member for member in state.members for partition in member.partitions}
    return [
        LagRow(
            topic=partition.topic,
            partition=partition.partition,
            committed=committed.get(partition),
            end=ends.get(partition),
            member=owners.get(partition),
        )
        for partition in partitions_of(state, committed)
    ]


def total_lag(rows: Sequence[LagRow]) -> int:
    """The sum of the lags of all partitions that have one."""
    return sum(max(0, row.lag or 0) for row in rows)


def headline(state: GroupState, rows: Sequence[LagRow]) -> str:
    """The first line, such as `billing: Stable, consumer protocol, assignor uniform, 3 members, lag 1,234, coordinator
    kafka-1:9092`."""
    assignor = f", assignor {state.assignor}" if state.assignor else ""
    members = counted(len(state.members), "member")
    return (
        f"{state.group}: {state.state}, {state.type} protocol{assignor}, {members}, lag {total_lag(rows):,}, "
        f"coordinator {state.coordinator}"
    )


def lag_lines(rows: Sequence[LagRow], rates: Mapping[TopicPartition, float] | None = None) -> Iterator[str]:
    """The rows as a table; with rates, it has the records per second of the group."""
    headings = ["topic", "partition", "committed", "end", "lag", "client", "host"]
    cells: list[list[object]] = [
        [
            row.topic,
            row.partition,
            row.committed,
            row.end,
            row.lag,
            row.member.client_id if row.member else None,
            row.member.host if row.member else None,
        ]
        for row in rows
    ]
    if rates is not None:
        headings.insert(5, "per s")
        for row, line in zip(rows, cells, strict=True):
            rate = rates.get(TopicPartition(row.topic, row.partition))
            line.insert(5, None if rate is None else round(rate))
    yield from table(headings, cells)


def rates_between(before: Sequence[LagRow], now: Sequence[LagRow], elapsed_s: float) -> dict[TopicPartition, float]:
    """Records a second by which commits have moved, of partitions that are in both."""
    at = {TopicPartition(row.topic, row.partition): row.committed for row in before}
    found: dict[TopicPartition, float] = {}
    for row in now:
        earlier = at.get(TopicPartition(row.topic, row.partition))
        if earlier is not None and row.committed is not None and elapsed_s > 0:
            found[TopicPartition(row.topic, row.partition)] = (row.committed - earlier) / elapsed_s
    return found
