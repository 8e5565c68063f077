"""`on_event`: the function that is told what operators want to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.config.parsers import BadValueError, Parser, check_call
from kwire.unfinished import is_coroutine

if TYPE_CHECKING:
    from kwire.consumer_events import OnEvent

VALID = "a function that takes an event, or None"


def event_listener() -> Parser[OnEvent | None]:
    return Parser(_read, VALID)


def _read(value: object) -> OnEvent | None:
    if value is None:
        return None
    if not callable(value):
        raise BadValueError("cannot be called")
    if is_coroutine(value):
        raise BadValueError(
            "a coroutine function, which nobody would await: it is called in a thread; have it call "
            "loop.call_soon_threadsafe, or trio.from_thread.run_sync"
        )
    check_call(value, None, told="with one event")
    return value
