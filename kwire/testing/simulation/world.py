"""One simulated run: a cluster, members of a group, a producer and faults, from the first record to the last close.

The run has four acts. While it is *busy*, records are sent and faults strike. Then all is healed and *quiet*, and the
members get the time they may take to drain every partition. What is left then is a group at rest, for a while of
*calm* with a few records more. Then they close. The ledger is what is left of it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

import trio

from kwire.consumer.host import host_with
from kwire.model import TopicPartition
from kwire.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.testing.cluster.groups.offsets import CommittedOffset
from kwire.testing.cluster.releases import release_named
from kwire.testing.cluster.request_context import RequestContext
from kwire.testing.cluster.settings import BrokerSettings
from kwire.testing.cluster.state import EPOCH_MS, ClusterState
from kwire.testing.invariants.ledger import (
    Assigned,
    Calm,
    Closing,
    CommitArrived,
    CommitTaken,
    Died,
    Ended,
    Event,
    FaultBegan,
    FaultEnded,
    Frozen,
    JoinedAnew,
    Killed,
    Ledger,
    Quiet,
    Stored,
    Thawed,
)
from kwire.testing.invariants.recovery import RECOVERY_MS
from kwire.testing.invariants.violation import Violation
from kwire.testing.simulation.async_member import AsyncMember
from kwire.testing.simulation.backlog import Backlog
from kwire.testing.simulation.faults import FAULTS
from kwire.testing.simulation.host import Process, Processes
from kwire.testing.simulation.joining import joins_anew
from kwire.testing.simulation.listening import listener_at
from kwire.testing.simulation.login_faults import LOGIN_FAULTS
from kwire.testing.simulation.logins import new_sasl_server
from kwire.testing.simulation.member import CLOSE_TIMEOUT_MS, SimulatedMember
from kwire.testing.simulation.producer import SimulatedProducer
from kwire.testing.simulation.scenario import (
    GROUP,
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    Scenario,
    Strike,
)
from kwire.testing.simulation.scheduler import BOOTED_SECONDS_AGO, VirtualTime
from kwire.testing.simulation.surroundings import Fault, Injected
from kwire.testing.simulation.transport import ClientTransport, Network

PORT = 9092
# How much longer than it may take the world waits for the backlog, so that "late" can be told from "never".
PATIENCE_MS = 60_000.0
# After so long nothing is left of a fault: sessions of the dead have ended, and metadata has been asked for.
SETTLING_MS = 25_000.0
# Longer than a session: a member that does not heartbeat is found out.
CALM_SECONDS = 12.0
# Time for a rebalance or two.
CHANGING_SECONDS = 5.0
# Longer than the interval of automatic commits.
COMMITTING_SECONDS = 2.0
# A client that keeps this up has nothing in mind: the wire allows not much more.
MAX_FRAMES_PER_SECOND = 1_000
# Who is interrupted reads the backlog again and again, in small fetches if told so; and so does who is behind a flood.
MAX_FRAMES_WITH_BACKLOG = 3_000
WATCH_SECONDS = 3.0
# While a group rests for long, records come this seldom.
RESTING_PAUSE_SECONDS = 300.0
ALL_FAULTS: Mapping[str, Fault] = {**FAULTS, **LOGIN_FAULTS}


class HotLoopError(Exception):
    """A client asks and asks."""


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
        self.unfinished = self.backlog  # what is waited for before it is calm
        self._processes = Processes()
        self._members: list[SimulatedMember] = []
        self._started = 0
        self._healing: list[tuple[Strike, Injected]] = []
        self._has_left_members = False
        self._new_sessions = 0
        self._missed_renewals = 0
        self._quiet_at_ms = 0.0
        self._closes_when_drained = False
        self.logins: Counter[str] = Counter()
        """How often clients began to log in, on new connections and anew on those they had."""
        self.producer = SimulatedProducer(scenario, self.cluster, self.write, self.now_ms)
        self.network: Network
        self._nursery: trio.Nursery

    async def live(self) -> Ledger:
        """The run, from beginning to end."""
        before = host_with(self._processes.host())
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self.network = self._new_network(nursery)
                self.network.on_frame = self._watch_joins
                nursery.start_soon(self.cluster.run)
                nursery.start_soon(self._watch_rates)
                self._watch_commits()
                self._watch_logins()
                await self._be_busy()
                await self._be_quiet()
                if self.unfinished.is_empty:
                    await self._be_calm()
                await self._end()
                nursery.cancel_scope.cancel()
        finally:
            host_with(before)
        return self.ledger

    def _new_network(self, nursery: trio.Nursery) -> Network:
        if not self._has_tls:
            return Network(self.rng, nursery, partial(listener_at, self.cluster))
        from kwire.testing.simulation.encryption import server_context

        tls = server_context(self._hosts(), self._note_plain)
        network = Network(self.rng, nursery, partial(listener_at, self.cluster, tls=tls))
        network.is_encrypted = True
        return network

    def _note_plain(self, data: bytes) -> None:
        self.network.note_plain(data)

    @property
    def _has_tls(self) -> bool:
        return self.scenario.logins is not None and self.scenario.logins.has_tls

    def _hosts(self) -> list[str]:
        return [broker.host for broker in self.cluster.brokers.values()]

    # --- the four acts --------------------------------------------------------------------------------------

    async def _be_busy(self) -> None:
        scenario = self.scenario
        for name, partitions in zip(scenario.topic_names, scenario.topics, strict=True):
            self.cluster.create_topic(name, partitions, replication=scenario.brokers)
        self._commit_beginnings()
        producing = trio.CancelScope()
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
        self.producer.is_calm = True
        self.write(Quiet(at_ms=self.now_ms()))
        deadline_ms = self.now_ms() + SESSION_TIMEOUT_MS + RECOVERY_MS + PATIENCE_MS
        self._quiet_at_ms = self.now_ms()
        await self._until_empty(self.unfinished, deadline_ms)

    async def _be_calm(self) -> None:
        await self._sleep_until(self._quiet_at_ms + SETTLING_MS)
        self.write(Calm(at_ms=self.now_ms()))
        sessions, logins_ended = self._fetch_sessions(), self._logins_ended()
        if self.scenario.logins is not None and self.scenario.logins.resting_ms:
            await self._send_for(self.scenario.logins.resting_ms / 1000.0, pause_seconds=RESTING_PAUSE_SECONDS)
        self._pile_up(self.rng.choice(self._partitions()))
        await self._send_for(CALM_SECONDS, pause_seconds=3.0)
        await self.producer.send_last(self.rng.choice(self._partitions()))
        # A pile that is read two records at a time may end only now: then its last commit is still to come.
        await self._until_empty(self.unfinished, self.now_ms() + PATIENCE_MS)
        await self._let_commits_come()
        self._write_stored(self._partitions())
        self._new_sessions = len(self._fetch_sessions() - sessions)
        self._missed_renewals = self._logins_ended() - logins_ended
        await self._change_hands()

    def _pile_up(self, at: TopicPartition) -> None:
        self.producer.send_backlog(at)

    async def _let_commits_come(self) -> None:
        await trio.sleep(COMMITTING_SECONDS)

    async def _change_hands(self) -> None:
        """Somebody joins while records flow, or a topic grows, and all close as soon as the last one is read."""
        self.write(Closing(at_ms=self.now_ms()))
        if self.scenario.grows_at_end:
            self.grow_topic(self.rng.choice(list(self.cluster.topics)))
        else:
            self.start_member().is_hurried = True
        await self._send_for(CHANGING_SECONDS, pause_seconds=0.3)
        self._closes_when_drained = True  # at once: who was handed the last records has had no time to poll again
        self.producer.send_everywhere(5)
        await self._until_empty(self.backlog, self.now_ms() + PATIENCE_MS)

    async def _send_for(self, seconds: float, *, pause_seconds: float) -> None:
        until_ms = self.now_ms() + seconds * 1000.0
        while self.now_ms() < until_ms:
            self.producer.send_everywhere(self.rng.randint(1, 3))
            await trio.sleep(self.rng.uniform(0.1, pause_seconds))

    def _fetch_sessions(self) -> set[tuple[int, int]]:
        return {(broker.node_id, number) for broker in self.cluster.running() for number in broker.fetch_sessions.ids()}

    def _logins_ended(self) -> int:
        return 0 if self.cluster.sasl is None else self.cluster.sasl.sessions_ended

    async def _until_empty(self, backlog: Backlog, deadline_ms: float) -> None:
        while not backlog.is_empty and self.now_ms() < deadline_ms:
            await trio.sleep(0.1)

    async def _end(self) -> None:
        self._close_all()
        with trio.move_on_after((CLOSE_TIMEOUT_MS + PATIENCE_MS) / 1000.0):
            while any(not member.process.has_ended for member in self._members):
                await trio.sleep(0.1)
        self._look_back()
        self.write(Ended(at_ms=self.now_ms()))
        for member in self._members:
            member.process.kill()
            member.abandon()

    def _close_all(self) -> None:
        for member in self.members():
            member.leave()

    def _look_back(self) -> None:
        """What the members have left behind."""
        self._write_stored(self._partitions())
        group = self.cluster.groups.get(self.group)
        has_closed = next(self.ledger.of(Closing), None) is not None
        self._has_left_members = has_closed and group is not None and not group.is_empty

    def _partitions(self) -> list[TopicPartition]:
        topics = self.cluster.topics.items()
        return [TopicPartition(name, index) for name, topic in topics for index in range(len(topic.partitions))]

    async def _sleep_until(self, at_ms: float) -> None:
        await trio.sleep(max(0.0, at_ms - self.now_ms()) / 1000.0)

    # --- records and commits --------------------------------------------------------------------------------

    async def _produce(self, until: trio.CancelScope) -> None:
        with until:
            await self.producer.run()

    def _watch_joins(self, client: str, data: bytes) -> None:
        if joins_anew(data):
            self.write(JoinedAnew(at_ms=self.now_ms(), member=client))

    def name_of(self, topic: OffsetCommitRequestTopic) -> str:
        """Of a topic that was deleted there is none."""
        by_id = None if topic.name else self.cluster.topic_by_id(topic.topic_id)
        return topic.name or (by_id.name if by_id is not None else "")

    def _watch_commits(self) -> None:
        def see(request: OffsetCommitRequest, call: RequestContext) -> None:
            for topic in request.topics or ():
                name = self.name_of(topic)
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

        def keep(_group_id: str, partition: TopicPartition, committed: CommittedOffset) -> None:
            self.write(CommitTaken(at_ms=self.now_ms(), partition=partition, offset=committed.offset))

        self.cluster.control.on(OffsetCommitRequest).observe(see)
        self.cluster.groups.offsets.on_put = keep

    def _watch_logins(self) -> None:
        def see(_request: SaslHandshakeRequest, call: RequestContext) -> None:
            authentication = call.session.authentication
            is_known = authentication is not None and authentication.name is not None
            self.logins["renewed" if is_known else "new"] += 1

        if self.scenario.logins is not None:
            self.cluster.control.on(SaslHandshakeRequest).observe(see)

    def _commit_beginnings(self) -> None:
        """Of partitions that have no commit, where members go to the end without one."""
        if self.scenario.habits.auto_offset_reset != "latest":
            return
        committed = self.cluster.committed(self.group)
        for at in self._partitions():
            if at not in committed:
                self.cluster.groups.offsets.put(self.group, at, CommittedOffset(0))

    def _write_stored(self, partitions: Iterable[TopicPartition]) -> None:
        committed = self.cluster.committed(self.group)
        for at in partitions:
            found, stored = self.cluster.partition(*at), committed.get(at)
            end = found.log.last_stable_offset if found is not None else 0
            offset = stored.offset if stored is not None else None
            self.write(Stored(at_ms=self.now_ms(), partition=at, offset=offset, end=end))

    async def _watch_rates(self) -> None:
        faults = self.scenario.user_faults
        has_backlog = self.scenario.habits.floods > 0 or (faults is not None and faults.interrupts > 0)
        most = WATCH_SECONDS * (MAX_FRAMES_WITH_BACKLOG if has_backlog else MAX_FRAMES_PER_SECOND)
        while True:
            before = dict(self.network.frames_sent)
            await trio.sleep(WATCH_SECONDS)
            for client, count in self.network.frames_sent.items():
                if count - before.get(client, 0) > most:
                    raise HotLoopError(f"{client} sent {count - before.get(client, 0)} frames in {WATCH_SECONDS} s")

    def own_violations(self) -> list[Violation]:
        """What a ledger does not show: loops that turned for nothing, and exceptions inside the cluster."""
        impatient = sorted({name for member in self._members for name in member.process.impatient()})
        rules = [("impatient", f"{name} asked to be polled at once, without a request") for name in impatient]
        rules += [("cluster-failure", repr(error)) for error in self.cluster.failures]
        # What is sought or resumed is fetched over a connection of its own for once, whose session begins then.
        if self._new_sessions > len(self._members) * len(self.cluster.running()):
            rules.append(("sessions-anew", f"{self._new_sessions} fetch sessions began when all was calm"))
        if self._missed_renewals:
            rules.append(("renewed-late", f"{self._missed_renewals} logins ran out when all was calm"))
        if self._has_left_members:
            rules.append(("left-behind", "all have closed, and the group still has members"))
        return [Violation(rule=rule, at_ms=self.now_ms(), what=what) for rule, what in rules]

    # --- faults ---------------------------------------------------------------------------------------------

    async def _strike(self, strike: Strike) -> None:
        await self._sleep_until(strike.begins_ms)
        injected = ALL_FAULTS[strike.fault](self)
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
        if isinstance(event, Assigned):
            self._write_stored(event.partitions)
        self.ledger.write(event)
        self.backlog.apply(event)
        if self._closes_when_drained and self.backlog.is_empty:
            self._closes_when_drained = False
            self._close_all()

    def start_soon(self, task: Callable[[], Awaitable[None]]) -> None:
        self._nursery.start_soon(task)

    def members(self) -> list[SimulatedMember]:
        return [member for member in self._members if member.is_alive]

    def grow_topic(self, name: str) -> int:
        """Give it a partition more; how many it has then."""
        count = len(self.cluster.topics[name].partitions) + 1
        self.cluster.grow_topic(name, count)
        self._commit_beginnings()
        return count

    def start_member(self) -> SimulatedMember:
        self._started += 1
        process = Process(f"member{self._started}", self._on_death)
        process.transport = ClientTransport(self.network, process.name, process.while_frozen)
        process.settings = self._security_settings(process.name)
        self._processes.add(process)
        rng = random.Random(f"{process.name} {self.scenario.seed}")
        member = self._new_member(process, rng)
        self._members.append(member)
        self._nursery.start_soon(partial(process.run, member.live))
        return member

    def _security_settings(self, client: str) -> Mapping[str, object]:
        if self.scenario.logins is None:
            return {}
        settings = self.scenario.logins.settings()
        if not self._has_tls:
            return settings
        from kwire.testing.simulation.encryption import client_context

        def tell(data: bytes) -> None:
            self.network.note_plain(data)
            self._watch_joins(client, data)

        return {**settings, "ssl_context": client_context(self._hosts(), tell)}

    def _new_member(self, process: Process, rng: random.Random) -> SimulatedMember:
        member_class = SimulatedMember if self.scenario.async_habits is None else AsyncMember
        return member_class(self.scenario, process, self.write, self.bootstrap(), self.now_ms, rng)

    def kill_member(self, member: SimulatedMember) -> None:
        self.write(Killed(at_ms=self.now_ms(), member=member.name))
        member.process.kill()
        member.abandon()
        self.network.end(member.name)

    def freeze_member(self, member: SimulatedMember) -> None:
        self.write(Frozen(at_ms=self.now_ms(), member=member.name))
        member.process.freeze()

    def thaw_member(self, member: SimulatedMember) -> None:
        if member.process.is_frozen:
            self.write(Thawed(at_ms=self.now_ms(), member=member.name))
            member.process.thaw()

    def _on_death(self, process: Process, error: BaseException) -> None:
        self.write(Died(at_ms=self.now_ms(), member=process.name, error=repr(error)))

    # --- the brokers' addresses -----------------------------------------------------------------------------

    def bootstrap(self) -> str:
        return ",".join(f"{broker.host}:{broker.port}" for broker in self.cluster.brokers.values())


def _new_cluster(scenario: Scenario) -> ClusterState:
    rng = random.Random(f"cluster {scenario.seed}")
    settings = BrokerSettings(
        auto_create_topics_enable=False,
        group_consumer_session_timeout_ms=SESSION_TIMEOUT_MS,
        group_consumer_heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        load_ms=rng.choice((0, 0, 300, 3_000)),
        connections_max_reauth_ms=0 if scenario.logins is None else scenario.logins.session_ms,
    )
    epoch_ms = EPOCH_MS - BOOTED_SECONDS_AGO * 1000.0
    cluster = ClusterState(
        scenario.brokers,
        settings=settings,
        release=release_named(scenario.release),
        seed=rng.getrandbits(32),
        epoch_ms=epoch_ms,
        sasl=None if scenario.logins is None else new_sasl_server(scenario.seed),
    )
    for broker in cluster.brokers.values():
        broker.host, broker.port = f"broker{broker.node_id}", PORT
    return cluster
