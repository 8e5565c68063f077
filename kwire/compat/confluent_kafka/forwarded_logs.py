"""`logger`: what kwire logs about one consumer goes to a logger of the program as well."""

from __future__ import annotations

import logging
import weakref
from typing import Protocol

from kwire.version import __version__

_KWIRE = logging.getLogger("kwire")


class Target(Protocol):
    """A `logging.Logger`, or what has this method of it."""

    def log(self, level: int, msg: object, *args: object, exc_info: object = None) -> object: ...


class _Forwarder(logging.Handler):
    def __init__(self, target: Target, client_id: str) -> None:
        super().__init__()
        self._target, self._client_id = target, client_id

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "client_id", None) == self._client_id:
            self._target.log(record.levelno, "%s", record.getMessage(), exc_info=record.exc_info)


def forward(target: Target, client_id: str, *, until_gone: object, with_debug: bool) -> None:
    """Begin to, until somebody is collected. With `debug` there is a first line, as librdkafka has it.

    Args:
        with_debug: `debug` is set: the logger `kwire` gets the level DEBUG, unless the program has chosen one for it.
    """
    if str(getattr(target, "name", "")).split(".")[0] == _KWIRE.name:
        return  # it has these lines already; what it is given would be forwarded again
    if with_debug:
        target.log(logging.DEBUG, "INIT [%s] kwire %s", client_id, __version__)
        if _KWIRE.level == logging.NOTSET:
            _KWIRE.setLevel(logging.DEBUG)
    forwarder = _Forwarder(target, client_id)
    _KWIRE.addHandler(forwarder)
    weakref.finalize(until_gone, _KWIRE.removeHandler, forwarder)
