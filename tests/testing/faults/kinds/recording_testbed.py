"""A testbed of fakes that remember what injectors do to them, on a clock that goes on when somebody waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from kwire.model import TopicPartition
from kwire.testing.faults.admin.topics import Placement
from kwire.testing.faults.catalogue import INJECTORS, strike
from kwire.testing.faults.events import Recorder
from kwire.testing.faults.fault import Heal
from kwire.testing.faults.proxies.orders import Counts
from kwire.testing.faults.schedule import MembersLine, Schedule
from kwire.testing.faults.targets import Target
from kwire.testing.faults.testbed import Testbed

if TYPE_CHECKING:
    from kwire.testing.faults.admin import Admin
    from kwire.testing.faults.kind import Value
    from kwire.testing.faults.member_plan import MemberPlan
    from kwire.testing.faults.members import Members
    from kwire.testing.faults.proxies.chain import ProxiedBrokers
    from kwire.testing.faults.proxies.tamperings import Tampering
    from kwire.testing.faults.proxies.toxics import Toxic
    from kwire.testing.faults.traffic import Traffic
    from kwire.testing.kafka import KafkaCluster


class Clock:
    """In seconds; it goes on by waiting."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Stopping(threading.Event):
    """Waits by setting the clock forward."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.now_s += timeout or 0.0
        return self.is_set()


class FakeProxy:
    """What it is told, and what of that is still so."""

    def __init__(self) -> None:
        self.toxic: dict[str, Toxic] = {}
        self.tampered: list[Tampering] = []
        self.hung_up = 0
        self.all_tampered: list[Tampering] = []
        self.hits = 0

    def toxics(self, *toxics: Toxic) -> tuple[str, ...]:
        names = tuple(f"{each.kind}-{each.stream.value}" for each in toxics)
        self.toxic |= dict(zip(names, toxics, strict=True))
        return names

    def untoxic(self, name: str) -> None:
        del self.toxic[name]

    def tamper(self, *tamperings: Tampering) -> None:
        self.tampered += tamperings
        self.all_tampered += tamperings

    def lift(self, tampering: Tampering) -> None:
        self.tampered.remove(tampering)

    def hang_up(self, *, abruptly: bool = False) -> int:
        assert abruptly
        self.hung_up += 1
        return 1

    @property
    def counts(self) -> Counts:
        self.hits += 1  # each look finds that it has hit
        return Counts(flipped_bits=self.hits)


class FakeCluster:
    """Which brokers were told what."""

    direct_servers = "127.0.0.1:9092"

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def __getattr__(self, name: str) -> object:
        return lambda *args: self._told.append(" ".join(map(str, (name, *args))))


class FakeMembers:
    """Processes by name."""

    def __init__(self, told: list[str], count: int) -> None:
        self._told = told
        self.alive = {number: f"member{number}.1" for number in range(count)}
        self.with_partitions: set[str] = set()
        self.gone_with_others = False
        self.moments: set[tuple[str, str]] = set()

    def is_at(self, name: str, moment: str) -> bool:
        return (name, moment) in self.moments

    def wait(self, condition: Callable[[], bool], _timeout_s: float) -> bool:
        return condition()

    def running(self, number: int) -> str | None:
        return self.alive.get(number)

    def names(self) -> tuple[str, ...]:
        return tuple(self.alive.values())

    def has_ended(self, name: str) -> bool:
        return name not in self.alive.values()

    def owned(self, name: str) -> frozenset[TopicPartition]:
        return frozenset({TopicPartition("orders", 0)} if name in self.with_partitions else ())

    def start(self, plan: MemberPlan) -> str:
        name = f"member{plan.number}.2" if plan.number >= 0 else f"twin{-1 - plan.number}.1"
        self.alive[plan.number] = name
        self._told.append(f"start {name}")
        return name

    def kill(self, name: str) -> None:
        self._end("kill", name)

    def close(self, name: str) -> None:
        self._end("close", name)

    def _end(self, how: str, name: str) -> None:
        self.alive = {number: each for number, each in self.alive.items() if each != name}
        if self.gone_with_others:
            self.alive.clear()
        self._told.append(f"{how} {name}")

    def __getattr__(self, order: str) -> object:
        return lambda *args: self._told.append(" ".join(map(str, (order, *args))))


class FakeTopics:
    """Six partitions, led in turns."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def placements(self, topic: str) -> Mapping[TopicPartition, Placement]:
        return {
            TopicPartition(topic, number): Placement(leader=number % 3, replicas=(0, 1, 2), in_sync=(0, 1, 2))
            for number in range(6)
        }

    def placement(self, partition: TopicPartition) -> Placement:
        """Broker 0 leads, until it is dead; who stands still is not in sync."""
        others = [0, 1, 2] if not any(line.startswith("reassign") for line in self._told) else [0, 2]
        if "kill_broker 0" in self._told:
            return Placement(leader=2, replicas=tuple(others), in_sync=(2,))
        in_sync = tuple(number for number in others if f"pause_broker {number}" not in self._told)
        return Placement(leader=0, replicas=tuple(others), in_sync=in_sync)

    def are_whole(self, _topics: Sequence[str]) -> bool:
        return True

    def __getattr__(self, order: str) -> object:
        def note(*args: object, **options: object) -> None:
            self._told.append(
                " ".join(map(str, (order, *args, *(options.get(key) for key in ("replicas",) if options))))
            )

        return note


