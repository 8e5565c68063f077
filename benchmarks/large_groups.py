"""`scripts/bench groups`: a group larger than any machine here, on a virtual clock: 200 members, 50 brokers.

Members are whole consumers, brokers are kwire's own in memory, all in one thread (`kwire.testing.simulation`); settings
are the defaults, and there are no records. What is told does not depend on how fast the machine is: times of that
clock, requests, and memory, which is what kwire's code of the members holds. Each protocol is run at a quarter, at half
and at full size, so that one sees what grows faster than members, partitions and brokers do.
"""

from __future__ import annotations

import random
import sys
import tracemalloc
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import trio

import kwire
from benchmarks.turns import Figures
from kwire import Consumer, TopicPartition
from kwire.consumer.host import host_with
from kwire.protocol.registry import request_classes
from kwire.testing.cluster.settings import BrokerSettings
from kwire.testing.cluster.state import EPOCH_MS, ClusterState
from kwire.testing.simulation.host import Process, Processes
from kwire.testing.simulation.listening import listener_at
from kwire.testing.simulation.scheduler import BOOTED_SECONDS_AGO, VirtualTime, run_deterministically
from kwire.testing.simulation.transport import ClientTransport, Network
from tools.evidence import Figure, NotMet, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kwire.protocol.schema import Message, Request
    from kwire.testing.cluster.request_context import RequestContext

Protocol: TypeAlias = Literal["classic", "consumer"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)

