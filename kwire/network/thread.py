"""Starts and ends the network thread. Its top is the one place that catches everything: a dead thread must be heard
of."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from kwire.clock import Deadline
from kwire.config import ConsumerConfig
from kwire.errors import InternalError, KafkaError, NoThreadError
from kwire.fetching.buffer import FetchBuffer
from kwire.logs import client_fields, logged_as, part_logger
from kwire.mailbox import Mailbox
from kwire.network.patched_modules import patched_by
from kwire.network.security import Security
from kwire.switch_interval import ShortSwitchInterval

if TYPE_CHECKING:
    from kwire.assignors.base import Assignor

log = part_logger("network")

MORE_FILES = "raise `ulimit -n` (systemd: LimitNOFILE), or look for what leaves files and sockets open"
# It takes 0.3 s to load the modules. A thread that has not started by then never will.
START_TIMEOUT_S = 60.0


class NetworkSide(Protocol):
    """What runs a consumer's network loop, however it does."""

    def start(self) -> None:
        """Returns when events are taken."""
        ...

    def join(self, deadline: Deadline) -> bool:
        """Wait for the end; whether it came."""
        ...


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
    ) -> None:
        self._config = config
        self._assignors = assignors
        self._mailbox = mailbox
        self._buffer = buffer
        self._client_id = client_id
        self._security = Security(config)  # here: certificates that cannot be used are the caller's error
        self._started = threading.Event()
        try:
            self._thread = threading.Thread(target=self._main, name=f"kwire-network {client_id}", daemon=True)
        except RuntimeError as error:  # from Python 3.12 on, of a subinterpreter
            raise _cannot_be_started(error) from error

    def start(self) -> None:
        """Returns when the thread takes events.

        Until then it loads its modules. Waiting for that keeps imports of the application from running at the same
        time: two threads that import a package and one of its modules can end in a deadlock that Python breaks by an
        exception.

        Raises:
            NoThreadError: It cannot run in this process.
        """
        if (patch := patched_by()) is not None:
            raise _refusal(patch)
        try:
            self._thread.start()
        except RuntimeError as error:  # of the system, of a subinterpreter, or of an interpreter that ends
            raise _cannot_be_started(error) from error
        if not self._started.wait(START_TIMEOUT_S):
            raise NoThreadError(
                f"the network thread has not run for {START_TIMEOUT_S:.0f} s: this process runs no Python threads; "
                "in uWSGI, set enable-threads = true"
            )

    def join(self, deadline: Deadline) -> bool:
        """Wait for the end; whether it came."""
        self._thread.join(min(deadline.remaining_ms() / 1000.0, threading.TIMEOUT_MAX))
        return not self._thread.is_alive()

    def _main(self) -> None:
        with logged_as(client_fields(self._client_id, self._config.group_id)):
            self._run()

    def _run(self) -> None:
        try:
            with ShortSwitchInterval():
                from kwire.network.run import run_until_closed

            run_until_closed(
                self._config,
                self._assignors,
                self._mailbox,
                self._buffer,
                security=self._security,
                client_id=self._client_id,
                on_started=self._started.set,
            )
        except BaseException as error:
            self._mailbox.fail(_failure(error))  # first: nothing about logging may hide it
            log.exception("the network thread has died")
        finally:
            self._mailbox.attach(None)
            self._started.set()
            self._mailbox.notify_all()
            # The parts of a closed consumer refer to each other, so they stay until Python's next full collection.
            # The answers in the buffer, which may be many MiB, go now.
            self._buffer.clear()


def _failure(error: BaseException) -> KafkaError:
    """What calls of the consumer raise from now on."""
    patch, alone = patched_by(), _alone(error)
    failure: KafkaError
    if patch is not None:
        failure = _refusal(f"the network thread has died: {alone!r}: {patch}")  # after it had started
    elif isinstance(alone, OSError) and alone.errno in (errno.EMFILE, errno.ENFILE):
        failure = NoThreadError(f"the network thread has ended: {alone.strerror}; {MORE_FILES}")
    else:
        failure = InternalError(f"the network thread has died: {alone!r}; this is a bug, please report it")
    failure.__cause__ = error
    return failure


def _cannot_be_started(error: RuntimeError) -> NoThreadError:
    return NoThreadError(
        f"the network thread cannot be started: {error}; raise the limit of threads (ulimit -u, a container's pids "
        "limit), or make the consumer in the main interpreter, before it ends"
    )


def _refusal(patch: str) -> NoThreadError:
    return NoThreadError(
        f"{patch}, and kwire's network thread needs Python's own; make the consumer in a process without that patch: "
        'gunicorn\'s worker class "gthread" or "sync", Celery\'s pool "prefork" or "threads", or a program of its own'
    )


def _alone(error: BaseException) -> BaseException:
    """The error without the groups that trio's nurseries put around it, if it is the only one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
