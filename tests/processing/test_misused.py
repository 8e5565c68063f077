"""A processor that is used wrongly says so, and goes on with what it does."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from typing import Any, TypeAlias, cast

import pytest

from kwire import AsyncConsumer, Consumer, Record, TopicPartition
from kwire.errors import ConcurrentModificationError, IllegalStateError, InvalidArgumentError
from kwire.processing import Processor, Retry
from kwire.testing import Cluster

BytesRecord: TypeAlias = Record[bytes, bytes]
NewConsumer: TypeAlias = Callable[..., Consumer[bytes, bytes]]
WaitUntil: TypeAlias = Callable[[Callable[[], bool]], None]

USES: dict[str, Callable[[Consumer[bytes, bytes]], object]] = {
    "poll": lambda consumer: consumer.poll(0.0),
    "loop": lambda consumer: next(iter(consumer)),
    "commit": lambda consumer: consumer.commit_sync(),
    "close": lambda consumer: consumer.close(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_who_uses_its_consumer_is_refused_and_it_goes_on(
    cluster: Cluster,
    new_consumer: NewConsumer,
    orders: Callable[..., None],
    wait_until: WaitUntil,
    use: Callable[[Consumer[bytes, bytes]], object],
) -> None:
    """A poll that was refused took the consumer away: nothing was handled any more, and nobody was told."""
    orders(1)
    seen: list[int] = []
    with new_consumer() as consumer, Processor(consumer, lambda record: seen.append(record.offset)) as processor:
        wait_until(lambda: seen == [0])
        with pytest.raises(ConcurrentModificationError, match=r"a Processor uses it: stop\(\) that"):
            use(consumer)
        cluster.produce("orders", b"one more")
        wait_until(lambda: seen == [0, 1])
        assert processor.status().is_running


def test_who_uses_its_consumer_afterwards_is_told_what_is_always_so(
    new_consumer: NewConsumer, orders: Callable[..., None]
) -> None:
    orders(1)
    consumer = new_consumer()
    with Processor(consumer, print):
        pass
    with consumer._guard, ThreadPoolExecutor(1) as another:
        error = another.submit(consumer.poll, 0.0).exception()
    assert isinstance(error, ConcurrentModificationError)
    assert "others may call wakeup()" in str(error)


@pytest.mark.threads(reason="about a second start of another kind")
def test_a_second_start_leaves_the_first_alone(
    cluster: Cluster, new_consumer: NewConsumer, orders: Callable[..., None], wait_until: WaitUntil
) -> None:
    """It took the first one's thread and errors for its own: the consumer could not be closed."""
    orders(1)
    seen: list[int] = []
    with new_consumer() as consumer, Processor(consumer, lambda record: seen.append(record.offset)) as processor:
        for start in (processor.run, processor.__enter__, lambda: asyncio.run(processor.run_async())):
            with pytest.raises(IllegalStateError, match="a processor runs once"):
                start()
        cluster.produce("orders", b"one more")
        wait_until(lambda: seen == [0, 1])


def test_another_kind_of_consumer_is_refused_at_once() -> None:
    async def make() -> None:
        consumer: Any = AsyncConsumer("orders", bootstrap_servers="b:1", group_id="g", enable_auto_commit=False)
        try:
            with pytest.raises(InvalidArgumentError, match=r"takes a Consumer, not AsyncConsumer; .*run_async\(\)"):
                Processor(consumer, print)
        finally:
            await consumer.close(0.0)

    asyncio.run(make())


@pytest.mark.parametrize(
    ("argument", "given", "answer"),
    [
        ("workers", "4", "workers must be a whole number, not '4'$"),
        ("workers", None, "workers must be a whole number, not None$"),
        ("workers", 2.5, "workers must be a whole number, not 2.5$"),
        ("workers", 0, "workers is 0: it has to be more than 0$"),
        ("batch_size", [], r"batch_size must be a whole number, not \[\]$"),
        ("batch_size", 2.5, "batch_size must be a whole number, not 2.5$"),
        ("max_buffered_records", "9", "max_buffered_records is '9': it has to be a number$"),
        ("rate_limit", "5/s", "rate_limit is '5/s': it has to be a number of records a second"),
        ("rate_limit", math.nan, "rate_limit is nan: it has to be more than 0"),
        ("commit_interval", timedelta(seconds=5), r"commit_interval is .*: it has to be a number of seconds"),
        ("watchdog", None, "watchdog is None: it has to be a number of seconds"),
        ("executor", 3, r"executor is 3: .* concurrent\.futures\.Executor; workers="),
        ("executor", ThreadPoolExecutor, r"executor is <class .*: it has to be a concurrent\.futures\.Executor"),
    ],
)
def test_an_argument_of_another_type_is_refused_with_what_it_has_to_be(
    new_consumer: NewConsumer, argument: str, given: object, answer: str
) -> None:
    """Some were told of '<=', and some ended the processor when it ran."""
    arguments: Any = {argument: given}
    with pytest.raises(InvalidArgumentError, match=answer):
        Processor(new_consumer(), print, **arguments)


