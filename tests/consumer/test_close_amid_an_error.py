"""A consumer that is closed in the `except` or the `finally` of a failure commits as a `with` block that fails does.

Once, it took a `close()` for the word that all was processed, and the group never read again what the program had
failed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import pytest
import trio

from kwire import AsyncConsumer, Consumer, OffsetAndMetadata, TopicPartition, WakeupError

if TYPE_CHECKING:
    from kwire import Record, Records
    from kwire.testing import Cluster

ORDERS = TopicPartition("orders", 0)
RECORDS = 20
BAD = 4

BytesConsumer: TypeAlias = Consumer[bytes, bytes]
Handle: TypeAlias = Callable[["Record[bytes, bytes]"], None]
AsyncHandle: TypeAlias = Callable[["Record[bytes, bytes]"], Awaitable[None]]


class BillingError(Exception):
    pass


@pytest.fixture
def cluster(kafka_cluster: Cluster) -> Cluster:
    kafka_cluster.create_topic("orders")
    kafka_cluster.produce("orders", *(b"%d" % number for number in range(RECORDS)))
    return kafka_cluster


def settings(cluster: Cluster) -> dict[str, object]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "billing",
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": 60_000,
    }


def open_consumer(cluster: Cluster) -> BytesConsumer:
    return Consumer("orders", config=settings(cluster))


def committed(cluster: Cluster) -> int:
    found = cluster.committed("billing").get(ORDERS)
    return 0 if found is None else found.offset


def bill(record: Record[bytes, bytes], error: type[BaseException] = BillingError) -> None:
    if record.offset == BAD:
        raise error


def interrupt(record: Record[bytes, bytes]) -> None:
    bill(record, KeyboardInterrupt)


def loop(consumer: BytesConsumer, handle: Handle = bill) -> None:
    for record in consumer:
        handle(record)


def poll(consumer: BytesConsumer, handle: Handle = bill) -> None:
    for record in consumer.poll(10.0):
        handle(record)


def generate(consumer: BytesConsumer, handle: Handle = bill) -> None:
    def generator() -> Iterator[Record[bytes, bytes]]:
        try:
            yield from consumer
        finally:
            consumer.close()

    for record in generator():
        handle(record)


READS = {"loop": (loop, BAD), "poll": (poll, 0), "generator": (generate, BAD)}


def close_in_finally(consumer: BytesConsumer, read: Callable[[], None]) -> None:
    try:
        read()
    finally:
        consumer.close()


def close_in_except(consumer: BytesConsumer, read: Callable[[], None]) -> None:
    try:
        read()
    except BaseException:
        consumer.close()
        raise


def close_by_contextlib(consumer: BytesConsumer, read: Callable[[], None]) -> None:
    with closing(consumer):
        read()


@pytest.mark.parametrize("end", [close_in_finally, close_in_except, close_by_contextlib])
@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize(("handle", "error"), [(bill, BillingError), (interrupt, KeyboardInterrupt)])
def test_what_the_program_failed_over_is_not_committed(
    cluster: Cluster,
    end: Callable[[BytesConsumer, Callable[[], None]], None],
    name: str,
    handle: Handle,
    error: type[BaseException],
) -> None:
    consumer = open_consumer(cluster)
    read, processed = READS[name]
    with pytest.raises(error):
        end(consumer, lambda: read(consumer, handle))
    assert committed(cluster) == processed


def test_a_close_behind_the_except_commits_all_for_the_program_has_dealt_with_it(cluster: Cluster) -> None:
    consumer = open_consumer(cluster)
    try:
        for record in consumer.poll(10.0):
            with suppress(BillingError):
                bill(record)
    finally:
        consumer.close()
    assert committed(cluster) == RECORDS


@pytest.mark.parametrize("read", [loop, poll])
def test_an_error_that_was_there_before_the_poll_says_nothing_of_its_records(
    cluster: Cluster, read: Callable[[BytesConsumer, Handle], None]
) -> None:
    def handle(record: Record[bytes, bytes]) -> None:
        if record.offset == RECORDS - 1:
            consumer.close()

    consumer = open_consumer(cluster)
    try:
        raise BillingError
    except BillingError:
        read(consumer, handle)
    assert committed(cluster) == RECORDS


@pytest.mark.parametrize("error", [KeyError, RuntimeError, KeyboardInterrupt])
def test_another_error_than_the_one_that_was_there_counts_though_it_has_its_address(
    cluster: Cluster, error: type[BaseException]
) -> None:
    """Python gives the next exception the memory of the last one: their `id` was the same, and 20 records were lost."""
    consumer = open_consumer(cluster)

    def process() -> None:
        try:
            raise KeyError("no job is to be tried again")
        except KeyError:
            assert len(consumer.poll(10.0)) == RECORDS
        raise error

    with pytest.raises(error):
        close_in_finally(consumer, process)
    assert committed(cluster) == 0


def test_what_a_poll_itself_raises_says_nothing_of_earlier_ones(cluster: Cluster) -> None:
    consumer = open_consumer(cluster)
    try:
        while True:
            poll(consumer, lambda _record: None)
            consumer.wakeup()
    except WakeupError:
        consumer.close()
    assert committed(cluster) == RECORDS


@pytest.mark.parametrize("is_loop", [True, False], ids=["loop", "poll"])
@pytest.mark.parametrize("fails", [True, False], ids=["fails", "deals with it"])
@pytest.mark.parametrize("run", [lambda main: asyncio.run(main()), trio.run], ids=["asyncio", "trio"])
def test_so_it_is_in_a_task(
    cluster: Cluster, run: Callable[[Callable[[], Awaitable[None]]], None], is_loop: bool, fails: bool
) -> None:
    def handle(record: Record[bytes, bytes]) -> bool:
        try:
            bill(record)
        except BillingError:
            if fails:
                raise
        return record.offset == RECORDS - 1

    async def main() -> None:
        consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer("orders", config=settings(cluster))
        try:
            if is_loop:
                async for record in consumer:
                    if handle(record):
                        break
            else:
                for record in await consumer.poll(10.0):
                    handle(record)
        finally:
            await consumer.close()

    if fails:
        with pytest.raises(BillingError):
            run(main)
        assert committed(cluster) == (BAD if is_loop else 0)
    else:
        run(main)
        assert committed(cluster) == RECORDS


# --- a poll's records that the program has left in the middle -------------------------------------------------------


def stop_at_bad(records: Records[bytes, bytes]) -> None:
    for record in records:
        if record.offset == BAD:
            break


def swallow(records: Records[bytes, bytes]) -> None:
    with suppress(KeyboardInterrupt):
        for record in records:
            interrupt(record)


def return_from_all(records: Records[bytes, bytes]) -> bool:
    return any(record.offset == BAD for record in records)


@pytest.mark.parametrize("read", [stop_at_bad, swallow, return_from_all])
@pytest.mark.parametrize("by_with", [True, False], ids=["with", "close"])
def test_the_records_behind_the_one_where_an_iteration_was_left_are_not_committed(
    cluster: Cluster, read: Callable[[Records[bytes, bytes]], object], by_with: bool
) -> None:
    """A flag that a signal handler sets, and `break`: the rest of the poll was committed, and lost."""
    consumer = open_consumer(cluster)
    with consumer if by_with else closing(consumer):
        read(consumer.poll(10.0))
    assert committed(cluster) == BAD + 1


def test_a_time_limit_in_the_middle_of_a_polls_records_leaves_the_rest(cluster: Cluster) -> None:
    async def main() -> None:
        async with AsyncConsumer[bytes, bytes]("orders", config=settings(cluster)) as consumer:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await read_all(consumer, False, wait_for_ever)

    asyncio.run(main())
    assert committed(cluster) == BAD + 1


def test_another_poll_says_that_the_rest_was_left_out_on_purpose(cluster: Cluster) -> None:
    with open_consumer(cluster) as consumer:
        stop_at_bad(consumer.poll(10.0))
        assert not consumer.poll(0.0)
    assert committed(cluster) == RECORDS


def test_a_commit_by_hand_in_the_middle_stays(cluster: Cluster) -> None:
    with open_consumer(cluster) as consumer:
        stop_at_bad(consumer.poll(10.0))
        consumer.commit_sync({ORDERS: OffsetAndMetadata(BAD + 5)})
    assert committed(cluster) == BAD + 5


def test_a_commit_of_all_in_the_middle_covers_all(cluster: Cluster) -> None:
    with open_consumer(cluster) as consumer:
        stop_at_bad(consumer.poll(10.0))
        consumer.commit_sync()
    assert committed(cluster) == RECORDS


def test_a_seek_back_after_the_iteration_was_left_counts(cluster: Cluster) -> None:
    with open_consumer(cluster) as consumer:
        stop_at_bad(consumer.poll(10.0))
        consumer.seek(ORDERS, 2)
    assert committed(cluster) == 2


def test_partitions_that_the_iteration_has_not_come_to_are_not_committed(cluster: Cluster) -> None:
    cluster.create_topic("clicks", partitions=3)
    for partition in range(3):
        cluster.produce("clicks", *(b"%d" % number for number in range(RECORDS)), partition=partition)
    seen: list[Record[bytes, bytes]] = []
    with Consumer[bytes, bytes]("clicks", config=settings(cluster)) as consumer:
        while not seen:
            records = consumer.poll(10.0)
            if len(records.partitions()) == 1:
                continue  # this one is processed: the next poll begins
            seen += islice(records, RECORDS + 3)
    expected = {
        partition: 1 + max(record.offset for record in seen if record.partition == partition)
        for partition in {record.partition for record in seen}
    }
    found = cluster.committed("billing")
    for partition, offset in expected.items():
        assert found[TopicPartition("clicks", partition)].offset == offset
    assert sum(position.offset for position in found.values()) < 3 * RECORDS


# --- what the program deals with, and yet has not gone on ------------------------------------------------------------


def look_up(consumer: BytesConsumer, record: Record[bytes, bytes]) -> None:
    """Waits for what is not there, and is woken; by a SIGTERM, say."""
    if record.offset == BAD:
        consumer.wakeup()
        consumer.end_offsets([TopicPartition("no-such-topic", 0)])


@pytest.mark.parametrize(("read", "processed"), [(loop, BAD), (poll, 0)])
def test_a_wakeup_of_a_call_in_the_midst_of_records_leaves_the_rest_to_the_next_member(
    cluster: Cluster, read: Callable[[BytesConsumer, Handle], None], processed: int
) -> None:
    """The program stops at the WakeupError, and its `with` block ends without an error: all was committed."""
    with open_consumer(cluster) as consumer, suppress(WakeupError):
        read(consumer, partial(look_up, consumer))
    assert committed(cluster) == processed


def test_a_commit_before_the_wakeup_stays(cluster: Cluster) -> None:
    def commit_and_look_up(record: Record[bytes, bytes]) -> None:
        if record.offset == BAD:
            consumer.commit_sync({ORDERS: OffsetAndMetadata(BAD)})
        look_up(consumer, record)

    with open_consumer(cluster) as consumer, suppress(WakeupError):
        poll(consumer, commit_and_look_up)
    assert committed(cluster) == BAD


def test_after_a_wakeup_of_another_call_a_poll_says_that_the_program_went_on(cluster: Cluster) -> None:
    with open_consumer(cluster) as consumer:
        for record in consumer.poll(10.0):
            with suppress(WakeupError):
                look_up(consumer, record)
        consumer.poll(0.0)
    assert committed(cluster) == RECORDS


def test_a_wakeup_of_another_threads_call_does_not_concern_the_records(cluster: Cluster) -> None:
    def look_up_elsewhere(record: Record[bytes, bytes]) -> None:
        if record.offset == BAD:
            with pytest.raises(WakeupError):
                elsewhere.submit(look_up, consumer, record).result(10.0)

    with ThreadPoolExecutor(1) as elsewhere, open_consumer(cluster) as consumer:
        poll(consumer, look_up_elsewhere)
    assert committed(cluster) == RECORDS


async def wait_for_ever(_record: Record[bytes, bytes]) -> None:
    await asyncio.Event().wait()


async def read_all(consumer: AsyncConsumer[bytes, bytes], is_loop: bool, at_bad: AsyncHandle) -> None:
    if is_loop:
        async for record in consumer:
            if record.offset == BAD:
                await at_bad(record)
            if record.offset == RECORDS - 1:
                return
    for record in await consumer.poll(10.0):
        if record.offset == BAD:
            await at_bad(record)


@pytest.mark.parametrize(("is_loop", "processed"), [(True, BAD), (False, 0)], ids=["loop", "poll"])
@pytest.mark.parametrize("closes_itself", [True, False])
def test_a_task_that_catches_its_cancellation_has_not_processed_the_rest(
    cluster: Cluster, is_loop: bool, processed: int, closes_itself: bool
) -> None:
    """`except CancelledError: pass` in the task of a web service: all that its poll had returned was committed."""
    at_bad = asyncio.Event()

    async def handle(record: Record[bytes, bytes]) -> None:
        at_bad.set()
        await wait_for_ever(record)

    async def read(consumer: AsyncConsumer[bytes, bytes]) -> None:
        with suppress(asyncio.CancelledError):
            await read_all(consumer, is_loop, handle)
        if closes_itself:
            await consumer.close()

    async def main() -> None:
        consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer("orders", config=settings(cluster))
        task = asyncio.create_task(read(consumer))
        await at_bad.wait()
        task.cancel()
        await task
        await consumer.close()

    asyncio.run(main())
    assert committed(cluster) == processed


@pytest.mark.parametrize("is_loop", [True, False], ids=["loop", "poll"])
def test_a_time_limit_of_one_record_is_no_end_of_the_task(cluster: Cluster, is_loop: bool) -> None:
    """`asyncio.timeout` takes its cancellation back, and the program goes on."""

    async def handle(record: Record[bytes, bytes]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.0):
                await wait_for_ever(record)

    async def main() -> None:
        async with AsyncConsumer[bytes, bytes]("orders", config=settings(cluster)) as consumer:
            await read_all(consumer, is_loop, handle)

    asyncio.run(main())
    assert committed(cluster) == RECORDS


async def be_cancelled() -> None:
    """As by a Ctrl-C: the task has caught it, and goes on."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)


