"""ClusterState: the state that all brokers share, and the operations on it. One trio run owns it.

Plain shared objects stand for replication, the offsets topic and the transaction log: acknowledged records survive
the death of any broker. Handlers read the state; operations are for tests, the simulation, and the handlers of admin
requests. It knows neither sockets nor real time: `now_s` is trio's clock, which may be virtual.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

import trio

from kwire.errors import InvalidArgumentError
from kwire.protocol.error_codes import ErrorCode
from kwire.testing.cluster import elections
from kwire.testing.cluster.access import AccessRules
from kwire.testing.cluster.batches import build_batch
from kwire.testing.cluster.broker import Broker
from kwire.testing.cluster.broker_sessions import BrokerSessions
from kwire.testing.cluster.changes import Changes
from kwire.testing.cluster.config_checks import checked_configs, config_problem, group_config_problem
from kwire.testing.cluster.control import RequestControl
from kwire.testing.cluster.coordinators import Coordinators, KeyType
from kwire.testing.cluster.fetch_sessions import FetchSessionCache
from kwire.testing.cluster.groups.store import GroupStore
from kwire.testing.cluster.groups.surroundings import CoordinatorServices
from kwire.testing.cluster.releases import LATEST, Release
from kwire.testing.cluster.settings import BrokerSettings, TopicSettings
from kwire.testing.cluster.telemetry import MetricsSubscription
from kwire.testing.cluster.timers import Timers
from kwire.testing.cluster.topic_names import topic_problem
from kwire.testing.cluster.topics import Partition, Topic
from kwire.testing.cluster.transactions import TransactionCoordinator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kwire.model import TopicPartition
    from kwire.protocol.schema import Message, Request
    from kwire.testing.cluster.batches import NewRecord
    from kwire.testing.cluster.groups.offsets import CommittedOffset
    from kwire.testing.cluster.sasl.server import SaslServer

TOPICS_CHANGED = "topics"
"""The key that `changed` is notified of when topics are created, deleted or grow."""

EPOCH_MS = 1_767_225_600_000
"""The wall clock when trio's clock says 0, unless told otherwise: the simulation's New Year 2026."""


class ClusterState:
    """The state of a cluster.

    Args:
        brokers: The number of brokers; their ids begin at 0.
        settings: Broker settings.
        release: The Kafka release to emulate.
        racks: The racks of the brokers, in order; fewer than brokers are used again and again.
        seed: The seed of the random generator, mostly for ids.
        now_s: The clock.
        epoch_ms: The wall clock when `now_s` says 0.
        sasl: The SASL server; by default clients do not authenticate.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        settings: BrokerSettings | None = None,
        release: Release = LATEST,
        racks: Sequence[str] = (),
        seed: int = 0,
        now_s: Callable[[], float] = trio.current_time,
        epoch_ms: float = EPOCH_MS,
        sasl: SaslServer | None = None,
    ) -> None:
        if brokers < 1:
            raise InvalidArgumentError(f"a cluster has at least one broker, not {brokers}")
        self.settings = settings or BrokerSettings()
        self.release = release
        self.sasl = sasl
        self.access = AccessRules(allowed_otherwise=self.settings.allow_everyone_if_no_acl_found)
        self.random = Random(seed)
        self.cluster_id = f"kwire{self.random.getrandbits(64):016x}"
        self._now_s = now_s
        self._epoch_ms = epoch_ms
        self.changed = Changes()
        self.control = RequestControl()
        self.metrics_subscription: MetricsSubscription | None = None
        self.brokers = {
            node_id: Broker(node_id, self._new_sessions(), rack=racks[node_id % len(racks)] if racks else None)
            for node_id in range(brokers)
        }
        self.topics: dict[str, Topic] = {}
        self.failures: list[Exception] = []
        """Exceptions of functions of rules, and bugs of handlers; `Cluster` raises the first."""
        self.group_configs: dict[str, dict[str, str]] = {}
        self.coordinators = Coordinators(self.brokers, self.settings.load_ms)
        self.groups = GroupStore(
            CoordinatorServices(settings=self.settings, random=self.random, notify=self.changed.notify)
        )
        self.transactions = TransactionCoordinator(self)
        self._sessions = BrokerSessions(self.brokers, self.settings.broker_session_timeout_ms, self._fence)
        self.timers = Timers(self.now_ms)
        self.timers.add(self.groups.expire)
        self.timers.add(self.transactions.expire)
        self.timers.add(self._sessions.expire)

    def _new_sessions(self) -> FetchSessionCache:
        return FetchSessionCache(self.settings, self.random)

    async def run(self) -> None:
        """Expire sessions and transactions, until cancelled."""
        await self.timers.run()

    def start_wall_clock(self, wall_clock_ms: float) -> None:
        """Set the wall clock."""
        self._epoch_ms = wall_clock_ms - self.now_ms()

    # --- time and random numbers -----------------------------------------------------------------------------

    def now_ms(self) -> float:
        """The time for timeouts."""
        return self._now_s() * 1000

    def wall_clock_ms(self) -> int:
        """The time for timestamps."""
        return int(self._epoch_ms + self.now_ms())

    def new_uuid(self) -> UUID:
        """A random id, which depends on the seed."""
        return UUID(int=self.random.getrandbits(128), version=4)

    # --- looking ---------------------------------------------------------------------------------------------

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        """The topic with this id, if there is one."""
        return next((topic for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def partition(self, topic: str, index: int) -> Partition | None:
        """The partition, if there is one."""
        found = self.topics.get(topic)
        return found.partition(index) if found is not None else None

    def led_by(self, broker: Broker, topic: str, index: int, leader_epoch: int = -1) -> Partition | ErrorCode:
        """The partition, if this broker leads it in that epoch (-1: any); else the error that Kafka answers."""
        partition = self.partition(topic, index)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if leader_epoch >= 0 and leader_epoch != partition.leader_epoch:
            is_old = leader_epoch < partition.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
        return partition if partition.leader == broker.node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def running(self) -> list[Broker]:
        """The brokers that run and are not fenced, by id."""
        return [broker for broker in self.brokers.values() if broker.is_active]

    def group_error(self, group_id: str, broker: Broker) -> ErrorCode:
        """The error that `broker` answers to requests about this group: NOT_COORDINATOR, loading, or NONE."""
        return self.coordinators.error(KeyType.GROUP, group_id, broker, self.now_ms())

    def transaction_error(self, transactional_id: str, broker: Broker) -> ErrorCode:
        """As `group_error`, for a transactional id."""
        return self.coordinators.error(KeyType.TRANSACTION, transactional_id, broker, self.now_ms())

    def leader(self, topic: str, index: int) -> int:
        """The id of the broker that leads the partition; -1 if there is none. Raises: InvalidArgumentError."""
        return self._partition(topic, index).leader

    def end_offset(self, topic: str, index: int) -> int:
        """The offset that the next record will have. Raises: InvalidArgumentError."""
        return self._partition(topic, index).log.log_end_offset

    def coordinator(self, group_id: str) -> int:
        """The id of the group's coordinator; -1 if there is none."""
        found = self.coordinators.of(KeyType.GROUP, group_id, self.now_ms())
        return found.node_id if found is not None else -1

    # --- topics ----------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication: int | None = None,
        config: Mapping[str, str] | None = None,
        assignments: Sequence[Sequence[int]] | None = None,
    ) -> Topic:
        """Create a topic; `assignments` names the replicas of each partition, leader first.

        Raises:
            InvalidArgumentError: It exists already, Kafka would not make it, or there are fewer brokers than replicas.
        """
        problem = topic_problem(self.topics, name)
        if problem is not None:
            raise InvalidArgumentError(problem.message)
        given = checked_configs(config or {}, config_problem)
        count = self.settings.num_partitions if partitions is None else partitions
        for wanted, what in ((count, "partition"), (replication, "replica")):
            if wanted is not None and wanted < 1:
                raise InvalidArgumentError(f"topic {name!r} has at least one {what}, not {wanted}")
        topic = Topic(name, self.new_uuid(), given, TopicSettings.of(given, self.settings))
        self._add_partitions(topic, assignments or self.placements(0, count, replication))
        self.topics[name] = topic
        self.changed.notify(TOPICS_CHANGED)
        self.timers.look()
        return topic

    def grow_topic(self, name: str, partitions: int, assignments: Sequence[Sequence[int]] | None = None) -> None:
        """Give the topic more partitions, this many in all. Raises: InvalidArgumentError, if it has as many already."""
        topic = self._topic(name)
        old = len(topic.partitions)
        if partitions <= old:
            raise InvalidArgumentError(f"topic {name!r} has {old} partitions already")
        replication = len(topic.partitions[0].replicas)
        self._add_partitions(topic, assignments or self.placements(old, partitions - old, replication))
        self.changed.notify(TOPICS_CHANGED)
        self.timers.look()

    def delete_topic(self, name: str) -> None:
        """Remove a topic, its records and its committed offsets."""
        topic = self._topic(name)
        del self.topics[name]
        self.groups.topic_deleted(name, self.now_ms())
        for partition in topic.partitions:
            self.changed.notify(partition.key)
        self.changed.notify(TOPICS_CHANGED)
        self.timers.look()

    def _topic(self, name: str) -> Topic:
        if name not in self.topics:
            raise InvalidArgumentError(f"there is no topic {name!r}; there are {sorted(self.topics)}")
        return self.topics[name]

    def _add_partitions(self, topic: Topic, placements: Iterable[Sequence[int]]) -> None:
        for replicas in placements:
            partition = topic.add_partition(list(replicas))
            running = [node for node in partition.replicas if self.brokers[node].is_active]
            partition.isr = running or partition.replicas[:1]
            partition.leader = running[0] if running else -1

    def placements(self, first: int, count: int, replication: int | None) -> list[list[int]]:
        """Replicas in a ring over the brokers, as Kafka spreads them over one rack."""
        ids = list(self.brokers)
        replication = self.settings.default_replication_factor if replication is None else replication
        if replication > len(ids):
            raise InvalidArgumentError(f"{replication} replicas need as many brokers, but there are {len(ids)}")
        return [[ids[(i + j) % len(ids)] for j in range(replication)] for i in range(first, first + count)]

    # --- brokers, leaders, coordinators ----------------------------------------------------------------------

    def kill_broker(self, node_id: int) -> None:
        """The process dies: connections break, its partitions get other leaders, its groups other coordinators.

        Does nothing to a broker that is dead already.
        """
        broker = self._broker(node_id)
        if not broker.is_up:
            return
        before = self._group_coordinators()
        self._sessions.over(broker, self.now_ms())
        broker.is_up = broker.is_paused = broker.is_fenced = False
        broker.cut_connections()
        self._broker_changed(broker, elections.broker_died, before)

    def start_broker(self, node_id: int) -> None:
        """The process comes back, without fetch sessions, in sync at once; leaders stay where they are.

        Does nothing to a broker that runs.
        """
        broker = self._broker(node_id)
        if broker.is_up:
            return
        before = self._group_coordinators()
        broker.is_up = True
        broker.fetch_sessions = self._new_sessions()
        self._broker_changed(broker, elections.broker_returned, before)

    def cut_connections(self, node_id: int | None = None) -> int:
        """Close the connections of one broker, or of all. Returns how many there were."""
        brokers = self.brokers.values() if node_id is None else (self._broker(node_id),)
        return sum(broker.cut_connections() for broker in brokers)

    def pause_broker(self, node_id: int) -> None:
        """The process stands still, as after SIGSTOP: connections stay open, requests are not read.

        After `broker.session.timeout.ms` the others fence it: its leaders and groups move, as if it had died.
        """
        broker = self._broker(node_id)
        broker.is_paused = True
        self._sessions.paused(broker, self.now_ms())
        self.timers.look()

    def resume_broker(self, node_id: int) -> None:
        """The process goes on where it was paused."""
        broker = self._broker(node_id)
        self._sessions.over(broker, self.now_ms())
        broker.is_paused = False
        if broker.is_fenced:
            before = self._group_coordinators()
            broker.is_fenced = False
            self._broker_changed(broker, elections.broker_returned, before)
        self.changed.notify(broker.key)
        self.timers.look()

    def _fence(self, broker: Broker) -> None:
        before = self._group_coordinators()
        broker.is_fenced = True
        self._broker_changed(broker, elections.broker_died, before)

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Make this broker the leader of the partition. Raises: InvalidArgumentError."""
        found = self._partition(topic, partition)
        elections.move(found, node_id, self.brokers)
        self.changed.notify(found.key)

    def elect_uncleanly(self, topic: str, partition: int, lose: int) -> None:
        """Elect a leader that lacks the last `lose` records. Raises: InvalidArgumentError."""
        found = self._partition(topic, partition)
        elections.elect_uncleanly(found, self.brokers, lose)
        self.changed.notify(found.key)

    def move_coordinator(self, group_id: str, node_id: int | None = None) -> None:
        """Make another broker the group's coordinator: this one, or by default the next one that runs."""
        if node_id is not None:
            self._broker(node_id)
        before = self._group_coordinators()
        self.coordinators.move(KeyType.GROUP, group_id, node_id, self.now_ms())
        self._tell_moved_groups(before)

    def _group_coordinators(self) -> dict[str, Broker | None]:
        now_ms = self.now_ms()
        names = [group.group_id for group in self.groups.all()]
        return {name: self.coordinators.of(KeyType.GROUP, name, now_ms) for name in names}

    def _tell_moved_groups(self, before: Mapping[str, Broker | None]) -> None:
        """Tell groups that have moved: waiting members and session timers, which only the old coordinator had, are
        lost."""
        for name, broker in self._group_coordinators().items():
            if broker is not before[name]:
                self.groups.coordinator_moved(name, self.now_ms())
        self.timers.look()

    def _broker(self, node_id: int) -> Broker:
        if node_id not in self.brokers:
            raise InvalidArgumentError(f"there is no broker {node_id}; there are {list(self.brokers)}")
        return self.brokers[node_id]

    def _broker_changed(
        self,
        broker: Broker,
        elect: Callable[[Partition, int, Mapping[int, Broker]], bool],
        coordinators_before: Mapping[str, Broker | None],
    ) -> None:
        for partition in self._partitions():
            if elect(partition, broker.node_id, self.brokers):
                self.changed.notify(partition.key)
        self.coordinators.pass_on(self.now_ms())
        self._tell_moved_groups(coordinators_before)
        self.changed.notify(broker.key)

    def _partitions(self) -> list[Partition]:
        return [partition for topic in self.topics.values() for partition in topic.partitions]

    def _partition(self, topic: str, index: int) -> Partition:
        found = self._topic(topic).partition(index)
        if found is None:
            raise InvalidArgumentError(f"topic {topic!r} has no partition {index}")
        return found

    # --- records and offsets ---------------------------------------------------------------------------------

    def produce(self, topic: str, partition: int, records: Iterable[NewRecord | bytes], codec: int = 0) -> int:
        """Write records straight into the log, as one batch. Returns the offset of the first."""
        found = self._partition(topic, partition)
        batch = build_batch(records, timestamp_ms=self.wall_clock_ms(), codec=codec)
        result = found.log.append(batch, found.leader_epoch, self.wall_clock_ms())
        self.changed.notify(found.key)
        return result.base_offset

    def delete_records(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records before `offset`."""
        found = self._partition(topic, partition)
        found.log.delete_records_before(offset)
        self.changed.notify(found.key)

    def retain(self, topic: str, partition: int) -> int:
        """Apply retention.ms and retention.bytes. Returns where the log begins now."""
        found = self._partition(topic, partition)
        start = found.log.retain(self.wall_clock_ms())
        self.changed.notify(found.key)
        return start

    def compact(self, topic: str, partition: int) -> None:
        """Compact the log: only the last record of each key stays."""
        self._partition(topic, partition).log.compact(self.wall_clock_ms())

    def committed(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """The group's committed offsets."""
        return self.groups.committed(group_id)

    def configure_group(self, group_id: str, config: Mapping[str, str]) -> None:
        """Set settings of the group; its other settings keep their values. Raises: InvalidArgumentError."""
        self.group_configs.setdefault(group_id, {}).update(checked_configs(config, group_config_problem))

    def throttle(self, request: type[Request[Message]], throttle_ms: int) -> None:
        """Answer requests of this type with this throttle time, and do not read the connection for as long; 0 ends
        it."""
        self.control.throttle(request, throttle_ms)
