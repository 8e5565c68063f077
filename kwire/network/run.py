"""What the network thread runs: one trio run of one loop, put together here.

Loaded by the network thread itself, as the first thing it does: trio, the managers and the protocol are its world
alone, so `import kwire` does without them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from kwire.assignors.base import Assignor
from kwire.clock import Backoff, monotonic_ms, wall_clock_ms
from kwire.config import ClientDnsLookup, ConsumerConfig, Endpoint
from kwire.events import AssignmentView
from kwire.fetching.buffer import FetchBuffer
from kwire.logs import part_logger
from kwire.mailbox import Mailbox
from kwire.managers.lag_policy import LagPolicy, MakeLagPolicy
from kwire.managers.registry import Environment, RequestManagers
from kwire.managers.telemetry import TelemetrySource
from kwire.metrics import MetricName
from kwire.metrics.consumer import Gauges
from kwire.network.addresses import canonical_servers
from kwire.network.client import NetworkClient
from kwire.network.loop import NetworkLoop, Waker
from kwire.network.security import Security
from kwire.network.short_turns import ShortTurns
from kwire.network.tcp import TcpTransport
from kwire.network.transport import Transport
from kwire.subscription.subscription import Subscription

if TYPE_CHECKING:
    from kwire.description.consumer_description import ConsumerDescription

log = part_logger("network")

# The time for all look-ups together. The constructor of a consumer waits for them, and must get its answer before
# `thread.START_TIMEOUT_S`: a thread that has not started by then is reported as one that is not let run.
CANONICAL_NAMES_S = 30.0


def run_until_closed(
    config: ConsumerConfig,
    assignors: Sequence[Assignor],
    mailbox: Mailbox,
    buffer: FetchBuffer,
    *,
    security: Security,
    client_id: str,
    on_started: Callable[[], None],
) -> None:
    """Run until the mailbox brings `Close`. `on_started` is called when events are taken, and everything is loaded."""

    async def run() -> None:
        waker = Waker()
        transport = TcpTransport(config.receive_buffer_bytes, config.send_buffer_bytes)
        resolved = await _with_canonical_servers(config)
        loop = make_loop(
            resolved, assignors, mailbox, buffer, waker, client_id=client_id, transport=transport, security=security
        )
        mailbox.attach(_from_outside(trio.lowlevel.current_trio_token(), loop.turn_now))
        on_started()
        await loop.run()

    trio.run(run)


async def _with_canonical_servers(config: ConsumerConfig) -> ConsumerConfig:
    """The config with canonical names, if it wants them. If they cannot be resolved now, it stays as it is."""
    if config.client_dns_lookup is ClientDnsLookup.USE_ALL_DNS_IPS:
        return config
    servers: Sequence[Endpoint] = ()
    reason: object = f"the look-ups take longer than {CANONICAL_NAMES_S:.0f} s"
    with trio.move_on_after(CANONICAL_NAMES_S):
        try:
            servers = await canonical_servers(config.bootstrap_servers)
        except OSError as error:
            reason = error
    if not servers:
        log.warning("bootstrap_servers cannot be resolved to canonical names, and are used as they are: %s", reason)
        return config
    log.info("bootstrap_servers are %s by their canonical names", ", ".join(map(str, servers)))
    return replace(config, bootstrap_servers=tuple(servers))


def make_loop(
    config: ConsumerConfig,
    assignors: Sequence[Assignor],
    mailbox: Mailbox,
    buffer: FetchBuffer,
    waker: Waker,
    *,
    client_id: str,
    transport: Transport,
    security: Security | None = None,
) -> NetworkLoop:
    """The loop with its managers and its client. Has to be called inside the trio run."""

    def publish(view: AssignmentView) -> None:
        before, mailbox.view = mailbox.view, view
        if config.enable_async_revocation and before.is_member and not view.is_member:
            mailbox.notify()  # a poll that waits, with revokes delayed: they are lost now, and no callback says so

    subscription = Subscription(publish, buffer.drop)
    short_turns = ShortTurns(mailbox.notify)
    tell_operator = None if mailbox.operator is None else mailbox.operator.tell
    environment = Environment(
        deliver=mailbox.deliver,
        on_data=short_turns.note_records,
        polled_at_ms=lambda: mailbox.polled_at_ms,
        wall_clock_ms=wall_clock_ms,
        metrics=mailbox.metrics,
        telemetry=_telemetry_source(config, mailbox, subscription, client_id),
        tell_operator=tell_operator,
    )
    managers = RequestManagers(config, assignors, subscription, buffer, environment, lag_policy_of(config))
    client = NetworkClient(
        config,
        transport,
        lambda: managers.metadata.cluster.nodes,
        waker.wake,
        security=security or Security(config),
        cluster_id=lambda: managers.metadata.cluster.cluster_id,
        client_id=client_id,
        metrics=mailbox.metrics,
        reconnect_backoff=Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms),
        setup_backoff=Backoff(config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms),
        login_backoff=Backoff(config.sasl_login_retry_backoff_ms, config.sasl_login_retry_backoff_max_ms),
        tell_operator=tell_operator,
    )
    managers.metadata.on_rebootstrap.append(client.close_connections)
    client.on_rebootstrap_required = managers.metadata.rebootstrap_required
    read_committed = config.reads_committed

    def describe(now_ms: float) -> ConsumerDescription:
        from kwire.network.describing import NetworkDescriber  # few ever ask

        return NetworkDescriber(config, managers, client, mailbox.metrics).describe(now_ms)

    loop = NetworkLoop(
        mailbox,
        managers,
        client,
        short_turns,
        waker,
        monotonic_ms,
        read_committed=read_committed,
        describe=describe,
    )
    client.on_answers = loop.turn_now
    return loop


def _telemetry_source(
    config: ConsumerConfig, mailbox: Mailbox, subscription: Subscription, client_id: str
) -> TelemetrySource:
    """What brokers are told, with the labels that Java's consumer has."""

    def numbers(now_ms: float) -> dict[MetricName, float]:
        gauges = Gauges(tuple(subscription.partitions), *mailbox.queue_sizes)
        return mailbox.metrics.snapshot(client_id, gauges, now_ms)

    def labels() -> dict[str, str]:
        found = {
            "group_id": config.group_id,
            "group_instance_id": config.group_instance_id,
            "group_member_id": None if subscription.group is None else subscription.group.member_id,
            "client_rack": config.client_rack,
        }
        return {word: text for word, text in found.items() if text}

    return TelemetrySource(numbers, labels, wall_clock_ms, mailbox.metrics.started_ms)


def lag_policy_of(config: ConsumerConfig) -> MakeLagPolicy:
    """What the config wants to be done about lags. Consumers that do without parallel rebalance do not load it: they
    would start later."""
    if not config.enable_parallel_rebalance or config.group_id is None:
        return LagPolicy
    from kwire.parallel_rebalance.commits import parallel_rebalance

    return parallel_rebalance


def _from_outside(token: trio.lowlevel.TrioToken, wake: Callable[[], None]) -> Callable[[], None]:
    def wake_from_outside() -> None:
        # The run may have ended between the look at the mailbox and this call: then there is nobody left to wake.
        with contextlib.suppress(trio.RunFinishedError):
            token.run_sync_soon(wake, idempotent=True)

    return wake_from_outside