TOPIC, GROUP, PORT = "large", "large", 9092
STARTED_WITHIN_S = 2.0
POLL_INTERVAL_S = 0.05
REST_S = 3.0
PATIENCE_S = 600.0
CHANGES_TOLD = {"start_ms": "settled after the start in", "join_ms": "after a join in", "leave_ms": "after a leave in"}
SHARES = (0.25, 0.5, 1.0)
# As Kafka has it; the brokers of tests wait for nobody.
BROKERS = BrokerSettings(group_initial_rebalance_delay_ms=3_000)
# Hundreds of applications read the clock before it moves.
READS_WITHOUT_PROGRESS = 10_000_000
OF_MEMBERS = tracemalloc.Filter(True, str(Path(kwire.__file__).parent / "*"))
OF_BROKERS = tracemalloc.Filter(False, str(Path(kwire.__file__).parent / "testing" / "*"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    members: int
    partitions: int
    brokers: int

    def scaled(self, share: float) -> Size:
        return Size(
            members=max(2, round(self.members * share)),
            partitions=max(4, round(self.partitions * share)),
            brokers=max(1, round(self.brokers * share)),
        )

    def __str__(self) -> str:
        return f"{self.members} members, {self.partitions:,} partitions, {self.brokers} brokers"


class NotSettledError(Exception):
    """A member has died, or the group does not come to rest."""


class _Member:
    """One consumer, which polls until it is told to leave."""

    def __init__(self, process: Process, settings: Mapping[str, object]) -> None:
        self.process = process
        self.assigned: frozenset[TopicPartition] = frozenset()
        self.is_leaving = False
        self._settings = settings
        self._consumer: Consumer[bytes, bytes] | None = None

    def live(self) -> None:
        consumer = self._consumer = Consumer({**self._settings, "client_id": self.process.name})
        consumer.subscribe([TOPIC])
        while not self.is_leaving:
            consumer.poll(1.0)
            self.assigned = frozenset(consumer.assignment())
        self.assigned = frozenset()
        consumer.close()

    def abandon(self) -> None:
        """The world ends: nobody is to close this one."""
        if self._consumer is not None:
            self._consumer._session.unclosed.detach()


class _World:
    """A cluster and the members of a group."""

    def __init__(self, size: Size, protocol: Protocol, virtual: VirtualTime, nursery: trio.Nursery) -> None:
        self.members: list[_Member] = []
        self.requests: Counter[int] = Counter()
        self.size = size
        self._virtual = virtual
        self._nursery = nursery
        self._died: list[BaseException] = []
        self._processes = Processes()
        self.host = self._processes.host()
        self.cluster = ClusterState(
            size.brokers, settings=BROKERS, seed=1, epoch_ms=EPOCH_MS - BOOTED_SECONDS_AGO * 1000.0
        )
        for broker in self.cluster.brokers.values():
            broker.host, broker.port = f"broker{broker.node_id}", PORT
        self.cluster.create_topic(TOPIC, size.partitions, replication=1)
        for request in request_classes().values():
            self.cluster.control.on(request).observe(self._count)
        self._network = Network(random.Random("network"), nursery, partial(listener_at, self.cluster))
        self._settings: Mapping[str, object] = {
            "bootstrap_servers": [f"{broker.host}:{broker.port}" for broker in self.cluster.brokers.values()][:3],
            "group_id": GROUP,
            "group_protocol": protocol,
            "auto_offset_reset": "earliest",
        }

    def _count(self, _request: Request[Message], call: RequestContext) -> None:
        self.requests[call.broker.node_id] += 1

    def join(self) -> None:
        process = Process(f"member{len(self.members)}", lambda _, error: self._died.append(error))
        process.transport = ClientTransport(self._network, process.name, process.while_frozen)
        self._processes.add(process)
        member = _Member(process, self._settings)
        self.members.append(member)
        self._nursery.start_soon(partial(process.run, member.live))

    def leave(self) -> None:
        self.members[0].is_leaving = True

    def _is_settled(self) -> bool:
        """Whether each partition has one owner, and each member has partitions."""
        owned = [member.assigned for member in self.members if not member.is_leaving]
        total = sum(map(len, owned))
        return total == self.size.partitions == len(frozenset().union(*owned)) and all(owned)

    async def settled_ms(self, change: Callable[[], None] = lambda: None) -> float:
        """How long it takes from a change until it is settled."""
        began_ms = self._virtual.now_ms()
        change()
        while True:
            await trio.sleep(POLL_INTERVAL_S)
            took_ms = self._virtual.now_ms() - began_ms
            if self._died:
                raise NotSettledError(f"a member has died: {self._died[0]!r}") from self._died[0]
            if self._is_settled():
                return took_ms
            if took_ms > PATIENCE_S * 1000.0:
                raise NotSettledError(f"not settled after {PATIENCE_S:.0f} s: {self.size}")

    def rates(self, name: str, seconds: float = 1.0) -> Iterator[tuple[str, float]]:
        """What was asked of the busiest broker, and of one on average, in so many seconds, since the last call."""
        yield f"{name}_busiest_broker", max(self.requests.values()) / seconds
        yield f"{name}_a_broker", sum(self.requests.values()) / seconds / self.size.brokers
        self.requests.clear()


async def _live(size: Size, protocol: Protocol, virtual: VirtualTime) -> dict[str, float]:
    virtual.allowed_reads = READS_WITHOUT_PROGRESS
    async with trio.open_nursery() as nursery:
        world = _World(size, protocol, virtual, nursery)
        before = host_with(world.host)
        try:
            nursery.start_soon(world.cluster.run)
            figures = await (_memory(world) if tracemalloc.is_tracing() else _changes(world))
        finally:
            host_with(before)
            for member in world.members:
                member.abandon()
            nursery.cancel_scope.cancel()
    return figures


async def _start(world: _World) -> None:
    for _ in range(world.size.members):
        world.join()
        await trio.sleep(STARTED_WITHIN_S / world.size.members)


async def _changes(world: _World) -> dict[str, float]:
    await _start(world)
    figures = {"start_ms": await world.settled_ms()}
    figures |= world.rates("start_requests")
    await trio.sleep(REST_S)
    world.requests.clear()
    await trio.sleep(REST_S)
    figures |= world.rates("rest_requests_per_s", REST_S)
    figures["join_ms"] = await world.settled_ms(world.join)
    figures |= world.rates("join_requests")
    figures["leave_ms"] = await world.settled_ms(world.leave)
    figures |= world.rates("leave_requests")
    return figures


async def _memory(world: _World) -> dict[str, float]:
    """Of a group at rest."""
    await _start(world)
    await world.settled_ms()
    await trio.sleep(REST_S)
    held = tracemalloc.take_snapshot().filter_traces((OF_MEMBERS, OF_BROKERS))
    return {"member_kib": sum(each.size for each in held.statistics("filename")) / len(world.members) / 1024}


def run(size: Size, protocols: Sequence[Protocol] = PROTOCOLS, *, memory: bool = True) -> list[Figures]:
    """Measure all sizes; each is a participant, so that the table shows each figure as a multiple of the first.

    Args:
        memory: Whether members' memory is measured as well, which takes as long again.

    Raises:
        NotSettledError: A group did not come to rest.
    """
    sizes = [size.scaled(share) for share in SHARES]
    found = {(protocol, each): _measured(each, protocol, memory=memory) for protocol in protocols for each in sizes}
    return [
        Figures(case=protocol, name=name, participant=str(each), rounds=(found[protocol, each][name],))
        for protocol in protocols
        for name in found[protocol, size]
        for each in sizes
    ]


def _measured(size: Size, protocol: Protocol, *, memory: bool) -> dict[str, float]:
    figures = run_deterministically(1, partial(_live, size, protocol))
    if memory:
        tracemalloc.start()
        try:
            figures |= run_deterministically(1, partial(_live, size, protocol))
        finally:
            tracemalloc.stop()
    print(f"{protocol}: {size}: done", file=sys.stderr)
    return figures


def evidence(results: Sequence[Figures], size: Size, *, date: str, kwire: str) -> Result:
    """For docs/evidence.md: a figure for each protocol and size."""
    of_each: dict[str, dict[str, float]] = {}
    for found in results:
        of_each.setdefault(f"{found.participant}, {found.case}", {})[found.name] = found.median
    return Result(
        title="Large groups",
        claim="Rebalances take no longer when a group has more members, partitions and brokers; the requests to a "
        "broker grow with the members.",
        command=f"scripts/bench groups --members {size.members} --partitions {size.partitions} "
        f"--brokers {size.brokers}",
        date=date,
        versions={"kwire": kwire},
        figures=[Figure(what=what, value=_told(found)) for what, found in of_each.items()],
        not_met=[
            NotMet(
                what="Real machines and networks",
                why="members and brokers are kwire's own, in one thread on a virtual clock",
            ),
            NotMet(what="Records", why="topics are empty: the figures are of rebalances, requests and memory"),
        ],
        page="benchmarks.md#large-groups",
    )


def _told(found: Mapping[str, float]) -> str:
    seconds = (f"{what} {found[name] / 1000:.1f} s" for name, what in CHANGES_TOLD.items() if name in found)
    requests = found["rest_requests_per_s_busiest_broker"]
    return f"{', '.join(seconds)}; {requests:.0f} requests a second of the busiest broker at rest"