async def handle_nothing(_record: Record[bytes, bytes]) -> None:
    pass


def test_the_cancellation_of_a_task_that_only_closes_says_nothing_of_the_records(cluster: Cluster) -> None:
    """The main task of a service is cancelled by Ctrl-C, waits for the reader, and closes: the last poll came again."""

    async def main() -> None:
        consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer("orders", config=settings(cluster))
        reader = asyncio.create_task(read_all(consumer, False, handle_nothing))
        await be_cancelled()
        await reader
        await consumer.close()

    asyncio.run(main())
    assert committed(cluster) == RECORDS


def test_a_reader_that_was_cancelled_and_has_read_the_rest_is_done_with_it(cluster: Cluster) -> None:
    async def read(consumer: AsyncConsumer[bytes, bytes]) -> None:
        await be_cancelled()
        await read_all(consumer, False, handle_nothing)

    async def main() -> None:
        consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer("orders", config=settings(cluster))
        await asyncio.create_task(read(consumer))
        await consumer.close()

    asyncio.run(main())
    assert committed(cluster) == RECORDS


def test_a_cancellation_before_the_poll_says_nothing_of_its_records(cluster: Cluster) -> None:
    """A service that is told to end may read what is left."""

    async def main() -> None:
        async with AsyncConsumer[bytes, bytes]("orders", config=settings(cluster)) as consumer:
            await be_cancelled()
            await read_all(consumer, False, handle_nothing)

    asyncio.run(main())
    assert committed(cluster) == RECORDS
