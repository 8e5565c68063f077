"""The setting `logger`: kwire's log lines about a consumer are forwarded to a logger of the program."""

from __future__ import annotations

import logging
import weakref
from typing import Protocol

from kwire.version import __version__

_KWIRE = logging.getLogger("kwire")


class Target(Protocol):
    """A `logging.Logger`, or another object with this method."""

    def log(self, level: int, msg: object, *args: object, exc_info: object = None) -> object: ...


class _Forwarder(logging.Handler):
    def __init__(self, target: Target, client_id: str) -> None:
        super().__init__()
        self._target, self._client_id = target, client_id

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "client_id", None) == self._client_id:
            self._target.log(record.levelno, "%s", record.getMessage(), exc_info=record.exc_info)


def forward(target: Target, client_id: str, *, until_gone: object, with_debug: bool) -> None:
    """Forward log lines until `until_gone` is garbage-collected. With `debug` there is a first line, as in librdkafka.

    Args:
        with_debug: Whether `debug` is set: then the logger `kwire` gets the level DEBUG, unless the program has chosen
            one for it.
    """
    if str(getattr(target, "name", "")).split(".")[0] == _KWIRE.name:
        return  # it gets these lines already, and forwarding to it would not end
    if with_debug:
        target.log(logging.DEBUG, "INIT [%s] kwire %s", client_id, __version__)
        if _KWIRE.level == logging.NOTSET:
            _KWIRE.setLevel(logging.DEBUG)
    forwarder = _Forwarder(target, client_id)
    _KWIRE.addHandler(forwarder)
    weakref.finalize(until_gone, _KWIRE.removeHandler, forwarder)
