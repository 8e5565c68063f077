"""Locked by `AccessGuard._lock`: who may use a consumer now. One thread at a time; in a callback, the key's holder.
Where an event loop's tasks use the consumer, read "task" for "thread".

The guard lies around every call of a facade except `wakeup()` and the two that pass keys on (KIP-944). Nobody ever
waits for access: a caller that must not have it is refused. Calls nest, because callbacks run inside calls, so access
is a stack of *levels*: the ground, from which anybody may call, and one more for each callback that runs. Calls are
made from the topmost level, by one thread at a time: from a callback's level by the thread the callback runs on, and by
a thread that was given the level's key. The level ends with the callback, and the key with the level.

KIP-944 makes a key for each call. Here a callback has one, because of what the call does when the callback is over: a
thread that still had the call's key could join in while the call collects records. One difference from the KIP: when
a callback returns before the threads it gave its key are done, its call fails as in the KIP, but the thread that leaves
last takes the level away.

Who has a key? A thread or a task, never what it starts. Tasks of trio and asyncio, and what they start in threads,
inherit a *copy* of the context of their parent; if a copy counted, two would have what one was given. So what is kept
is the token of a context variable: it can be reset in the very context it was made in, and in no other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from threading import get_ident
from types import TracebackType
from typing import NamedTuple, TypeAlias, final

from kwire.clock import Deadline
from kwire.errors import ConcurrentModificationError, IllegalStateError, InvalidArgumentError, KafkaError

NOBODY = 0  # no thread and no task has this identifier
LOOK_AGAIN_S = 0.002
CLOSED = "this consumer is closed"


@final
class ThreadAccessKey:
    """The right to use a consumer while one of its callbacks runs; see `Consumer.get_thread_access_key`.

    Compared by identity: it cannot be guessed, and a copy of it opens nothing.
    """

    __slots__ = ()


_Holding: TypeAlias = Token[ThreadAccessKey | None]

# The key that the calling thread or task, or what it inherited its context from, was given last. Only messages read it.
_given: ContextVar[ThreadAccessKey | None] = ContextVar("kwire_thread_access_key", default=None)


class Callers(NamedTuple):
    """Those who use a consumer, and are told apart: threads, or the tasks of an event loop.

    Attributes:
        identify: Answers the caller's number, which no other one has while the caller is alive.
        name: Answers what messages call the one with this number.
        advice: What messages advise those who are refused.
    """

    identify: Callable[[], int]
    name: Callable[[int], str]
    advice: str


def _thread_name(thread: int) -> str:
    """The thread's name, for messages. Looked up only when one is written, not at each call."""
    names = [repr(known.name) for known in threading.enumerate() if known.ident == thread]
    return f"thread {names[0] if names else thread}"


THREADS = Callers(
    get_ident,
    _thread_name,
    "others may call wakeup(), metrics(), describe() and healthy(); to close it from there: wakeup(), then close()",
)


class _Level:
    """What calls are made from: the ground, or a callback. Changed under the guard's lock, or by `thread` alone."""

    __slots__ = ("depth", "holdings", "host", "is_woken", "key", "over", "thread")

    def __init__(self, host: int) -> None:
        self.host = host  # the thread its callback runs on; the ground is nobody's
        self.key = ThreadAccessKey()
        self.holdings: list[_Holding] = []
        self.thread = NOBODY  # who is in a call made from here,
        self.depth = 0  # and in how many, one inside the other
        self.over = False  # its callback has returned
        self.is_woken = False  # `wakeup()` was called during the call, which is about to end

    def admits(self, thread: int) -> bool:
        """Whether the caller, who runs on this thread, may make a call in this callback."""
        return self.host == thread or self.is_lent()

    def is_lent(self) -> bool:
        """Whether the calling thread or task has been given the key."""
        for index, holding in enumerate(self.holdings):
            if _is_of_this_context(holding):
                self.holdings[index] = _given.set(self.key)  # a token serves only once
                return True
        return False

    def lend(self) -> None:
        """Give the key to the calling thread or task."""
        self.holdings.append(_given.set(self.key))

    def take_back(self) -> None:
        """Take the key from the calling thread or task, if it has it."""
        self.holdings = [holding for holding in self.holdings if not _is_of_this_context(holding)]


