"""The plan of `kwire consume`: what to read, and how far; and its settings in a group."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.cli import starts
from kwire.cli.ends import End, EndKind, parse_end
from kwire.cli.starts import Start, StartKind
from kwire.cli.topic_choice import TopicChoice
from kwire.errors import ConfigError

RESET_POLICIES = {StartKind.EARLIEST: "earliest", StartKind.LATEST: "latest"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingPlan:
    """What to read, and how far."""

    topics: TopicChoice
    partitions: tuple[int, ...] = ()
    in_group: bool = False
    start: Start | None = None
    end: End | None = None
    count: int | None = None
    exit_at_end: bool = False
    timeout_ms: int | None = None
    skips_losses: bool = False
    shows_metrics: bool = False


def chosen_start(text: str | None, *, from_beginning: bool) -> Start | None:
    """The start that was chosen, if one was. Raises: ConfigError."""
    if from_beginning and text is not None:
        raise ConfigError("--from-beginning and --from say where to begin; give one of them")
    if from_beginning:
        return Start(StartKind.EARLIEST)
    return None if text is None else starts.parse_start(text)


def chosen_end(text: str | None, start: Start | None) -> End | None:
    """The end that was chosen, if one was. Raises: ConfigError, if nothing lies before it."""
    if text is None:
        return None
    end = parse_end(text)
    if start is not None and _is_empty(start, end):
        raise ConfigError(f"--until {text}: it does not lie behind --from, so there is nothing to read")
    return end


def _is_empty(start: Start, end: End) -> bool:
    if end.kind is EndKind.OFFSET:
        return start.kind is StartKind.OFFSET and end.number <= start.number
    return start.kind is StartKind.TIMESTAMP_MS and end.number < start.number  # --from now --until now is in order


def group_settings(plan: ReadingPlan) -> dict[str, object]:
    """The settings for a plan in a group: the group continues from its commits, and begins at `--from` only without a
    commit. Patterns do not match Kafka's internal topics, unless they are wanted.

    Raises:
        ConfigError: the plan does not fit a group.
    """
    if not plan.in_group:
        return {}
    if plan.partitions:
        raise ConfigError("a group shares out the partitions itself; leave out either --partition or the group")
    found: dict[str, object] = {"exclude_internal_topics": False} if plan.topics.wants_internal else {}
    if plan.start is None:
        return found
    if plan.start.kind not in RESET_POLICIES:
        raise ConfigError("a group goes on from its commits; --from earliest or latest is for when it has none")
    return found | {"auto_offset_reset": RESET_POLICIES[plan.start.kind]}
