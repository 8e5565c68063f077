"""Loggers, one for each part of a consumer, whose lines say which client and group they are about.

Each thread or task knows for which client it logs (`logged_as`), so nobody has to pass that on. The client stands in
front of each line and among its fields, beside the fields of the line itself: `docs/logging.md` lists them all.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import traceback
from collections.abc import Iterator, Mapping, MutableMapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import TypeAlias

Fields: TypeAlias = Mapping[str, object]

NO_FIELDS: Fields = MappingProxyType({})
_context: ContextVar[Fields] = ContextVar("kwire_log_context", default=NO_FIELDS)


def client_fields(client_id: str, group_id: str | None) -> Fields:
    """What each line of a consumer has."""
    return {"client_id": client_id, "group_id": group_id}


@contextlib.contextmanager
def logged_as(fields: Fields) -> Iterator[None]:
    """Log for that client in this thread or task, and in the tasks that it starts."""
    before = _context.set(fields)
    try:
        yield
    finally:
        _context.reset(before)


class PartLogger(logging.LoggerAdapter[logging.Logger]):
    """The logger of one part. Its `extra` are fields of the line, beside those of the context.

    A handler or filter of the application that raises ends no thread of kwire's: what it raised goes to stderr, as with
    `logging.Handler.handleError`. In the main thread it is raised: there it may come from a signal handler.
    """

    def log(self, level: int, msg: object, *args: object, **kwargs: object) -> None:
        """Log a line, as `logging.Logger.log`."""
        kwargs["stacklevel"] = 2  # the caller of this, for `funcName` and `lineno`
        try:
            super().log(level, msg, *args, **kwargs)  # type: ignore[arg-type]  # they are passed on
        except Exception:
            if threading.current_thread() is threading.main_thread():
                raise
            if logging.raiseExceptions:
                with contextlib.suppress(Exception):  # stderr may be on the same full disk, closed, or a logger itself
                    traceback.print_exc()

    def process(self, msg: object, kwargs: MutableMapping[str, object]) -> tuple[object, MutableMapping[str, object]]:
        """Put the context in front of the line and into its fields."""
        own = kwargs.get("extra")
        fields = {**_context.get(), **(own if isinstance(own, Mapping) else {})}
        if client_id := fields.get("client_id"):
            group_id = fields.get("group_id")
            who = f"[{client_id}] " if group_id is None else f"[{client_id} {group_id}] "
            fields["log_prefix"] = who
            # A line without arguments is not formatted.
            msg = f"{who.replace('%', '%%') if '%' in str(msg) else who}{msg}"
        kwargs["extra"] = fields
        return msg, kwargs


def part_logger(name: str) -> PartLogger:
    """The logger `kwire.<name>`."""
    return PartLogger(logging.getLogger(f"kwire.{name}"))