class AccessGuard:
    """Entered with `with`; a caller that must not enter is refused at once, and never waits. One for each consumer.

    Attributes:
        advice: What messages advise those who are refused.
        is_closing: Whether the call under way is `close()`: others are refused as if the consumer were closed.
    """

    is_closing = False

    def __init__(self, callers: Callers = THREADS) -> None:
        self._callers = callers
        self.advice = callers.advice
        self._identify = callers.identify
        self._lock = threading.RLock()  # re-entrant: a signal handler may use the consumer at any moment
        self._ground = _Level(NOBODY)
        self._levels = [self._ground]

    @property
    def is_in_callback(self) -> bool:
        """Whether a callback runs."""
        return len(self._levels) > 1

    @property
    def is_entered(self) -> bool:
        """Whether the calling thread is in a call."""
        return self._levels[-1].thread == self._identify()

    # --- around every call: keep it cheap -------------------------------------------------------------------

    def __enter__(self) -> None:
        me = self._identify()
        level = self._levels[-1]
        if level.thread == me:
            level.depth += 1
        else:
            self._claim(me)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        level = self._levels[-1]
        if level is self._ground:  # no callback is open above it, so this is the thread that is in the call
            level.depth -= 1
            if not level.depth:
                level.thread = NOBODY
        else:
            self._leave()

    def _claim(self, me: int) -> None:
        with self._lock:
            level = self._levels[-1]  # looked at again: it may have changed before the lock was taken
            is_free = level.thread in (NOBODY, me)
            if not is_free or (level is not self._ground and not level.admits(me)):
                raise self._refused(level)
            level.is_woken = level.is_woken and level.thread == me
            level.depth = level.depth + 1 if level.thread == me else 1
            level.thread = me

    def _leave(self) -> None:
        """Leave a call that was made in a callback, or one whose callback has returned while a thread that was given
        its key is still in a call."""
        me = self._identify()
        with self._lock:
            index = max(index for index, level in enumerate(self._levels) if level.thread == me)
            for opened in self._levels[index + 1 : index + 2]:
                opened.over = True  # its callback ran inside this call
            level = self._levels[index]
            level.depth -= 1
            if not level.depth:
                level.thread = NOBODY
            self._drop()

    def _drop(self) -> None:
        """Take away the levels whose callbacks are over, once nobody is in a call made from there."""
        while self._levels[-1].over and self._levels[-1].thread == NOBODY:
            self._levels.pop()

    # --- a call that is about to end ------------------------------------------------------------------------

    def note_wakeup(self) -> None:
        """The call under way, if there is one, is about to end. Safe from any thread and signal handler."""
        self._ground.is_woken = self._ground.thread != NOBODY

    @property
    def is_used_elsewhere(self) -> bool:
        """Whether another thread is in a call, and the calling one has no part in it."""
        me = self._identify()
        with self._lock:
            return self._ground.thread not in (NOBODY, me) and not self._levels[-1].admits(me)

    def wait_for_ending_call(self, deadline: Deadline, will_wake: Callable[[], bool]) -> None:
        """Wait until another thread has left the call that `wakeup()` ends, or that closes the consumer.

        Args:
            will_wake: Whether a `wakeup()` is pending that has not ended the call yet.
        """
        pause = threading.Event()
        while (
            self.is_used_elsewhere
            and (self.is_closing or self._ground.is_woken or will_wake())
            and not deadline.expired
        ):
            pause.wait(LOOK_AGAIN_S)

    def forget_other_threads(self) -> None:
        """Forget who else is in a call: in a forked child the thread that has forked is the only one."""
        self._lock = threading.RLock()
        if self._levels[-1].thread != self._identify():
            self._ground = _Level(NOBODY)
            self._levels = [self._ground]

    # --- around every callback ------------------------------------------------------------------------------

    @contextmanager
    def callback(self) -> Iterator[None]:
        """Run user code inside a call: the thread it runs on may call again, and so may a thread that is given its key.

        Raises:
            ConcurrentModificationError: The callback has returned before somebody who was given its key was done. What
                the callback itself raises goes first, with a note that says so.
        """
        level = self._open()
        try:
            yield
        except BaseException as error:
            if problem := self._shut(level):
                error.add_note(problem)
            raise
        if problem := self._shut(level):
            raise ConcurrentModificationError(problem)

    def _open(self) -> _Level:
        me = self._identify()
        with self._lock:
            if self._levels[-1].thread != me:
                raise ConcurrentModificationError(self._refusal(self._levels[-1]))
            level = _Level(me)
            self._levels.append(level)
            return level

    def _shut(self, level: _Level) -> str | None:
        """End a callback's level; says who is still in a call made from there."""
        with self._lock:
            level.over = True
            if level.thread == level.host:  # a Ctrl-C between the claim and its call: nobody will leave
                level.thread = NOBODY
            self._drop()
            if level.thread == NOBODY:
                return None
            return (
                f"a callback in {self._callers.name(level.host)} has returned while {self._callers.name(level.thread)} "
                "was still using the consumer with its key; a callback has to wait for those it gives its key"
            )

    # --- passing keys on ------------------------------------------------------------------------------------

    def get_thread_access_key(self) -> ThreadAccessKey | None:
        """The key of the callback that the caller runs in, or was given the key of; None outside."""
        me = self._identify()
        with self._lock:
            callbacks = [level for level in self._levels[1:] if not level.over]
            return next((level.key for level in reversed(callbacks) if level.admits(me)), None)

    def set_thread_access_key(self, key: ThreadAccessKey | None) -> None:
        """Give the calling thread or task this key instead of the one it has; None takes that away.

        A key that is dead already is not refused here: to use the consumer when nobody does, no key is needed.
        """
        if key is not None and not isinstance(key, ThreadAccessKey):
            raise InvalidArgumentError(f"an access key is what get_thread_access_key() answers, not {key!r}")
        with self._lock:
            for level in self._levels:
                level.take_back()
            _given.set(key)
            for level in self._levels[1:]:
                if level.key is key and not level.over:
                    level.lend()

    # --- what refusals say ----------------------------------------------------------------------------------

    def _refused(self, level: _Level) -> KafkaError:
        return IllegalStateError(CLOSED) if self.is_closing else ConcurrentModificationError(self._refusal(level))

    def _refusal(self, level: _Level) -> str:
        me = self._callers.name(self._identify())
        if level.thread != NOBODY:
            return (
                f"this consumer is being used by {self._callers.name(level.thread)}; {me} must not use it at the same "
                f"time ({self.advice})"
            )
        return (
            f"this consumer runs a callback in {self._callers.name(level.host)}; {self._why_not(me)}. Have the "
            "callback pass on what get_thread_access_key() answers, and call set_thread_access_key() with it, in each "
            "thread and each task that is to use the consumer"
        )

    def _why_not(self, me: str) -> str:
        given = _given.get()
        if given is None:
            return f"{me} has not been given its key"
        if any(level.key is given for level in self._levels):
            return f"{me} is in another task or context than the one that was given its key"
        return f"the key that {me} was given is another consumer's, or that of a callback which has returned"


def _is_of_this_context(holding: _Holding) -> bool:
    """Whether the token was made by the running thread or task itself. If it was, asking uses it up."""
    try:
        _given.reset(holding)
    except (ValueError, RuntimeError):  # made in another context; used up by a call that was interrupted
        return False
    return True
