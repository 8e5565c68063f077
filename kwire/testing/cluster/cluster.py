"""Cluster: Kafka for a test, over TCP, with a thread and a trio run of its own.

Everything here may be called from any thread, from tasks of any event loop, and from functions of rules; it runs on
the cluster's thread, between two requests. `state` holds what the cluster is and does; the simulation uses `state`
directly, in its own run and on its own clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from kwire.config.endpoints import Endpoint
from kwire.errors import IllegalStateError, InvalidArgumentError
from kwire.testing.cluster.access import EVERYBODY, AccessRule, Resource, operation_named
from kwire.testing.cluster.batches import NewRecord, one_record
from kwire.testing.cluster.handlers import handlers
from kwire.testing.cluster.releases import LATEST, release_named
from kwire.testing.cluster.sasl.scram import MIN_ITERATIONS
from kwire.testing.cluster.security import Security, SecurityOptions
from kwire.testing.cluster.server import bind, run_broker, until_settled
from kwire.testing.cluster.settings import BrokerSettings
from kwire.testing.cluster.state import ClusterState
from kwire.testing.cluster.telemetry import (
    DEFAULT_CODECS,
    DEFAULT_INTERVAL_MS,
    DEFAULT_MAX_BYTES,
    MetricsSubscription,
    PushedMetrics,
)

if TYPE_CHECKING:
    import socket
    import ssl
    from types import TracebackType

    from kwire.model import TopicPartition
    from kwire.protocol.schema import Message, Request
    from kwire.testing.certificates import CertificateAuthority
    from kwire.testing.cluster.control import RequestControl
    from kwire.testing.cluster.groups.offsets import CommittedOffset
    from kwire.testing.cluster.sasl.server import SaslServer

T = TypeVar("T")

LOCALHOST = "127.0.0.1"
LAST_PORT = 65_535
LOCAL_NAMES = ("localhost", LOCALHOST, "::1")


class Cluster:
    """A Kafka cluster in this process. Use as a context manager, or call `start` and `stop`.

    Args:
        brokers: The number of brokers; their ids begin at 0.
        topics: Topics that exist from the beginning, and their numbers of partitions.
        settings: Broker settings under Kafka's names, such as {"auto.create.topics.enable": False}; see `settings`.
        release: The Kafka release whose versions it speaks, such as "3.9"; see `releases`.
        racks: The brokers' racks, in order; if there are fewer racks than brokers, they are used again.
        seed: The seed of the random generator: the same seed gives the same ids.
        host: The address to listen at.
        port: The first broker's port; the other brokers have the ports after it. 0 for any free ports.
        advertised: The host and port that each broker advertises instead of its own, such as those of a proxy.
        tls: The brokers' TLS context, or True for one with certificates made on the fly (kwire[testing]).
        tls_client_auth: Whether clients have to show a certificate of the same authority: none, requested or required.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; by default the one that the other arguments
            imply.
        users: Names and passwords, for SASL.
        sasl_mechanisms: The mechanisms that are offered; by default PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and
            OAUTHBEARER.
        validate_token: Returns the user of an OAUTHBEARER token, or raises. Without it the cluster takes unsecured
            tokens, which anybody can make.
        scram_iterations: The number of SCRAM's hash iterations: with more of them, trying passwords takes longer.

    Raises:
        InvalidArgumentError: An argument has no valid value, or two contradict each other.
        ImportError: Certificates are to be made, and trustme is not installed.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, object] | None = None,
        release: str = LATEST.name,
        racks: Sequence[str] = (),
        seed: int = 0,
        host: str = LOCALHOST,
        port: int = 0,
        advertised: Sequence[tuple[str, int]] = (),
        tls: ssl.SSLContext | bool | None = None,
        tls_client_auth: str = "none",
        security_protocol: str | None = None,
        users: Mapping[str, str] | None = None,
        sasl_mechanisms: Sequence[str] = (),
        validate_token: Callable[[str], str] | None = None,
        scram_iterations: int = MIN_ITERATIONS,
    ) -> None:
        _check(brokers, topics, port)
        if port + brokers - 1 > LAST_PORT:
            raise InvalidArgumentError(f"{brokers} brokers need ports up to {port + brokers - 1}, above {LAST_PORT}")
        if advertised and len(advertised) != brokers:
            raise InvalidArgumentError(f"each broker is advertised: {brokers} addresses, not {len(advertised)}")
        self._security = Security(
            SecurityOptions(
                security_protocol=security_protocol,
                users=dict(users or {}),
                sasl_mechanisms=sasl_mechanisms,
                validate_token=validate_token,
                scram_iterations=scram_iterations,
                tls=tls,
                tls_client_auth=tls_client_auth,
            ),
            hosts=tuple(dict.fromkeys((*LOCAL_NAMES, host, *(name for name, _port in advertised)))),
            seed=seed,
        )
        self._state = ClusterState(
            brokers,
            settings=BrokerSettings.of(settings or {}),
            release=release_named(release),
            racks=racks,
            seed=seed,
            sasl=self._security.sasl,
        )
        self._topics = dict(topics or {})
        self._host = host
        self._port = port
        self._advertised = tuple(advertised)
        self._direct: tuple[tuple[str, int], ...] = ()
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        where = self.bootstrap_servers if self._thread is not None else "not started"
        return f"<Cluster: {len(self._state.brokers)} broker(s), {where}>"

    # --- life ------------------------------------------------------------------------------------------------

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.stop()
        if kind is None and self._state.failures:
            raise self._state.failures[0]
        if kind is None and self._error is not None:
            raise IllegalStateError("the cluster has failed") from self._error

    def start(self) -> None:
        """Listen; when this returns, clients can connect.

        Raises:
            IllegalStateError: The cluster was started before.
            OSError: A port is taken.
        """
        if self._thread is not None:
            raise IllegalStateError("a cluster can be started once")
        ports = self._bind()
        ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run_thread, args=(ports, ready), name="kwire-testing-cluster", daemon=True
        )
        self._thread.start()
        ready.wait()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Close everything. Does nothing to a cluster that does not run."""
        token, self._token = self._token, None
        if token is not None and self._thread is not None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(self._scope.cancel)
            self._thread.join()
        self._security.close()

    def _bind(self) -> list[socket.socket]:
        ports: list[socket.socket] = []
        try:
            for index, broker in enumerate(self._state.brokers.values()):
                ports.append(bind(self._host, self._port + index if self._port else 0))
                own = (self._host, ports[-1].getsockname()[1])
                self._direct = (*self._direct, own)
                broker.host, broker.port = self._advertised[index] if self._advertised else own
        except OSError:
            for bound in ports:
                bound.close()
            raise
        return ports

    def _run_thread(self, ports: list[socket.socket], ready: threading.Event) -> None:
        try:
            trio.run(self._run, ports, ready)
        except BaseException as error:  # noqa: BLE001  kept for the caller's thread, which would otherwise never know
            self._error = error
        finally:
            for bound in ports:  # sockets that no broker has taken over yet
                bound.close()
            ready.set()

    async def _run(self, ports: list[socket.socket], ready: threading.Event) -> None:
        self._state.start_wall_clock(time.time() * 1000)
        for name, partitions in self._topics.items():
            self._state.create_topic(name, partitions, self._usual_replicas)
        handlers()  # loads them now, not with the first request
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._state.run)
                for broker, bound in zip(self._state.brokers.values(), ports, strict=True):
                    nursery.start_soon(run_broker, broker, self._state, bound, self._security.tls)
                for broker in self._state.brokers.values():
                    await until_settled(broker, self._state)
                self._token = trio.lowlevel.current_trio_token()
                ready.set()

    def _do(self, function: Callable[[], T]) -> T:
        """Call the function on the cluster's thread. Not by `trio.from_thread`: that refuses callers that are tasks of
        trio themselves, such as an application's test."""
        if threading.current_thread() is self._thread:  # the caller is a rule's function
            return function()
        if self._error is not None:
            raise IllegalStateError("the cluster has failed") from self._error
        if self._token is None:
            raise IllegalStateError("the cluster does not run")
        answer: Future[T] = Future()
        try:
            self._token.run_sync_soon(partial(_answer, function, answer))
        except trio.RunFinishedError:
            raise IllegalStateError("the cluster does not run any more") from self._error
        return answer.result()

    def _settle(self, node_id: int) -> None:
        """Wait until the broker listens, or does not any more. In a rule's function that happens soon after."""
        if threading.current_thread() is self._thread:
            return
        settled = threading.Event()

        async def wait() -> None:
            try:
                await until_settled(self._state.brokers[node_id], self._state)
            finally:
                settled.set()

        self._do(lambda: trio.lowlevel.spawn_system_task(wait))
        settled.wait()

    # --- addresses and requests ------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The advertised addresses of all brokers, as "host:port,host:port".

        Raises:
            IllegalStateError: The cluster has not been started, so that it has no ports yet.
        """
        if self._thread is None:
            raise IllegalStateError("the cluster has no ports yet: use it in `with`, or call start()")
        return ",".join(str(Endpoint(broker.host, broker.port)) for broker in self._state.brokers.values())

    @property
    def cluster_id(self) -> str:
        """The id of the cluster, as metadata has it."""
        return self._state.cluster_id

    @property
    def client_addresses(self) -> Sequence[tuple[str, int]]:
        """The address that each broker listens at, whatever it advertises: where a proxy connects to."""
        return self._direct

    @property
    def control(self) -> RequestControl:
        """Rules about requests: `cluster.control.on(FetchRequest, times=3).drop()`."""
        return self._state.control

    @property
    def failures(self) -> Sequence[Exception]:
        """What functions of rules have raised, and bugs of the cluster itself; leaving the `with` block raises the
        first."""
        return tuple(self._state.failures)

    def throttle(self, request: type[Request[Message]], throttle_ms: int) -> None:
        """Answer requests of this type with this throttle time; 0 ends it."""
        self._do(lambda: self._state.throttle(request, throttle_ms))

    def cut_connections(self, broker: int | None = None) -> int:
        """Close the connections of one broker, or of all. Returns how many there were."""
        return self._do(lambda: self._state.cut_connections(broker))

    # --- security --------------------------------------------------------------------------------------------

    @property
    def certificates(self) -> CertificateAuthority:
        """The authority of the brokers' certificates, which issues clients' too; `certificates.path` is a PEM file of
        it.

        Raises:
            IllegalStateError: The cluster has none, or was given an SSLContext.
        """
        return self._security.certificates

    def client_config(self, user: str | None = None, *, mechanism: str | None = None) -> dict[str, str]:
        """The settings of a client of this cluster, under Kafka's names; with SASL, those of this user or of the first.

        Args:
            user: One of `users`.
            mechanism: One of the mechanisms that are offered; by default the first. With OAUTHBEARER the client brings
                the token.

        Raises:
            InvalidArgumentError: There is no such user or mechanism.
        """
        return {"bootstrap.servers": self.bootstrap_servers, **self._security.client_config(user, mechanism)}

    def set_password(self, user: str, password: str) -> None:
        """Add a user, or change a password; connections that are authenticated stay so."""
        self._do(lambda: self._sasl().set_password(user, password))

    def remove_user(self, user: str) -> None:
        """Remove a user; connections that are authenticated stay so."""
        self._do(lambda: self._sasl().remove_user(user))

    def _sasl(self) -> SaslServer:
        if self._state.sasl is None:
            raise IllegalStateError("the cluster has no users; it has with users={...}")
        return self._state.sasl

    def deny(
        self,
        *,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        operation: str = "ALL",
        principal: str = EVERYBODY,
    ) -> None:
        """Take a permission away: from the next request on, brokers answer TOPIC_AUTHORIZATION_FAILED and its like.

        The newest rule of `allow` and `deny` that matches an operation decides; what no rule matches is allowed, unless
        the setting `allow.everyone.if.no.acl.found` is False.

        Args:
            topic: A name, a prefix such as "orders-*", or "*".
            group: The same for groups.
            transactional_id: The same for transactional ids.
            operation: Kafka's: ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS.
            principal: Whose permission, such as "User:alice".

        Raises:
            InvalidArgumentError: No resource is named, or there is no such operation.
        """
        self._add_rules(False, (topic, group, transactional_id), operation, principal)

    def allow(
        self,
        *,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        operation: str = "ALL",
        principal: str = EVERYBODY,
    ) -> None:
        """Give a permission, or give it back; arguments as in `deny`. READ and WRITE include DESCRIBE."""
        self._add_rules(True, (topic, group, transactional_id), operation, principal)

    def _add_rules(self, is_allowed: bool, names: tuple[str | None, ...], operation: str, principal: str) -> None:
        kinds = (Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID)
        rules = [
            AccessRule(
                is_allowed=is_allowed,
                resource=kind,
                name=name,
                operation=operation_named(operation),
                principal=principal,
            )
            for kind, name in zip(kinds, names, strict=True)
            if name is not None
        ]
        if not rules:
            raise InvalidArgumentError("name a topic, a group or a transactional_id")
        for rule in rules:
            self._do(partial(self._state.access.add, rule))

    # --- topics and records ----------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, replication: int | None = None, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic. Without `replication` it has one replica for each broker, but no more than three.

        Raises:
            InvalidArgumentError: The topic exists, Kafka would refuse it, or there are fewer brokers than replicas.
        """
        replicas = self._usual_replicas if replication is None else replication
        self._do(lambda: self._state.create_topic(name, partitions, replicas, config))

    @property
    def _usual_replicas(self) -> int:
        return min(3, len(self._state.brokers))

    def delete_topic(self, name: str) -> None:
        """Remove a topic, its records and its committed offsets."""
        self._do(lambda: self._state.delete_topic(name))

    def grow_topic(self, name: str, partitions: int) -> None:
        """Give the topic more partitions, this many in all."""
        self._do(lambda: self._state.grow_topic(name, partitions))

    def produce(
        self,
        topic: str,
        *records: NewRecord | bytes,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = 0,
    ) -> int:
        """Write records, or values, straight into the log, as one batch. Returns the offset of the first.

        As producers have it, one record may be given as `value=` and `key=`.

        Raises:
            InvalidArgumentError: There is no such partition, no records, or something that is no record; or a key is
                given with several.
            RecordsRefusedError: Kafka would not append them, such as records without a key to a compacted topic.
        """
        rows = records if value is None and key is None else (one_record(records, value, key),)
        return self._do(lambda: self._state.produce(topic, partition, rows))

    def delete_records(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records before `offset`."""
        self._do(lambda: self._state.delete_records(topic, partition, offset))

    def retain(self, topic: str, partition: int = 0) -> int:
        """Apply retention.ms and retention.bytes, as Kafka does every now and then. It deletes batches, where Kafka
        deletes segments.

        Returns:
            The offset at which the log begins now. With cleanup.policy=compact nothing is deleted.
        """
        return self._do(lambda: self._state.retain(topic, partition))

    def compact(self, topic: str, partition: int = 0) -> None:
        """Compact the log: only the last record of each key stays."""
        self._do(lambda: self._state.compact(topic, partition))

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """The offset that the next record will have."""
        return self._do(lambda: self._state.end_offset(topic, partition))

    # --- brokers, leaders, coordinators ----------------------------------------------------------------------

    def kill_broker(self, broker: int) -> None:
        """Kill a broker: its connections break, its port refuses new ones, and its partitions and groups move."""
        self._do(lambda: self._state.kill_broker(broker))
        self._settle(broker)

    def start_broker(self, broker: int) -> None:
        """Start a broker that was killed, at the address that it had."""
        self._do(lambda: self._state.start_broker(broker))
        self._settle(broker)

    def pause_broker(self, broker: int) -> None:
        """Pause a broker, as SIGSTOP does: its connections stay open, and it answers nothing.

        After `broker.session.timeout.ms`, 9 s, its partitions and groups move, if another broker runs.
        """
        self._do(lambda: self._state.pause_broker(broker))

    def resume_broker(self, broker: int) -> None:
        """Resume a broker that was paused."""
        self._do(lambda: self._state.resume_broker(broker))

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of the broker that leads the partition; -1 if there is none."""
        return self._do(lambda: self._state.leader(topic, partition))

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Make this broker the leader of the partition."""
        self._do(lambda: self._state.move_leader(topic, partition, broker))

    def elect_uncleanly(self, topic: str, partition: int, lose: int) -> None:
        """Elect a leader that lacks the last `lose` records. Whole batches are lost, so also the records before these
        in the batch that they begin in. Each `produce` writes one batch.

        Raises:
            InvalidArgumentError: No replica runs, or `lose` is below 0.
        """
        self._do(lambda: self._state.elect_uncleanly(topic, partition, lose))

    # --- clients' metrics (KIP-714) --------------------------------------------------------------------------

    def want_metrics(
        self,
        *prefixes: str,
        interval_ms: int = DEFAULT_INTERVAL_MS,
        codecs: Sequence[int] = DEFAULT_CODECS,
        as_deltas: bool = False,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> list[PushedMetrics]:
        """Have clients that connect from now on push their metrics. Without prefixes, brokers offer it and ask for
        none.

        Args:
            prefixes: The prefixes of the metrics that are wanted; "*" alone stands for all.
            codecs: The ids of the compressions that are accepted, the preferred one first.
            as_deltas: Whether totals are reported as deltas: what was added since the last push.

        Returns:
            A list of what clients push, which grows until this is called again.
        """
        wanted = MetricsSubscription(prefixes, interval_ms, codecs, as_deltas, max_bytes)

        def change() -> None:
            self._state.metrics_subscription = wanted

        self._do(change)
        return wanted.pushed

    # --- groups ----------------------------------------------------------------------------------------------

    def committed(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """The group's committed offsets."""
        return self._do(lambda: self._state.committed(group_id))

    def coordinator(self, group_id: str) -> int:
        """The id of the group's coordinator; -1 if there is none."""
        return self._do(lambda: self._state.coordinator(group_id))

    def move_coordinator(self, group_id: str, broker: int | None = None) -> None:
        """Make another broker the group's coordinator: this one, or by default the next one that runs."""
        self._do(lambda: self._state.move_coordinator(group_id, broker))

    def configure_group(self, group_id: str, config: Mapping[str, str]) -> None:
        """Set settings of a group, as `kafka-configs --group` does, such as {"consumer.session.timeout.ms": "6000"}.

        The bounds of brokers (group.consumer.min.session.timeout.ms and its like) do not apply, so that tests need not
        wait.

        Raises:
            InvalidArgumentError: There is no such setting, or it does not take that value.
        """
        self._do(lambda: self._state.configure_group(group_id, config))


def _check(brokers: object, topics: object, port: object) -> None:
    """Raises: InvalidArgumentError; not all tests are type-checked."""
    if not isinstance(brokers, int) or brokers < 1:
        raise InvalidArgumentError(f"brokers is how many, at least 1; not {brokers!r}")
    if not isinstance(topics, Mapping | None):
        raise InvalidArgumentError(f'topics are names and numbers of partitions, {{"orders": 3}}; not {topics!r}')
    if not (isinstance(port, int) and 0 <= port <= LAST_PORT):
        raise InvalidArgumentError(f"port is from 1 to {LAST_PORT}, or 0 for any that is free; not {port!r}")


def _answer(function: Callable[[], T], answer: Future[T]) -> None:
    """Call the function, and give its result to the thread that waits."""
    try:
        answer.set_result(function())
    except BaseException as error:  # noqa: BLE001  it is the caller's
        answer.set_exception(error)
