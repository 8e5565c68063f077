"""Loggers of the parts, and handlers of the application that raise."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kwire import Consumer, TopicPartition
from kwire.logs import part_logger
from kwire.testing import Cluster


class BrokenHandler(logging.Handler):
    """As one that somebody wrote by hand, whose disk is full."""

    def __init__(self, *, in_main_thread: bool) -> None:
        super().__init__()
        self.raised = 0
        self._in_main_thread = in_main_thread

    def emit(self, record: logging.LogRecord) -> None:
        if self._in_main_thread or threading.current_thread() is not threading.main_thread():
            self.raised += 1
            raise OSError(28, "No space left on device")


@contextmanager
def handled_by(handler: logging.Handler) -> Iterator[None]:
    """All lines of kwire's go to this handler, down to DEBUG."""
    kwire = logging.getLogger("kwire")
    level = kwire.level
    kwire.addHandler(handler)
    kwire.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        kwire.removeHandler(handler)
        kwire.setLevel(level)


def test_a_handler_that_raises_ends_no_other_thread(capsys: pytest.CaptureFixture[str]) -> None:
    lines = list[str]()

    def work() -> None:
        part_logger("network").warning("before")
        lines.append("after")

    with handled_by(BrokenHandler(in_main_thread=True)):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert lines == ["after"]
    assert "No space left on device" in capsys.readouterr().err


def test_nor_does_it_when_stderr_fails_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log and stderr are on the same full disk."""
    lines = list[str]()

    def work() -> None:
        part_logger("network").warning("before")
        lines.append("after")

    with Path("/dev/full").open("w", buffering=1, encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        with handled_by(BrokenHandler(in_main_thread=True)):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        monkeypatch.undo()
        with suppress(OSError):
            full.close()
    assert lines == ["after"]


def test_in_the_main_thread_what_a_handler_raises_is_raised() -> None:
    """It may be what a signal handler raised while a line was written."""
    with handled_by(BrokenHandler(in_main_thread=True)), pytest.raises(OSError, match="No space left"):
        part_logger("network").warning("before")


def test_a_consumer_reads_and_commits_while_a_handler_raises() -> None:
    """The first line of the network thread ended it, and the line that says so ended what tells the application: polls
    returned nothing for ever."""
    handler = BrokenHandler(in_main_thread=False)
    with Cluster(topics={"orders": 1}) as cluster, handled_by(handler):
        cluster.produce("orders", b"1")
        with Consumer(
            "orders", bootstrap_servers=cluster.bootstrap_servers, group_id="billing", auto_offset_reset="earliest"
        ) as consumer:
            assert [record.value for record in consumer.poll(30)] == [b"1"]
            consumer.commit_sync()
        assert cluster.committed("billing")[TopicPartition("orders", 0)].offset == 1
    assert handler.raised > 0


def test_a_line_names_the_function_that_logs(caplog: pytest.LogCaptureFixture) -> None:
    part_logger("network").warning("where")
    assert caplog.records[-1].funcName == "test_a_line_names_the_function_that_logs"
