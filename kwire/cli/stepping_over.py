"""Advice for unreadable records on the command line: errors of the library name calls of a program instead."""

from __future__ import annotations

from kwire.errors import CorruptRecordError, KafkaError, RecordDeserializationError
from kwire.model import TopicPartition

_OF_PROGRAMS = "; to step over it: seek("


def how_to_step_over(partition: TopicPartition, offset: int, group: str | None) -> str:
    """Begin behind the record. A group goes on from its commits, wherever `--from` says."""
    behind = offset + 1
    if group is None:
        return f"--from {behind} begins behind it"
    place = f"{partition.topic}:{partition.partition}"
    return f"'kwire groups reset {group} --topic {place} --to {behind} --execute' has the group begin behind it"


def told_at_a_command_line(error: CorruptRecordError | RecordDeserializationError, group: str | None) -> KafkaError:
    """The error text, with the advice for a program replaced by that for the command line."""
    said, call, _ = str(error).partition(_OF_PROGRAMS)
    if not call:
        return KafkaError(said)
    if isinstance(error, CorruptRecordError):
        advice = "--on-data-loss skip steps over it"
    else:
        advice = how_to_step_over(error.partition, error.offset, group)
    return KafkaError(f"{said}; {advice}")
