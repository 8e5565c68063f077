"""Starts and ends the network thread. Its top is the one place that catches everything: a dead thread must be heard
of."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence

import trio

from kwire.assignors.base import Assignor
from kwire.clock import Backoff, Deadline, monotonic_ms, wall_clock_ms
from kwire.config import ConsumerConfig
from kwire.errors import InternalError
from kwire.events import AssignmentView
from kwire.fetching.buffer import FetchBuffer
from kwire.mailbox import Mailbox
from kwire.managers.registry import Environment, RequestManagers
from kwire.network.client import NetworkClient
from kwire.network.loop import NetworkLoop, Waker
from kwire.network.tcp import TcpTransport
from kwire.network.transport import Transport
from kwire.subscription.subscription import Subscription

log = logging.getLogger(__name__)


class NetworkThread:
    """One daemon thread with one trio run. It ends when the loop is told to close, or when it dies of a bug."""

    def __init__(
        self,
        config: ConsumerConfig,
        assignors: Sequence[Assignor],
        mailbox: Mailbox,
        buffer: FetchBuffer,
        *,
        client_id: str,
        transport: Transport | None = None,
    ) -> None:
        self._config = config
        self._assignors = assignors
        self._mailbox = mailbox
        self._buffer = buffer
        self._client_id = client_id
        self._transport = transport or TcpTransport(config.receive_buffer_bytes, config.send_buffer_bytes)
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._main, name=f"kwire-network {client_id}", daemon=True)

    def start(self) -> None:
        """Returns when the thread takes events."""
        self._thread.start()
        self._started.wait()

    def join(self, deadline: Deadline) -> bool:
        """Wait for the end; whether it came."""
        self._thread.join(min(deadline.remaining_ms() / 1000.0, threading.TIMEOUT_MAX))
        return not self._thread.is_alive()

    def _main(self) -> None:
        try:
            trio.run(self._run)
        except BaseException as error:
            log.exception("the network thread has died")
            failure = InternalError(f"the network thread has died: {_alone(error)!r}; this is a bug, please report it")
            failure.__cause__ = error
            self._mailbox.fail(failure)
        finally:
            self._mailbox.attach(None)
            self._started.set()
            self._mailbox.notify()

    async def _run(self) -> None:
        token = trio.lowlevel.current_trio_token()
        waker = Waker()
        self._mailbox.attach(_from_outside(token, waker.wake))
        loop = self._make_loop(waker)
        self._started.set()
        await loop.run()

    def _make_loop(self, waker: Waker) -> NetworkLoop:
        config, mailbox = self._config, self._mailbox
        subscription = Subscription(self._publish, self._buffer.drop)
        environment = Environment(
            deliver=mailbox.deliver,
            on_data=mailbox.notify,
            polled_at_ms=lambda: mailbox.polled_at_ms,
            wall_clock_ms=wall_clock_ms,
        )
        managers = RequestManagers(config, self._assignors, subscription, self._buffer, environment)
        client = NetworkClient(
            config,
            self._transport,
            lambda: managers.metadata.cluster.nodes,
            waker.wake,
            client_id=self._client_id,
            reconnect_backoff=Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms),
            setup_backoff=Backoff(
                config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms
            ),
        )
        managers.metadata.on_rebootstrap.append(client.hang_up)
        read_committed = bool(config.isolation_level.value)
        return NetworkLoop(mailbox, managers, client, waker, monotonic_ms, read_committed=read_committed)

    def _publish(self, view: AssignmentView) -> None:
        self._mailbox.view = view


def _alone(error: BaseException) -> BaseException:
    """The error without the groups that trio's nurseries put around it, if it is the only one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _from_outside(token: trio.lowlevel.TrioToken, wake: Callable[[], None]) -> Callable[[], None]:
    def wake_from_outside() -> None:
        # The run may have ended between the look at the mailbox and this call: then there is nobody left to wake.
        with contextlib.suppress(trio.RunFinishedError):
            token.run_sync_soon(wake, idempotent=True)

    return wake_from_outside