@pytest.mark.parametrize(
    ("argument", "given", "answer"),
    [
        ("max_attempts", "3", "max_attempts must be a whole number, not '3'$"),
        ("max_attempts", 2.5, "max_attempts must be a whole number, not 2.5$"),
        ("max_attempts", math.nan, "max_attempts must be a whole number, not nan$"),
        ("backoff", "3", "backoff is '3': it has to be a number of seconds$"),
        ("backoff_max", "3", "backoff_max is '3': it has to be a number of seconds$"),
        ("backoff", math.nan, "backoff is nan s, .*: they need 0 <= backoff <= backoff_max$"),
        ("backoff_max", math.nan, "backoff_max nan s: they need 0 <= backoff <= backoff_max$"),
    ],
)
def test_a_retry_with_an_argument_of_another_type_is_refused_with_what_it_has_to_be(
    argument: str, given: object, answer: str
) -> None:
    arguments: Any = {argument: given}
    with pytest.raises(InvalidArgumentError, match=answer):
        Retry(**arguments)


def test_numbers_may_be_decimals(new_consumer: NewConsumer) -> None:
    """They were refused for a time, where a comparison had taken them."""
    arguments: Any = {name: Decimal("2.5") for name in ("rate_limit", "commit_interval", "watchdog")}
    assert Processor(new_consumer(), print, **arguments)._options.rate_limit == 2.5
    waits: Any = {"backoff": Decimal("0.1"), "backoff_max": Decimal(1)}
    assert Retry(**waits).backoff_max == 1.0


@pytest.mark.parametrize("timeout", [-1, math.nan, "1"])
def test_an_end_in_no_time_at_all_is_refused(new_consumer: NewConsumer, timeout: object) -> None:
    processor = Processor(new_consumer(), print)
    for end in (processor.stop, processor.close):
        with pytest.raises(InvalidArgumentError, match="a timeout"):
            end(timeout=cast("float", timeout))
    assert not processor._loop._ending.is_asked


@pytest.mark.parametrize("timeout", [0, timedelta(seconds=1), 10**400, None])
def test_an_end_takes_a_timeout_as_other_calls_do(new_consumer: NewConsumer, timeout: float | timedelta | None) -> None:
    processor = Processor(new_consumer(), print)
    processor.stop(timeout=timeout)
    processor.run()


@pytest.mark.parametrize(
    ("keyword", "answer"),
    [
        ("concurrency", "workers=$"),
        ("max_workers", "workers=$"),
        ("on_error", r"on_failure= is .*a function of \(record, error\)$"),
        ("max_retries", r"retry=Retry\(max_attempts=\.\.\.\)"),
        ("dlq", r"on_failure=dead_letter_topic\(producer, topic\), of kwire\.processing$"),
        ("dead_letter", r"on_failure=dead_letter_topic\(producer, topic\), of kwire\.processing$"),
    ],
)
def test_an_argument_of_other_libraries_is_answered_with_that_of_kwire(
    new_consumer: NewConsumer, keyword: str, answer: str
) -> None:
    arguments: Any = {keyword: 3}
    with pytest.raises(TypeError, match=rf"^Processor\(\) got .* '{keyword}'; in kwire: {answer}"):
        Processor(new_consumer(), print, **arguments)


@pytest.mark.parametrize(
    ("keyword", "answer"),
    [
        ("attempts", "max_attempts= counts"),
        ("delay", "backoff= is how many seconds"),
        ("initial_delay", "backoff= is how many seconds"),
        ("max_delay", r"backoff_max= is the longest wait, in seconds$"),
        ("max_backoff", r"backoff_max= is the longest wait, in seconds$"),
        ("backoff_ms", "backoff= and backoff_max= are in seconds"),
        ("retry_on", "a record is tried again after every exception, except those in terminal=$"),
    ],
)
def test_a_keyword_of_other_libraries_retries_is_answered_with_that_of_retry(keyword: str, answer: str) -> None:
    arguments: Any = {keyword: 3}
    with pytest.raises(TypeError, match=rf"^Retry\(\) got .* '{keyword}'; in kwire: {answer}"):
        Retry(**arguments)


def test_an_argument_that_nobody_has_is_just_unexpected(new_consumer: NewConsumer) -> None:
    arguments: Any = {"nothing": 3}
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'nothing'$"):
        Processor(new_consumer(), print, **arguments)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'nothing'$"):
        Retry(**arguments)


def test_the_signatures_have_no_arguments_of_others() -> None:
    assert not [each for each in inspect.signature(Processor).parameters.values() if each.kind is each.VAR_KEYWORD]
    assert list(inspect.signature(Retry).parameters) == ["max_attempts", "backoff", "backoff_max", "terminal"]


def test_a_second_cancellation_waits_for_nobody(
    cluster: Cluster, new_consumer: NewConsumer, orders: Callable[..., None]
) -> None:
    """As a second Ctrl-C. A handler that hangs kept each of them waiting for half a minute."""
    orders(1)

    async def main() -> None:
        begun = asyncio.Event()

        async def hang(record: BytesRecord) -> None:
            begun.set()
            await asyncio.Event().wait()

        running = asyncio.create_task(Processor(new_consumer(), hang).run_async())
        await begun.wait()
        running.cancel()
        await asyncio.wait([running], timeout=0.2)
        assert not running.done()
        running.cancel()
        done, _ = await asyncio.wait([running], timeout=10.0)
        assert running in done
        assert running.cancelled()

    asyncio.run(main())
    committed = cluster.committed("billing").get(TopicPartition("orders", 0))
    assert committed is None or committed.offset == 0
