"""A description as a page for a person: one line for each thing, and below it why nothing comes of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kwire.description.values import Cause, GroupDescription, PartitionDescription, SubscriptionDescription

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400


def duration(seconds: float) -> str:
    """As people say it: "0.3 s", "12 min", "3.5 h"."""
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    for unit_s, name in ((_DAY_S, "d"), (_HOUR_S, "h")):
        if seconds >= unit_s:
            return f"{seconds / unit_s:.1f} {name}"
    return f"{seconds / _MINUTE_S:.1f} min"


def ago(seconds: float | None) -> str:
    """The same of something that may never have happened."""
    return "never" if seconds is None else f"{duration(seconds)} ago"


def cause_line(cause: Cause) -> str:
    """All there is to say of one cause."""
    line = cause.text
    if cause.for_s is not None:
        line += f", for {duration(cause.for_s)}"
    if cause.error is not None:
        line += f": {cause.error}"
    if cause.next_try_in_s is not None:
        line += f"; tried again {'now' if cause.next_try_in_s <= 0 else f'in {duration(cause.next_try_in_s)}'}"
    return line


def cause_lines(causes: Iterable[Cause]) -> Iterator[str]:
    """One line each."""
    return (f"- {cause_line(cause)}" for cause in causes)


def subscription_line(subscription: SubscriptionDescription | None) -> str:
    """What is subscribed or assigned."""
    if subscription is None:
        return "subscribed to nothing"
    topics = ", ".join(subscription.topics)
    if subscription.is_by_hand:
        return "partitions assigned by hand"
    if subscription.pattern is not None:
        return f"subscribed to the pattern {subscription.pattern!r}{f', now {topics}' if topics else ''}"
    return f"subscribed to {topics}"


def group_lines(group: GroupDescription) -> Iterator[str]:
    """The membership, its coordinator, its heartbeats."""
    head = f"group {group.group_id} ({group.protocol}): {group.state or 'unknown'}"
    yield f"{head}, waits for {group.waits_for}" if group.waits_for else head
    if group.generation is None:
        yield "  no member"
    else:
        static = f", instance id {group.group_instance_id}" if group.group_instance_id else ""
        number = "generation" if group.protocol == "classic" else "member epoch"
        yield f"  member {group.member_id or '(no id yet)'}{static}, {number} {group.generation}"
    if group.coordinator is None:
        yield "  coordinator not known"
    else:
        yield f"  coordinator {group.coordinator}, {'' if group.is_coordinator_connected else 'not '}connected"
    yield f"  last heartbeat answered {ago(group.last_heartbeat_s)}"
    if group.rebalancing_s is not None:
        yield f"  rebalancing for {duration(group.rebalancing_s)}"


def partition_lines(partition: PartitionDescription) -> Iterator[str]:
    """Where it is, and why nothing comes of it."""
    parts = [partition.state or "unknown"]
    parts.append(f"leader {partition.leader}" if partition.leader else "no leader")
    for name, number in (
        ("position", partition.position),
        ("committed", partition.committed),
        ("lag", partition.lag),
    ):
        parts.append(f"{name} {'unknown' if number is None else number}")
    parts.append("a fetch is in flight" if partition.is_fetch_in_flight else "no fetch in flight")
    child = " (caught up with)" if partition.cursor == "child" else ""
    yield f"{partition.topic}-{partition.partition}{child}: {', '.join(parts)}"
    yield from (f"  {line}" for line in cause_lines(partition.causes))
