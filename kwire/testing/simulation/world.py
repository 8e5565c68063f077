"""One simulated run: a cluster, members of a group, a producer and faults, from the first record to the last close.

The run has three acts. While it is *busy*, records are sent and faults strike. Then all is healed and *quiet*, and the
members get the time they may take to drain every partition. Then they close. The ledger is what is left of it.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from kwire.consumer.host import host_with
from kwire.model import TopicPartition
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.testing.cluster import connection
from kwire.testing.cluster.call import Call
from kwire.testing.cluster.settings import BrokerSettings
from kwire.testing.cluster.state import EPOCH_MS, ClusterState
from kwire.testing.invariants.ledger import (
    CommitArrived,
    Died,
    Ended,
    Event,
    FaultBegan,
    FaultEnded,
    Frozen,
    Killed,
    Ledger,
    Quiet,
    Sent,
    Thawed,
)
from kwire.testing.invariants.recovery import RECOVERY_MS
from kwire.testing.invariants.violation import Violation
from kwire.testing.simulation.backlog import Backlog
from kwire.testing.simulation.faults import FAULTS
from kwire.testing.simulation.host import Process, Processes
from kwire.testing.simulation.member import CLOSE_TIMEOUT_MS, Member
from kwire.testing.simulation.scenario import (
    GROUP,
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    Scenario,
    Strike,
)
from kwire.testing.simulation.scheduler import BOOTED_SECONDS_AGO, VirtualTime
from kwire.testing.simulation.surroundings import Injected
from kwire.testing.simulation.transport import BrokerStream, ClientTransport, Network

PORT = 9092
# How much longer than it may take the world waits for the backlog, so that "late" can be told from "never".
PATIENCE_MS = 60_000.0


class World:
    """`live` is the whole run; the rest is `faults.Surroundings`."""

    def __init__(self, scenario: Scenario, time: VirtualTime) -> None:
        self.scenario = scenario
        self.time = time
        self.rng = random.Random(f"world {scenario.seed}")
        self.group = GROUP
        self.ledger = Ledger()
        self.cluster = _new_cluster(scenario)
        self.backlog = Backlog()
        self._processes = Processes()
        self._members: list[Member] = []
        self._started = 0
        self._sent = 0
        self._healing: list[tuple[Strike, Injected]] = []
        self.network: Network
        self._nursery: trio.Nursery

    async def live(self) -> Ledger:
        """The run, from beginning to end."""
        before = host_with(self._processes.host())
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self.network = Network(self.rng, nursery, self._accept)
                nursery.start_soon(self.cluster.run)
                self._watch_commits()
                await self._be_busy()
                await self._be_quiet()
                await self._end()
                nursery.cancel_scope.cancel()
        finally:
            host_with(before)
        return self.ledger

    # --- the three acts -------------------------------------------------------------------------------------

    async def _be_busy(self) -> None:
        scenario = self.scenario
        for name, partitions in zip(scenario.topic_names, scenario.topics, strict=True):
            self.cluster.create_topic(name, partitions, replication=scenario.brokers)
        with trio.CancelScope() as producing:
            async with trio.open_nursery() as act:
                act.start_soon(self._produce, producing)
                for strike in scenario.strikes:
                    act.start_soon(self._strike, strike)
                for _ in range(scenario.members):
                    self.start_member()
                    await trio.sleep(self.rng.uniform(0.0, 2.0))
                await self._sleep_until(scenario.busy_ms)
                producing.cancel()

    async def _be_quiet(self) -> None:
        for strike, injected in list(self._healing):
            self._heal(strike, injected)
        if not self.members():
            self.start_member()
        for member in self._members:
            member.is_hurried = True
        self.write(Quiet(at_ms=self.now_ms()))
        deadline_ms = self.now_ms() + SESSION_TIMEOUT_MS + RECOVERY_MS + PATIENCE_MS
        while not self.backlog.is_empty and self.now_ms() < deadline_ms:
            await trio.sleep(0.1)

    async def _end(self) -> None:
        for member in self.members():
            member.leave()
        with trio.move_on_after((CLOSE_TIMEOUT_MS + PATIENCE_MS) / 1000.0):
            while any(not member.process.has_ended for member in self._members):
                await trio.sleep(0.1)
        self.write(Ended(at_ms=self.now_ms()))
        for member in self._members:
            member.process.kill()
            member.abandon()

    async def _sleep_until(self, at_ms: float) -> None:
        await trio.sleep(max(0.0, at_ms - self.now_ms()) / 1000.0)

    # --- records and commits --------------------------------------------------------------------------------

    async def _produce(self, until: trio.CancelScope) -> None:
        rng = random.Random(f"records {self.scenario.seed}")
        while not until.cancel_called:
            batch = rng.randint(1, 20)
            await trio.sleep(rng.expovariate(self.scenario.records_per_second / batch))
            name = rng.choice(list(self.cluster.topics))
            index = rng.randrange(len(self.cluster.topics[name].partitions))
            self._send(TopicPartition(name, index), batch)

    def _send(self, at: TopicPartition, count: int) -> None:
        found = self.cluster.partition(*at)
        if found is None or found.leader < 0:
            return  # no leader: a producer's send would fail, and nothing is promised
        values = [f"value{number}" for number in range(self._sent, self._sent + count)]
        self._sent += count
        base = self.cluster.produce(at.topic, at.partition, [value.encode() for value in values])
        for offset, value in enumerate(values, base):
            self.write(Sent(at_ms=self.now_ms(), partition=at, offset=offset, value=value))

    def _watch_commits(self) -> None:
        def see(request: OffsetCommitRequest, call: Call) -> None:
            for topic in request.topics or ():
                by_id = None if topic.name else self.cluster.topic_by_id(topic.topic_id)
                name = topic.name or (by_id.name if by_id is not None else "")
                for each in topic.partitions or ():
                    partition = TopicPartition(name, each.partition_index)
                    self.write(
                        CommitArrived(
                            at_ms=self.now_ms(),
                            member=call.client_id,
                            partition=partition,
                            offset=each.committed_offset,
                        )
                    )

        self.cluster.control.on(OffsetCommitRequest).observe(see)

    def own_violations(self) -> list[Violation]:
        """What a ledger does not show: loops that turned for nothing, and exceptions inside the cluster."""
        impatient = sorted({name for member in self._members for name in member.process.impatient()})
        rules = [("impatient", f"{name} asked to be polled at once, without a request") for name in impatient]
        rules += [("cluster-failure", repr(error)) for error in self.cluster.failures]
        return [Violation(rule=rule, at_ms=self.now_ms(), what=what) for rule, what in rules]

    # --- faults ---------------------------------------------------------------------------------------------

    async def _strike(self, strike: Strike) -> None:
        await self._sleep_until(strike.begins_ms)
        injected = FAULTS[strike.fault](self)
        self.write(FaultBegan(at_ms=self.now_ms(), fault=strike.fault, detail=injected.detail))
        self._healing.append((strike, injected))
        await self._sleep_until(strike.ends_ms)
        self._heal(strike, injected)

    def _heal(self, strike: Strike, injected: Injected) -> None:
        if (strike, injected) in self._healing:
            self._healing.remove((strike, injected))
            injected.heal()
            self.write(FaultEnded(at_ms=self.now_ms(), fault=strike.fault))

    # --- what faults may touch ------------------------------------------------------------------------------

    def now_ms(self) -> float:
        return self.time.now_ms()

    def write(self, event: Event) -> None:
        self.ledger.write(event)
        self.backlog.apply(event)

    def start_soon(self, task: Callable[[], Awaitable[None]]) -> None:
        self._nursery.start_soon(task)

    def members(self) -> list[Member]:
        return [member for member in self._members if member.is_alive]

    def start_member(self) -> Member:
        self._started += 1
        process = Process(f"member{self._started}", self._on_death)
        process.transport = ClientTransport(self.network, process.name, process.while_frozen)
        self._processes.add(process)
        rng = random.Random(f"{process.name} {self.scenario.seed}")
        member = Member(self.scenario, process, self.write, self._bootstrap(), self.now_ms, rng)
        self._members.append(member)
        self._nursery.start_soon(partial(process.run, member.live))
        return member

    def kill_member(self, member: Member) -> None:
        self.write(Killed(at_ms=self.now_ms(), member=member.name))
        member.process.kill()
        member.abandon()
        self.network.cut(lambda client, _host: client == member.name)

    def freeze_member(self, member: Member) -> None:
        self.write(Frozen(at_ms=self.now_ms(), member=member.name))
        member.process.freeze()

    def thaw_member(self, member: Member) -> None:
        if member.process.is_frozen:
            self.write(Thawed(at_ms=self.now_ms(), member=member.name))
            member.process.thaw()

    def _on_death(self, process: Process, error: BaseException) -> None:
        self.write(Died(at_ms=self.now_ms(), member=process.name, error=repr(error)))

    # --- the brokers' addresses -----------------------------------------------------------------------------

    def _bootstrap(self) -> str:
        return ",".join(f"{broker.host}:{broker.port}" for broker in self.cluster.brokers.values())

    def _accept(self, host: str, port: int) -> Callable[[BrokerStream, str], Awaitable[None]] | None:
        found = [each for each in self.cluster.brokers.values() if (each.host, each.port) == (host, port)]
        if not found or not found[0].is_up:
            return None
        broker = found[0]

        async def serve(stream: BrokerStream, client: str) -> None:
            await connection.serve(stream, broker, self.cluster, client_host=client)

        return serve


def _new_cluster(scenario: Scenario) -> ClusterState:
    rng = random.Random(f"cluster {scenario.seed}")
    settings = BrokerSettings(
        auto_create_topics_enable=False,
        group_consumer_session_timeout_ms=SESSION_TIMEOUT_MS,
        group_consumer_heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        load_ms=rng.choice((0, 0, 300, 3_000)),
    )
    epoch_ms = EPOCH_MS - BOOTED_SECONDS_AGO * 1000.0
    cluster = ClusterState(scenario.brokers, settings=settings, seed=rng.getrandbits(32), epoch_ms=epoch_ms)
    for broker in cluster.brokers.values():
        broker.host, broker.port = f"broker{broker.node_id}", PORT
    return cluster
