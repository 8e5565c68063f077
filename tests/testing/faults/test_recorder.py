"""Many threads write, late and out of order; one ledger comes out, in the order in which it happened."""

from __future__ import annotations

import threading

from kwire.model import TopicPartition
from kwire.testing.faults.events import Recorder
from kwire.testing.invariants.ledger import Event, Killed, Polled, Quiet, Sent, Vanished

T0 = TopicPartition("t", 0)


class Clock:
    """Seconds that only a test moves."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def polled(at_ms: float) -> Polled:
    return Polled(at_ms=at_ms, member="a", partition=T0, offsets=(0,), values=("v",))


def sent(at_ms: float) -> Sent:
    return Sent(at_ms=at_ms, partition=T0, offset=0, value="v")


def test_times_count_from_the_beginning_of_the_run() -> None:
    clock = Clock(100.0)
    recorder = Recorder(clock, wall_clock=Clock(5_000.0))
    clock.now_s = 101.5
    assert recorder.now_ms() == 1_500.0
    assert recorder.at_ms(5_000_250) == 250.0
    recorder.note(lambda at_ms: Quiet(at_ms=at_ms))
    assert recorder.ledger.events == [Quiet(at_ms=1_500.0)]


def test_what_is_told_late_stands_where_it_belongs() -> None:
    recorder = Recorder(Clock(0.0))
    for event in (Quiet(at_ms=9), polled(5), sent(3)):
        recorder.write(event)
    assert recorder.ledger.events == [sent(3), polled(5), Quiet(at_ms=9)]


def test_in_one_millisecond_the_log_comes_first_and_the_rest_in_the_order_of_writing() -> None:
    recorder = Recorder(Clock(0.0))
    vanished = Vanished(at_ms=5, partition=T0, offsets=(0,))
    for event in (polled(5), Killed(at_ms=5, member="a"), sent(5), vanished):
        recorder.write(event)
    assert recorder.ledger.events == [sent(5), vanished, polled(5), Killed(at_ms=5, member="a")]


def test_a_ledger_is_a_snapshot() -> None:
    recorder = Recorder(Clock(0.0))
    before = recorder.ledger
    recorder.write(Quiet(at_ms=1))
    assert before.events == []
    assert recorder.ledger.events == [Quiet(at_ms=1)]


def test_listeners_hear_everything_from_then_on_and_may_write_themselves() -> None:
    recorder = Recorder(Clock(0.0))
    heard: list[Event] = []

    def listen(event: Event) -> None:
        heard.append(event)
        if isinstance(event, Sent):
            recorder.write(Quiet(at_ms=4))

    recorder.write(polled(1))
    recorder.listen(listen)
    recorder.write(sent(3))
    assert heard == [sent(3), Quiet(at_ms=4)]


def test_violations_are_kept_with_their_time() -> None:
    clock = Clock(1.0)
    recorder = Recorder(clock)
    clock.now_s = 1.25
    recorder.violate("bad-line", "a printed nonsense")
    assert [str(violation) for violation in recorder.violations] == ["bad-line at 0.250 s: a printed nonsense"]


def test_nothing_is_lost_between_threads() -> None:
    recorder = Recorder()
    counts = {"heard": 0}

    def count(_event: Event) -> None:
        counts["heard"] += 1

    recorder.listen(count)

    def write() -> None:
        for _ in range(200):
            recorder.note(lambda at_ms: Quiet(at_ms=at_ms))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times_ms = [event.at_ms for event in recorder.ledger.events]
    assert len(times_ms) == counts["heard"] == 800
    assert times_ms == sorted(times_ms)
