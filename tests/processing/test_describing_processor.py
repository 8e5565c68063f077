"""`Processor.describe()` and `healthy()`: what holds up a processor is named."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator

import pytest

from kwire import Consumer, Record
from kwire.clock import Deadline
from kwire.description.processor_description import ProcessorDescription
from kwire.description.values import CauseKind
from kwire.errors import ProcessingError
from kwire.processing import Processor, Retry, describing
from kwire.processing.processor_loop import ProcessorLoop

PATIENCE_MS = 30_000.0
BytesRecord = Record[bytes, bytes]
BytesConsumer = Consumer[bytes, bytes]


@pytest.fixture
def may_end() -> Iterator[threading.Event]:
    """Lets the handlers of a test return; they do in the end, whatever comes of the test."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(autouse=True)
def any_time_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describing, "SLOW_MS", 0.0)


def described_when(
    processor: Processor[bytes, bytes],
    kind: CauseKind,
    shows: Callable[[ProcessorDescription], bool] = lambda _: True,
) -> ProcessorDescription:
    deadline = Deadline.after(PATIENCE_MS)
    while True:
        found = processor.describe()
        if kind in {cause.kind for cause in found.all_causes()} and shows(found):
            return found
        assert not deadline.expired, str(found)


def test_a_slow_handler_is_named_with_its_record(
    new_consumer: Callable[..., BytesConsumer], orders: Callable[..., None], may_end: threading.Event
) -> None:
    def handle(record: BytesRecord) -> None:
        if record.offset == 2:
            may_end.wait(PATIENCE_MS / 1000.0)

    orders(5)
    consumer = new_consumer()
    with Processor(consumer, handle) as processor:
        found = described_when(processor, CauseKind.SLOW_HANDLER, lambda it: [each.offset for each in it.slow] == [2])
        page = consumer._session.page()
        may_end.set()
    assert page is not None
    assert page.startswith("processor: running")  # what a signal prints
    assert "a handler is at orders-0 offset 2" in str(found)
    assert json.loads(json.dumps(found.as_dict()))["slow"][0]["offset"] == 2
    assert found.is_running
    assert not processor.describe().is_running


def test_back_pressure_is_named(
    new_consumer: Callable[..., BytesConsumer], orders: Callable[..., None], may_end: threading.Event
) -> None:
    orders(50)
    consumer = new_consumer(max_poll_records=5)
    with Processor(
        consumer, lambda _: bool(may_end.wait(PATIENCE_MS / 1000.0)), workers=1, max_buffered_records=5
    ) as processor:
        # The buffer is full a moment before its partition is held.
        found = described_when(processor, CauseKind.BACKPRESSURE, lambda it: any(queue.is_held for queue in it.queues))
        health = processor.healthy()
        may_end.set()
    assert "enough of it waits for the application" in str(found)
    assert health


def test_one_that_has_ended_with_an_error_is_not_healthy(
    new_consumer: Callable[..., BytesConsumer], orders: Callable[..., None]
) -> None:
    def fail(_: BytesRecord) -> None:
        raise ValueError("no such customer")

    orders(1)
    processor = Processor(new_consumer(), fail, retry=Retry(max_attempts=1), on_failure="stop")
    with pytest.raises(ProcessingError):
        processor.run()
    assert not processor.healthy()
    assert "no such customer" in str(processor.healthy())


def test_one_whose_run_was_interrupted_is_not_healthy(
    new_consumer: Callable[..., BytesConsumer], orders: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe would find it alive, though nobody handles a record any more."""

    def interrupt(_: ProcessorLoop[bytes, bytes], describe: object) -> None:
        raise KeyboardInterrupt

    orders(1)
    monkeypatch.setattr(ProcessorLoop, "run", interrupt)
    processor = Processor(new_consumer(), print)
    with pytest.raises(KeyboardInterrupt):
        processor.run()
    assert not processor.healthy()


def test_one_that_ends_in_the_background_and_a_handler_that_fails_first_are_logged(
    new_consumer: Callable[..., BytesConsumer], orders: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """A program that waits beside it would not hear of it before its block ends; and of a handler that always fails
    not at all."""

    def fail(_: BytesRecord) -> None:
        raise ValueError("no such customer")

    orders(1)
    deadline = Deadline.after(PATIENCE_MS)
    processor = Processor(new_consumer(), fail, retry=Retry(max_attempts=3))

    def work() -> None:
        with processor:
            while "the processor has ended" not in caplog.text and not deadline.expired:
                assert not processor.status().handled

    with pytest.raises(ProcessingError):
        work()
    said = [(each.levelname, each.getMessage()) for each in caplog.records if each.name == "kwire.processing"]
    assert [text.partition("] ")[2] for level, text in said if level == "WARNING"] == [
        "orders-0 offset 0: attempt 1 failed: ValueError('no such customer')"
    ]
    assert len([text for level, text in said if level == "ERROR" and "no such customer" in text]) == 1
