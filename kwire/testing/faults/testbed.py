"""The testbed: brokers, proxies, members, traffic and topics that faults act on, and the ledger that they write to.

Made by the harness, which starts and stops its parts; called by injectors, each on a thread of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kwire.errors import KafkaError
from kwire.model import TopicPartition
from kwire.testing.faults.admin import Admin
from kwire.testing.faults.events import Recorder
from kwire.testing.faults.members import Members
from kwire.testing.faults.proxies.chain import BrokerProxy, ProxiedBrokers
from kwire.testing.faults.schedule import Schedule
from kwire.testing.faults.targets import (
    AllBrokers,
    GroupCoordinator,
    LeaderOf,
    OneBroker,
    Target,
    partition_of,
    topic_of,
)
from kwire.testing.faults.traffic import Traffic
from kwire.testing.kafka import KafkaCluster

GROUP_ID = "faults"


class StoppedError(KafkaError):
    """The run is aborted: faults under way need not be finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Testbed:
    """The brokers, proxies and members that faults are injected into.

    Args:
        topics: the number of partitions of each topic now, without deleted topics.
        compacted: the time in ms from which topics were compacted.
        proxying: a lock for orders to proxies, which take them from one thread at a time.
        stopping: set when the run is aborted.
    """

    __test__ = False  # pytest would collect it as a test because of its name

    schedule: Schedule
    recorder: Recorder
    cluster: KafkaCluster
    proxies: ProxiedBrokers
    admin: Admin
    members: Members
    traffic: Traffic
    topics: dict[str, int]
    compacted: dict[str, float] = field(default_factory=dict)
    proxying: threading.Lock = field(default_factory=threading.Lock)
    stopping: threading.Event = field(default_factory=threading.Event)

    # --- targets ---------------------------------------------------------------------------------------------

    def brokers(self, target: Target) -> tuple[int, ...]:
        """The brokers of the target now."""
        match target:
            case OneBroker():
                return (target.number,)
            case LeaderOf():
                return (self.admin.leaders.of(target.partition),)
            case GroupCoordinator():
                return (self.admin.group.coordinator(),)
            case AllBrokers():
                return tuple(range(self.schedule.brokers))
            case _:
                raise ValueError(f"{target} is no broker")

    def broker(self, target: Target) -> int:
        """The broker of the target now."""
        (number,) = self.brokers(target)
        return number

    def partitions(self, target: Target) -> tuple[TopicPartition, ...]:
        """The partition of the target, or all partitions of its topic now."""
        partition, topic = partition_of(target), topic_of(target)
        if partition is not None:
            return (partition,)
        return tuple(TopicPartition(str(topic), number) for number in range(self.topics.get(str(topic), 0)))

    @contextmanager
    def proxies_of(self, brokers: tuple[int, ...]) -> Iterator[list[BrokerProxy]]:
        """A context with exclusive use of the proxies of these brokers."""
        with self.proxying:
            yield [self.proxies[broker] for broker in brokers]

    # --- time ------------------------------------------------------------------------------------------------

    def sleep_until(self, at_ms: float) -> None:
        """Raises: StoppedError, if the run is aborted."""
        if self.stopping.wait(max(0.0, at_ms - self.recorder.now_ms()) / 1000):
            raise StoppedError

    def sleep(self, duration_ms: float) -> None:
        """Raises: StoppedError, if the run is aborted."""
        self.sleep_until(self.recorder.now_ms() + duration_ms)
