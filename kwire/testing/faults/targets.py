"""Targets of faults, and their text form: `broker 1`, `leader orders-0`, `coordinator`, `all`, `member 2`.

Brokers are named by their node ids, which begin at 0 in a test cluster, and members are counted in the same way.
Leaders and coordinators are looked up when the fault strikes. Used by the catalogue, by schedules, and by injectors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kwire.model import TopicPartition

# Kafka's rule for names of topics.
TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)


@dataclass(frozen=True, slots=True)
class OneBroker:
    """One broker, by its node id."""

    number: int

    def __str__(self) -> str:
        return f"broker {self.number}"


@dataclass(frozen=True, slots=True)
class LeaderOf:
    """The broker that leads a partition when the fault strikes."""

    partition: TopicPartition

    def __str__(self) -> str:
        return f"leader {self.partition}"


@dataclass(frozen=True, slots=True)
class GroupCoordinator:
    """The broker that coordinates the group when the fault strikes."""

    def __str__(self) -> str:
        return "coordinator"


@dataclass(frozen=True, slots=True)
class AllBrokers:
    def __str__(self) -> str:
        return "all"


@dataclass(frozen=True, slots=True)
class OneMember:
    """One member, by its number: the members of the `members` lines in order, then those that have joined."""

    number: int

    def __str__(self) -> str:
        return f"member {self.number}"


@dataclass(frozen=True, slots=True)
class WholeGroup:
    """The whole group: any of its members, or all."""

    def __str__(self) -> str:
        return "group"


@dataclass(frozen=True, slots=True)
class OneTopic:
    name: str

    def __str__(self) -> str:
        return f"topic {self.name}"


@dataclass(frozen=True, slots=True)
class PartitionOf:
    partition: TopicPartition

    def __str__(self) -> str:
        return f"partition {self.partition}"


Target: TypeAlias = (
    OneBroker | LeaderOf | GroupCoordinator | AllBrokers | OneMember | WholeGroup | OneTopic | PartitionOf
)
TargetKind: TypeAlias = type[Target]

ONE_BROKER: tuple[TargetKind, ...] = (OneBroker, LeaderOf, GroupCoordinator)
ANY_BROKERS: tuple[TargetKind, ...] = (*ONE_BROKER, AllBrokers)

# The words of a target; `parse_target` parses those after the first.
WORDS: Mapping[TargetKind, str] = {
    OneBroker: "broker N",
    LeaderOf: "leader TOPIC-N",
    GroupCoordinator: "coordinator",
    AllBrokers: "all",
    OneMember: "member N",
    WholeGroup: "group",
    OneTopic: "topic NAME",
    PartitionOf: "partition TOPIC-N",
}
KINDS: Mapping[str, TargetKind] = {words.split()[0]: kind for kind, words in WORDS.items()}


def parse_target(kind: TargetKind, argument: str) -> Target:
    """A target of this kind; `argument` is the word after its name, empty if there is none.

    Raises:
        ValueError: the argument is invalid; the message says what is allowed.
    """
    return _MAKERS[kind](argument)


def takes_argument(kind: TargetKind) -> bool:
    return " " in WORDS[kind]


def partition_of(target: Target) -> TopicPartition | None:
    """The partition of the target, if it has one."""
    return target.partition if isinstance(target, (LeaderOf, PartitionOf)) else None


def topic_of(target: Target) -> str | None:
    """The topic of the target, or of its partition."""
    if isinstance(target, OneTopic):
        return target.name
    partition = partition_of(target)
    return None if partition is None else partition.topic


def may_be_same_broker(one: Target, other: Target) -> bool:
    """Whether two targets may be the same broker; leaders and coordinators are not known in advance."""
    return not (isinstance(one, OneBroker) and isinstance(other, OneBroker)) or one == other


def _is_number(argument: str) -> bool:
    return argument.isascii() and argument.isdigit() and len(argument) <= 6


def _number(argument: str) -> int:
    if not _is_number(argument):
        raise ValueError("a number from 0 up is wanted")
    return int(argument)


def _topic_name(argument: str) -> str:
    if not TOPIC_NAME.fullmatch(argument):
        raise ValueError("a topic's name is wanted: letters, digits, '.', '_' and '-', up to 249 of them")
    return argument


def _partition(argument: str) -> TopicPartition:
    topic, _dash, number = argument.rpartition("-")
    if not topic or not _is_number(number):
        raise ValueError("a partition is wanted, as in orders-0")
    return TopicPartition(_topic_name(topic), int(number))


_MAKERS: Mapping[TargetKind, Callable[[str], Target]] = {
    OneBroker: lambda argument: OneBroker(_number(argument)),
    LeaderOf: lambda argument: LeaderOf(_partition(argument)),
    GroupCoordinator: lambda _argument: GroupCoordinator(),
    AllBrokers: lambda _argument: AllBrokers(),
    OneMember: lambda argument: OneMember(_number(argument)),
    WholeGroup: lambda _argument: WholeGroup(),
    OneTopic: lambda argument: OneTopic(_topic_name(argument)),
    PartitionOf: lambda argument: PartitionOf(_partition(argument)),
}
