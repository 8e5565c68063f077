"""What tells an exception of a signal handler from one of the code that it struck."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from kwire import Consumer, TopicPartition
from kwire.interrupts import is_no_fault_of_a_record, is_of_signal_handler
from kwire.testing import Cluster


class TimeLimitError(Exception):
    """A time limit, as Celery's soft one: no BaseException."""


def ring(_signal: int, _frame: FrameType | None) -> None:
    raise TimeLimitError


class Bell:
    def ring(self, _signal: int, _frame: FrameType | None) -> None:
        raise TimeLimitError

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        raise TimeLimitError


def strike(function: object) -> Exception:
    """What comes out of a line in which the signal arrives."""
    before = signal.signal(signal.SIGALRM, function)  # type: ignore[arg-type]  # any kind of callable
    with pytest.raises(TimeLimitError) as caught:
        signal.raise_signal(signal.SIGALRM)
    assert is_of_signal_handler(caught.value)
    signal.signal(signal.SIGALRM, before)
    return caught.value


@pytest.mark.parametrize("handler", [ring, Bell().ring, Bell()], ids=["function", "method", "object"])
def test_what_a_signal_handler_raises_is_known_by_its_traceback(handler: object) -> None:
    assert not is_of_signal_handler(strike(handler)), "the handler is not installed any more"


def test_a_failure_of_the_code_itself_is_its_own() -> None:
    with pytest.raises(ValueError, match="invalid literal") as caught:
        int("x")
    assert not is_of_signal_handler(caught.value)
    assert not is_no_fault_of_a_record(caught.value)


def test_short_memory_is_no_fault_of_a_record() -> None:
    assert is_no_fault_of_a_record(MemoryError())


@pytest.fixture
def alarm() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, ring)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm")
def test_a_time_limit_that_ends_in_a_deserializer_is_no_bad_record(kafka_cluster: Cluster) -> None:
    """It was reported as a record that cannot be deserialized, with the advice to step over it. What had been collected
    in front of it was never returned, and was committed."""
    kafka_cluster.create_topic("t", partitions=1)
    kafka_cluster.produce("t", *(b"%d" % number for number in range(100)))
    limits = [50]

    def read(data: bytes) -> int:
        if limits and int(data) == limits[0]:
            limits.pop()
            signal.raise_signal(signal.SIGALRM)
        return int(data)

    tp = TopicPartition("t", 0)
    with Consumer[bytes, int](
        bootstrap_servers=kafka_cluster.bootstrap_servers, value_deserializer=read, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([tp])
        with pytest.raises(TimeLimitError):
            consumer.poll(10.0)
        assert [record.value for record in consumer.poll(10.0)] == list(range(100))
