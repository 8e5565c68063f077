"""What decoding needs is loaded beside the first wait, or else by who needs it first."""

from __future__ import annotations

import sys
import threading

import pytest

from kwire.fetching import loading
from kwire.fetching.open_fetch import OpenFetch


def test_without_a_thread_to_load_it_in_it_is_loaded_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """poll() raised a RuntimeError of threading's, where the system had no thread left."""

    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(loading, "_loaded", threading.Event())
    monkeypatch.setattr(loading, "_loading", None)
    monkeypatch.setattr(threading.Thread, "start", start)
    loading.begin_loading()
    assert loading.loaded_open_fetch.__wrapped__() is OpenFetch


def test_what_cannot_be_loaded_ahead_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process without a free file descriptor each poll printed a traceback of the thread that loads."""
    loaded, raised = threading.Event(), list[object]()
    monkeypatch.setattr(loading, "_loaded", loaded)
    monkeypatch.setattr(loading, "_loading", None)
    monkeypatch.setattr(threading, "excepthook", raised.append)
    with monkeypatch.context() as without_descriptors:
        without_descriptors.setitem(sys.modules, "fastcrc", None)
        loading.begin_loading()
        loading.finish_loading()
    assert not loaded.is_set()
    assert raised == []
    loading.begin_loading()
    loading.finish_loading()
    assert loaded.is_set()