class FakeLogs:
    """Each begins where it was cut last, and ends at 100."""

    def __init__(self) -> None:
        self.start_offsets: dict[TopicPartition, int] = {}
        self.grows_by = 0

    def starts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        found = {each: self.start_offsets.get(each, 0) for each in partitions}
        self.start_offsets = {each: start + self.grows_by for each, start in found.items()}
        return found

    def ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 100)

    def delete(self, before: Mapping[TopicPartition, int]) -> None:
        self.start_offsets |= before


class FakeLeaders:
    """Broker 2 leads everything."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def of(self, _partition: TopicPartition) -> int:
        return 2

    def prepare_move(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        self._told.append(f"prepare {len(partitions)}")
        return dict.fromkeys(partitions, 1)

    def reassign(self, orders: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        self._told += [f"reassign {partition} to {order}" for partition, order in orders.items()]

    def elect(self, moves: Mapping[TopicPartition, int]) -> None:
        self._told.append(f"elect {len(moves)}")


class FakeGroup:
    """Broker 1 coordinates."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def coordinator(self) -> int:
        return 1

    def kept_in(self) -> TopicPartition:
        return TopicPartition("__consumer_offsets", 3)

    def expel(self, client_id: str) -> None:
        self._told.append(f"expel {client_id}")


class FakeQuotas:
    def __init__(self) -> None:
        self.now: dict[str | None, dict[str, float]] = {}

    def change(self, quotas: Mapping[str | None, Mapping[str, float | None]]) -> None:
        for client, own in quotas.items():
            known = self.now.setdefault(client, {})
            for name, value in own.items():
                if value is None:
                    known.pop(name)
                else:
                    known[name] = value


class FakePermissions:
    """What is forbidden now."""

    def __init__(self) -> None:
        self.forbidden: set[str] = set()

    def forbid_topic(self, name: str) -> None:
        self.forbidden.add(f"topic {name}")

    def allow_topic(self, name: str) -> None:
        self.forbidden.remove(f"topic {name}")

    def forbid_group(self, group_id: str) -> None:
        self.forbidden.add(f"group {group_id}")

    def allow_group(self, group_id: str) -> None:
        self.forbidden.remove(f"group {group_id}")


class FakeAdmin:
    def __init__(self, told: list[str]) -> None:
        self.permissions = FakePermissions()
        self.topics = FakeTopics(told)
        self.logs = FakeLogs()
        self.leaders = FakeLeaders(told)
        self.group = FakeGroup(told)
        self.quotas = FakeQuotas()


class FakeTraffic:
    def __init__(self, told: list[str]) -> None:
        self._told = told

    def __getattr__(self, order: str) -> object:
        return lambda *args: self._told.append(" ".join(map(str, (f"traffic {order}", *args))))


class Struck:
    """A testbed of fakes, and what was told to them, in order."""

    def __init__(self, *, static: bool = False) -> None:
        self.told: list[str] = []
        self.began: list[str] = []
        self.clock = Clock()
        self.proxies = [FakeProxy() for _ in range(3)]
        self.members = FakeMembers(self.told, 3)
        self.admin = FakeAdmin(self.told)
        self.recorder = Recorder(self.clock)
        self.schedule = Schedule(members=(MembersLine(count=3, static=static),))
        self.testbed = self._testbed()

    def _testbed(self) -> Testbed:
        return Testbed(
            schedule=self.schedule,
            recorder=self.recorder,
            cluster=cast("KafkaCluster", FakeCluster(self.told)),
            proxies=cast("ProxiedBrokers", self.proxies),
            admin=cast("Admin", self.admin),
            members=cast("Members", self.members),
            traffic=cast("Traffic", FakeTraffic(self.told)),
            topics={"orders": 6},
            stopping=Stopping(self.clock),
        )

    def strike(
        self, fault: str, target: Target, *, at_ms: int = 0, lasts_ms: int | None = None, **values: Value
    ) -> Heal:
        """Carry out one step; how it is healed."""
        step = strike(at_ms, fault, target, lasts_ms=lasts_ms, **values)
        self.schedule = Schedule(members=self.schedule.members, steps=(step,))
        self.testbed = self._testbed()
        return INJECTORS[fault](self.testbed, self.schedule.steps[0], self.began.append)
