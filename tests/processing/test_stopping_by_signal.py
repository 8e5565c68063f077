"""`stop()` in a signal handler, which strikes the very thread that runs the processor, wherever that one is."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kwire
from kwire import Consumer, Record, TopicPartition
from kwire.processing import Processor

if TYPE_CHECKING:
    from types import FrameType

    from kwire.testing import Cluster

pytestmark = pytest.mark.slow

PACKAGE = Path(kwire.__file__).parent
WHERE = tuple(str(PACKAGE / file) for file in ("mailbox.py", "processing/processor.py", "processing/processor_loop.py"))
TP = TopicPartition("orders", 0)
LAST = 5
TOO_LONG_S = 30.0


class Striker:
    """Raises the signal once: when the thread comes to the so manieth line that it has not been at."""

    def __init__(self, moment: int) -> None:
        self._moment = moment
        self._lines: set[tuple[str, int]] = set()
        self.has_struck = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> Striker | None:
        if not frame.f_code.co_filename.startswith(WHERE):
            return None
        if event == "line" and not self.has_struck:
            self._lines.add((frame.f_code.co_filename, frame.f_lineno))
            if len(self._lines) == self._moment:
                self.has_struck = True
                signal.raise_signal(signal.SIGUSR1)
        return self


@contextmanager
def on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """The first calls it; and who waits for ever is interrupted by the second."""

    def too_long(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"not over within {TOO_LONG_S} s")

    before = (
        signal.signal(signal.SIGUSR1, lambda _signal, _frame: stop()),
        signal.signal(signal.SIGALRM, too_long),
    )
    signal.setitimer(signal.ITIMER_REAL, TOO_LONG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGUSR1, before[0])
        signal.signal(signal.SIGALRM, before[1])


@contextmanager
def struck_at(moment: int) -> Iterator[Striker]:
    striker, before = Striker(moment), sys.gettrace()
    sys.settrace(striker)
    try:
        yield striker
    finally:
        sys.settrace(before)


def run(consumer: Consumer[bytes, bytes], moment: int) -> tuple[list[int], bool]:
    """A processor's life: which records it handled, and whether the signal came."""
    handled: list[int] = []

    def handle(record: Record[bytes, bytes]) -> None:
        handled.append(record.offset)
        if record.offset == LAST:
            processor.stop()

    consumer.seek(TP, 0)
    processor = Processor(consumer, handle)
    with on_signals(processor.stop), struck_at(moment) as striker:
        processor.run()
    return handled, striker.has_struck


@pytest.mark.threads(reason="an event loop does not let a signal strike anywhere")
def test_a_signal_may_stop_it_wherever_it_is(
    cluster: Cluster, new_consumer: Callable[..., Consumer[bytes, bytes]], orders: Callable[..., None]
) -> None:
    """It waited for ever for a lock that its own thread held."""
    orders(LAST + 1)
    consumer = new_consumer(fetch_max_wait_ms=5)  # each life waits for the fetch of the one before
    consumer.unsubscribe()
    consumer.assign([TP])
    for moment in count(1):
        handled, has_struck = run(consumer, moment)
        assert handled in ([], list(range(LAST + 1)))
        assert not handled or cluster.committed("billing")[TP].offset == LAST + 1
        if not has_struck:
            break
    assert moment > 60, "so many lines"
