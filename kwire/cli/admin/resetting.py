"""`kwire groups reset`: it chooses the partitions, plans their resets, and commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kwire.cli.admin.cluster import ClusterView
from kwire.cli.admin.group_values import DEAD, EMPTY
from kwire.cli.admin.groups import Groups
from kwire.cli.admin.resets import Reset, log_ranges, parse_topic, plan_resets
from kwire.cli.starts import Start, StartKind
from kwire.cli.tables import counted, table
from kwire.errors import ConfigError, IllegalStateError, InvalidArgumentError
from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class ResetOutcome:
    """The resets that would be committed, or were."""

    group: str
    resets: list[Reset]
    is_done: bool
    codes: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)

    @property
    def has_failed(self) -> bool:
        return any(self.codes.values())

    def lines(self) -> Iterator[str]:
        """The outcome as text."""
        rows = [
            (each.partition.topic, each.partition.partition, each.before, each.after, self._word(each))
            for each in self.resets
        ]
        yield from table(("topic", "partition", "before", "after", ""), rows)
        if not self.is_done:
            yield f"nothing is committed yet: add --execute to commit this for group {self.group}"
            if all(each.before is None for each in self.resets):
                yield "this group has committed none of these before: if it is no new one, see `kwire groups list`"

    def _word(self, reset: Reset) -> str:
        code = self.codes.get(reset.partition, ErrorCode.NONE)
        if code is not ErrorCode.NONE:
            return f"{code.name}: {code.meaning}"
        return "committed" if self.is_done else ""

    def to_json(self) -> dict[str, object]:
        """The outcome as values for JSON."""
        return {
            "group": self.group,
            "executed": self.is_done,
            "partitions": [
                {
                    **each.partition._asdict(),
                    "before": each.before,
                    "after": each.after,
                    "error": self.codes[each.partition].name if self.codes.get(each.partition) else None,
                }
                for each in self.resets
            ],
        }


class Resetting:
    """Sets the commits of one group.

    Args:
        topics: As on the command line: names, or some partitions of one.
        all_topics: Whether to reset all topics that the group has committed.

    Raises:
        ConfigError: Neither, or both.
    """

    def __init__(self, view: ClusterView, group: str, topics: Sequence[str], *, all_topics: bool) -> None:
        if bool(topics) == all_topics:
            raise ConfigError("say which topics, once: --topic NAME, or --all-topics")
        self._view = view
        self._groups = Groups(view)
        self._group = group
        self._topics = [parse_topic(topic) for topic in topics]

    def run(self, start: Start | None, shift_by: int | None, *, execute: bool) -> ResetOutcome:
        """Plan the resets, and with `execute` commit them.

        Raises:
            IllegalStateError: The group has members.
            InvalidArgumentError: There is nothing to reset.
        """
        self._check_empty()
        committed = self._groups.committed(self._group)
        partitions = self._partitions(committed)
        at_time = {}
        if start is not None and start.kind is StartKind.TIMESTAMP_MS:
            at_time = self._view.offsets(partitions, start.number)
        logs = log_ranges(self._view, partitions)
        resets = plan_resets(committed, logs, start=start, at_time=at_time, shift_by=shift_by)
        if not resets:
            raise InvalidArgumentError(f"group {self._group} has no commit of these topics that could be shifted")
        if not execute:
            return ResetOutcome(self._group, resets, is_done=False)
        codes = self._groups.commit(self._group, {each.partition: each.after for each in resets})
        return ResetOutcome(self._group, resets, is_done=True, codes=codes)

    def _check_empty(self) -> None:
        """Check that the group has no members: otherwise the coordinator would refuse the commit without a reason."""
        state = self._groups.describe(self._group)
        if state.state not in (EMPTY, DEAD):
            clients = ", ".join(sorted({f"{member.client_id} at {member.host}" for member in state.members}))
            raise IllegalStateError(
                f"group {self._group} is {state.state}, with {counted(len(state.members), 'member')} ({clients}): stop "
                "them first, for they would go on where they are and commit over it"
            )

    def _partitions(self, committed: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        if not self._topics:
            if not committed:
                raise InvalidArgumentError(f"group {self._group} has committed nothing; name a --topic")
            return sorted(committed)
        names = dict.fromkeys(name for name, _ in self._topics)
        found = {topic.name: topic for topic in self._view.topics_named(names.keys())}
        chosen: set[TopicPartition] = set()
        for name, numbers in self._topics:
            existing = [each.number for each in found[name].partitions]
            if missing := set(numbers).difference(existing):
                raise InvalidArgumentError(f"topic {name!r} has no partition {min(missing)}")
            chosen |= {TopicPartition(name, number) for number in numbers or existing}
        return sorted(chosen)
