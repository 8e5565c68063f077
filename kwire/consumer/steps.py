"""Calls as steps: a call that has to wait is a generator, which yields what it waits for and returns its result.

So what a call does is written once. `run_blocking` drives it for code that blocks; a driver for an event loop awaits
where this one sleeps.
"""

from __future__ import annotations

from collections.abc import Generator
from inspect import GEN_CLOSED, getgeneratorstate
from typing import NamedTuple, TypeAlias, TypeVar

from kwire.clock import Deadline
from kwire.mailbox import Mailbox

T = TypeVar("T")


class Wait(NamedTuple):
    """Go on when something is signalled in the mailbox after `seen`, or at the deadline. Going on early does no harm:
    the steps look again."""

    seen: int
    deadline: Deadline


Steps: TypeAlias = Generator[Wait, None, T]


def run_blocking(mailbox: Mailbox, steps: Steps[T]) -> T:
    """Drive the steps to their end, and answer their result.

    An exception that strikes while they wait (a Ctrl-C, for example) is raised inside them, where they wait: they may
    have something to undo, or to finish first.
    """
    struck: BaseException | None = None
    try:
        while True:
            try:
                wait = next(steps) if struck is None else steps.throw(struck)
                struck = None
                mailbox.wait(wait.seen, wait.deadline)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # what a generator returns is typed in Steps alone
            except BaseException as error:
                if getgeneratorstate(steps) == GEN_CLOSED:  # raised by the steps themselves
                    raise
                struck = error
    finally:
        struck = None  # its traceback holds this frame
