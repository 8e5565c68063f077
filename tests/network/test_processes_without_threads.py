"""Processes in which a network thread cannot run: the consumer is refused at once, and told why."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import ModuleType

import pytest

from kwire import Consumer
from kwire.errors import NoThreadError
from kwire.network import thread
from kwire.network.patched_modules import patched_by

CONSUMER = "Consumer(bootstrap_servers='127.0.0.1:9')"


def last_line_of(script: str) -> str:
    """What a program ends with on its standard error."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        f"from gevent import monkey; monkey.patch_all()\nfrom kwire import Consumer\n{CONSUMER}",
        f"from kwire import Consumer\nfrom gevent import monkey; monkey.patch_all()\n{CONSUMER}",
    ],
    ids=["patched before the import", "patched after it"],
)
def test_gevent_is_refused(script: str) -> None:
    """The network thread died of an `AttributeError`, and asked to report a bug."""
    told = last_line_of(script)
    assert told.startswith("kwire.errors.NoThreadError: gevent.monkey has patched threading, _thread, socket, select")
    assert 'gunicorn\'s worker class "gthread"' in told


def test_eventlet_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    patcher = ModuleType("eventlet.patcher")
    monkeypatch.setitem(vars(patcher), "is_monkey_patched", {"thread": True, "socket": True, "select": False}.get)
    monkeypatch.setitem(sys.modules, "eventlet.patcher", patcher)
    with pytest.raises(NoThreadError, match=r"^eventlet.monkey_patch\(\) has patched thread, socket, and kwire's"):
        Consumer(bootstrap_servers="127.0.0.1:9")


def test_eventlet_is_refused_whatever_it_has_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes locks in any case. The network thread died of an error of trio, and asked to report a bug."""
    patcher = ModuleType("eventlet.patcher")
    monkeypatch.setitem(vars(patcher), "is_monkey_patched", lambda name: name == "time")
    monkeypatch.setitem(sys.modules, "eventlet.patcher", patcher)
    assert patched_by() == "eventlet.monkey_patch() has patched time"


def test_gevent_is_refused_that_has_patched_subprocesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import of trio failed in the network thread, which asked to report a bug."""
    monkey = ModuleType("gevent.monkey")
    monkeypatch.setitem(vars(monkey), "is_module_patched", lambda name: name == "subprocess")
    monkeypatch.setitem(sys.modules, "gevent.monkey", monkey)
    assert patched_by() == "gevent.monkey has patched subprocess"


def test_a_library_that_has_patched_nothing_is_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkey = ModuleType("gevent.monkey")
    monkeypatch.setitem(vars(monkey), "is_module_patched", lambda _name: False)
    monkeypatch.setitem(sys.modules, "gevent.monkey", monkey)
    assert patched_by() is None


def test_a_system_that_starts_no_more_threads_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(NoThreadError, match=r"cannot be started: can't start new thread; raise the limit of threads"):
        Consumer(bootstrap_servers="127.0.0.1:9")


def test_an_interpreter_without_daemon_threads_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a subinterpreter of Python 3.12 and newer, which refuses the thread before it is started."""

    def make(_thread: threading.Thread, **_options: object) -> None:
        raise RuntimeError("daemon threads are disabled in this (sub)interpreter")

    monkeypatch.setattr(threading.Thread, "__init__", make)
    with pytest.raises(NoThreadError, match=r"are disabled in this .* make the consumer in the main interpreter"):
        Consumer(bootstrap_servers="127.0.0.1:9")


def test_a_thread_that_is_never_let_run_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in uWSGI without `enable-threads`: making a consumer hung for ever."""
    monkeypatch.setattr(threading.Thread, "start", lambda _thread: None)
    monkeypatch.setattr(thread, "START_TIMEOUT_S", 0.01)
    with pytest.raises(NoThreadError, match="in uWSGI, set enable-threads = true"):
        Consumer(bootstrap_servers="127.0.0.1:9")
