"""Calls as steps: a call that has to wait is a generator, which yields what it waits for and returns its result.

So what a call does is written once. `run_blocking` drives it for code that blocks, `event_loops.run_awaiting` for code
that awaits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from inspect import GEN_CLOSED, getgeneratorstate
from typing import NamedTuple, TypeAlias, TypeVar

from kwire.clock import NEVER_MS, Deadline
from kwire.mailbox import Awaited, Mailbox

T = TypeVar("T")


class Wait(NamedTuple):
    """Go on when something is signalled in the mailbox after `seen`, or at the deadline. Going on early does no harm:
    the steps look again.

    Attributes:
        is_idle: Whether nothing is half done: meanwhile the consumer may be used for another call.
        reply: What is waited for, if it is nothing else.
    """

    seen: int
    deadline: Deadline
    is_idle: bool = False
    reply: Awaited | None = None


NOTHING_SEEN = -1
GIVE_WAY = Wait(NOTHING_SEEN, Deadline(NEVER_MS))
"""Go on at once; an event loop lets its other tasks have a turn first."""


class Await(NamedTuple):
    """Go on when this is done, which user code has returned; only where an event loop drives the steps."""

    result: Awaitable[object]


Steps: TypeAlias = Generator[Wait | Await, None, T]


def run_blocking(mailbox: Mailbox, steps: Steps[T]) -> T:
    """Drive the steps to their end, and answer their result.

    An exception that strikes while they wait (a Ctrl-C, for example) is raised inside them, where they wait: they may
    have something to undo, or to finish first.
    """
    struck: BaseException | None = None
    try:
        while True:
            try:
                step = next(steps) if struck is None else steps.throw(struck)
                struck = None
                assert isinstance(step, Wait), "callbacks of code that blocks are not awaited"
                mailbox.wait(step.seen, step.deadline)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # what a generator returns is typed in Steps alone
            except BaseException as error:
                if getgeneratorstate(steps) == GEN_CLOSED:  # raised by the steps themselves
                    raise
                struck = error
    finally:
        struck = None  # its traceback holds this frame
