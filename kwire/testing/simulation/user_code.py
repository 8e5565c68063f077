"""A member's user code and its failures: deserializers, listeners, callbacks, signal handlers.

Each is called by kwire, or by the member in the place of such code, and raises as `UserFaults` says. Once a world is to
be drained nothing fails any more but what no deserializer can read. Payloads are marked, so that what was not
deserialized cannot pass for what was. A record that is given up, by a policy or by a seek, is written down in front of
it (`GivenUp`), and the rules except that record and no other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kwire.errors import KafkaError, KafkaTimeoutError
from kwire.model import Header
from kwire.testing.invariants.ledger import Event
from kwire.testing.invariants.user_events import UserCodeRaised
from kwire.testing.simulation.user_faults import BAD, HARMLESS, UserFaults, text_of

# How long a service that a deserializer uses is down.
OUTAGE_MS = (50.0, 3_000.0)


class UnreadableError(ValueError):
    """A payload that no deserializer can read."""


class OutageError(OSError):
    """A service that a deserializer uses is down."""


class UserError(Exception):
    """A listener or a callback has failed."""


class Interrupt(BaseException):
    """A signal handler has raised."""


class UserCode:
    """The user code of one member.

    Args:
        faults: None: nothing fails, and payloads are not marked.
        write: takes events for the ledger.
        is_calm: whether the world is to be drained.
        on_unreadable: called with each value that a deserializer raises for.
    """

    def __init__(
        self,
        faults: UserFaults | None,
        member: str,
        write: Callable[[Event], None],
        now_ms: Callable[[], float],
        is_calm: Callable[[], bool],
        on_unreadable: Callable[[str], None],
        rng: random.Random,
    ) -> None:
        self._faults = faults or HARMLESS
        self._has_deserializers = faults is not None
        self._member = member
        self._write = write
        self._now_ms = now_ms
        self._is_calm = is_calm
        self._on_unreadable = on_unreadable
        self._rng = rng
        self._down_until_ms = 0.0
        self._may_interrupt = False

    def settings(self) -> dict[str, object]:
        """The consumer's deserializers."""
        if not self._has_deserializers:
            return {}
        if self._faults.in_context:
            return {"key_deserializer": _InContext(self._key), "value_deserializer": _InContext(self._value)}
        return {"key_deserializer": self._key, "value_deserializer": self._value}

    # --- deserializers --------------------------------------------------------------------------------------

    def _key(self, data: bytes) -> bytes:
        return self._read("key deserializer", data)

    def _value(self, data: bytes) -> bytes:
        if not data.startswith(BAD) and self._is_down():
            raise self._unreadable("value deserializer", OutageError("the registry is down"), data)
        return self._read("value deserializer", data)

    def _read(self, place: str, data: bytes) -> bytes:
        if data.startswith(BAD):
            raise self._unreadable(place, UnreadableError("not a payload"), data)
        self._interrupt(place, self._faults.interrupts)
        return data[1:]

    def _is_down(self) -> bool:
        if self._is_due(self._faults.outages):
            self._down_until_ms = self._now_ms() + self._rng.uniform(*OUTAGE_MS)
        return self._now_ms() < self._down_until_ms and not self._is_calm()

    def _unreadable(self, place: str, error: Exception, data: bytes) -> Exception:
        value = text_of(data)
        self.tell(place, error, value)
        self._on_unreadable(value)
        return error

    # --- listeners and callbacks ----------------------------------------------------------------------------

    def commits_in_listener(self) -> bool:
        return self._is_due(self._faults.commits_in_listener)

    def begin_callback(self, place: str) -> None:
        """It has done nothing yet: a callback that is interrupted here is called again."""
        self._interrupt(place, self._faults.interrupts * 10)

    def end_listener(self, place: str) -> None:
        """The listener has done its work, and may raise. One that is called again then has not begun with it: so the
        judge sees whether records come before the call that succeeds."""
        if self._is_due(self._faults.listener):
            error = self._rng.choice(
                (UserError("a listener"), KafkaTimeoutError("a listener's"), KafkaError("its own"))
            )
            self.tell(place, error)
            raise error

    def end_commit_callback(self) -> None:
        if self._is_due(self._faults.commit_callback):
            error = UserError("a commit callback")
            self.tell("commit callback", error)
            raise error

    # --- signal handlers ------------------------------------------------------------------------------------

    @contextmanager
    def interruptible(self, *, is_so: bool = True) -> Iterator[None]:
        """Around what a signal handler may interrupt, or must not."""
        before, self._may_interrupt = self._may_interrupt, is_so
        try:
            yield
        finally:
            self._may_interrupt = before

    def waited(self) -> None:
        """The member's main thread has waited for something, and goes on."""
        self._interrupt("signal handler", self._faults.interrupts_waiting)

    def _interrupt(self, place: str, share: float) -> None:
        if self._may_interrupt and self._is_due(share):
            error = Interrupt(f"in the {place}")
            self.tell(place, error)
            raise error

    def _is_due(self, share: float) -> bool:
        return share > 0.0 and not self._is_calm() and self._rng.random() < share

    def tell(self, place: str, error: BaseException, value: str = "") -> None:
        """Write an event: user code has raised this."""
        name = type(error).__name__
        self._write(UserCodeRaised(at_ms=self._now_ms(), member=self._member, place=place, error=name, value=value))


class _InContext:
    """A `config.Deserializer`."""

    def __init__(self, read: Callable[[bytes], bytes]) -> None:
        self._read = read

    def deserialize(self, _topic: str, _headers: tuple[Header, ...], data: bytes | None) -> bytes | None:
        return None if data is None else self._read(data)
