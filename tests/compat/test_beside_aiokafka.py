"""The same small programs with aiokafka and with kwire's adapter: what comes is the same."""

from __future__ import annotations

import asyncio
import gc
import re
import time
import warnings
import weakref
from collections.abc import Awaitable, Callable
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kwire import ConsumerConfig
from kwire.compat import aiokafka as adapter
from kwire.compat.aiokafka.private_attributes import PrivateAttributes
from kwire.compat.aiokafka.settings import settings_of
from kwire.testing import Cluster

# Its own code warns of what Python has deprecated.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
BOTH = pytest.mark.parametrize("name", ["aiokafka", "kwire.compat.aiokafka"], ids=["aiokafka", "kwire"])


class Library:
    """One of the two: its package, and what programs import of its modules."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        with warnings.catch_warnings(action="ignore"):
            self.package: Any = import_module(name)
            self.errors: Any = import_module(f"{name}.errors")
            self.abc: Any = import_module(f"{name}.abc")
        self._servers = cluster.bootstrap_servers

    def consumer(self, *topics: str, **more: object) -> Any:  # noqa: ANN401
        settings: dict[str, object] = {"auto_offset_reset": "earliest", "bootstrap_servers": self._servers, **more}
        return self.package.AIOKafkaConsumer(*topics, **settings)

    def tp(self, partition: int) -> Any:  # noqa: ANN401
        return self.package.TopicPartition("orders", partition)


@pytest.fixture
def library(name: str, cluster: Cluster) -> Library:
    return Library(name, cluster)


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await main()

    asyncio.run(bounded())


async def read(consumer: Any, count: int) -> list[Any]:  # noqa: ANN401
    return [await consumer.getone() for _ in range(count)]


@BOTH
def test_a_loop_over_records(library: Library) -> None:
    async def main() -> None:
        found = []
        async with library.consumer("orders", value_deserializer=int) as consumer:
            async for record in consumer:
                found.append(record)
                if len(found) == 6:
                    break
        found.sort(key=lambda record: record.value)
        assert [(r.topic, r.partition, r.offset, r.key, r.value) for r in found] == [
            ("orders", number % 2, number // 2, None, number) for number in range(6)
        ]
        assert {(r.timestamp_type, tuple(r.headers), r.checksum) for r in found} == {(0, (), None)}
        assert {(r.serialized_key_size, r.serialized_value_size) for r in found} == {(-1, 1)}
        assert {type(r).__name__ for r in found} == {"ConsumerRecord"}

    run(main)


@BOTH
def test_many_at_once_by_partition(library: Library) -> None:
    async def main() -> None:
        async with library.consumer("orders", group_id="billing", enable_auto_commit=False) as consumer:
            found: dict[Any, list[bytes]] = {}
            while sum(map(len, found.values())) < 6:
                for tp, records in (await consumer.getmany(timeout_ms=1000, max_records=2)).items():
                    assert len(records) <= 2
                    found.setdefault(tp, []).extend(record.value for record in records)
            assert found == {library.tp(0): [b"0", b"2", b"4"], library.tp(1): [b"1", b"3", b"5"]}
            assert await consumer.getmany(timeout_ms=50) == {}
            assert await consumer.getmany() == {}
            assert consumer.assignment() == {library.tp(0), library.tp(1)}
            assert consumer.subscription() == {"orders"}
            with pytest.raises(ValueError, match="max_records"):
                await consumer.getmany(max_records=0)

    run(main)


@BOTH
def test_some_partitions_alone(library: Library) -> None:
    async def main() -> None:
        async with library.consumer("orders") as consumer:
            assert (await consumer.getone(library.tp(1))).value == b"1"
            ours = await consumer.getmany(library.tp(0), timeout_ms=5000)
            assert [record.value for record in ours[library.tp(0)]] == [b"0", b"2", b"4"]
            assert {(await consumer.getone()).value for _ in range(2)} == {b"3", b"5"}

    run(main)


@BOTH
def test_commits_cover_what_was_returned(library: Library) -> None:
    async def main() -> None:
        tp, other = library.tp(0), library.tp(1)
        consumer = library.consumer(group_id="billing", enable_auto_commit=False)
        consumer.assign([tp])
        assert consumer.assignment() == {tp}
        await consumer.start()
        await read(consumer, 2)
        await consumer.commit()
        assert (await consumer.committed(tp), await consumer.position(tp)) == (2, 2)
        await consumer.commit({tp: 1})
        assert await consumer.committed(tp) == 1
        await consumer.commit({tp: (3, "a note")})
        assert await consumer.committed(tp) == 3
        await consumer.commit({tp: library.package.OffsetAndMetadata(2, "")})
        assert await consumer.committed(tp) == 2
        assert await consumer.committed(other) is None
        with pytest.raises(library.errors.IllegalStateError):
            await consumer.commit({other: 1})
        with pytest.raises(ValueError, match=r"."):
            await consumer.commit({tp: (1, 2, 3)})
        with pytest.raises(TypeError):
            await consumer.commit({tp: (1, b"")})
        await consumer.stop()

    run(main)


@BOTH
def test_what_was_returned_is_committed_in_the_end(library: Library, cluster: Cluster) -> None:
    async def main() -> None:
        async with library.consumer("orders", group_id="billing") as consumer:
            await read(consumer, 6)

    run(main)
    assert {tp.partition: at.offset for tp, at in cluster.committed("billing").items()} == {0: 3, 1: 3}


@BOTH
@pytest.mark.usefixtures("open_transaction")
def test_what_is_not_committed_yet_is_within_the_log(library: Library) -> None:
    async def main() -> None:
        consumer = library.consumer("orders", isolation_level="read_committed")
        await consumer.start()
        await read(consumer, 6)
        await consumer.getmany(timeout_ms=100)
        assert [consumer.highwater(library.tp(number)) for number in (0, 1)] == [4, 3]
        assert [consumer.last_stable_offset(library.tp(number)) for number in (0, 1)] == [3, 3]
        await consumer.stop()

    run(main)


@BOTH
def test_seeking(library: Library) -> None:
    async def main() -> None:
        tp = library.tp(1)
        consumer = library.consumer(group_id="billing", enable_auto_commit=False)
        consumer.assign([tp])
        await consumer.start()
        await read(consumer, 1)
        consumer.seek(tp, 2)
        assert await consumer.position(tp) == 2
        assert (await consumer.getone()).value == b"5"
        assert consumer.highwater(tp) == 3
        assert consumer.last_stable_offset(tp) == 3
        await consumer.seek_to_beginning(tp)
        assert await consumer.position(tp) == 0
        assert [record.value for record in await read(consumer, 3)] == [b"1", b"3", b"5"]
        await consumer.seek_to_beginning()
        await consumer.seek_to_end()
        assert await consumer.position(tp) == 3
        await consumer.commit({tp: 1})
        assert await consumer.seek_to_committed() == {tp: 1}
        assert (await consumer.getone()).value == b"3"
        with pytest.raises(ValueError, match="Offset must be"):
            consumer.seek(tp, -1)
        with pytest.raises(library.errors.IllegalStateError):
            consumer.seek(library.tp(0), 1)
        with pytest.raises(library.errors.IllegalStateError):
            await consumer.seek_to_end(library.tp(0))
        await consumer.stop()

    run(main)


@BOTH
def test_looking_up(library: Library, cluster: Cluster) -> None:
    async def main() -> None:
        tp = library.tp(1)
        async with library.consumer("orders") as consumer:
            assert consumer.partitions_for_topic("orders") == {0, 1}
            assert consumer.partitions_for_topic("nothing") is None
            cluster.create_topic("__consumer_offsets")
            assert await consumer.topics() == {"orders"}
            assert await consumer.beginning_offsets([tp]) == {tp: 0}
            assert await consumer.end_offsets([tp]) == {tp: 3}
            assert await consumer.offsets_for_times({tp: 4_000_000_000_000}) == {tp: None}
            for moment in (0, 0.5, 1_700_000_000, 1_700_000_000_000.5):
                assert (await consumer.offsets_for_times({tp: moment}))[tp].offset == 0
            with pytest.raises(ValueError, match="negative"):
                await consumer.offsets_for_times({tp: -1})

    run(main)


@BOTH
def test_pausing(library: Library, cluster: Cluster) -> None:
    async def main() -> None:
        tp = library.tp(0)
        async with library.consumer("orders") as consumer:
            await read(consumer, 6)
            consumer.pause(tp)
            assert consumer.paused() == {tp}
            cluster.produce("orders", b"held", partition=0)
            cluster.produce("orders", b"free", partition=1)
            assert (await consumer.getone()).value == b"free"
            assert await consumer.getmany(timeout_ms=200) == {}
            consumer.resume(tp)
            assert consumer.paused() == set()
            assert (await consumer.getone()).value == b"held"

    run(main)


@BOTH
@pytest.mark.parametrize("is_async", [True, False])
def test_listeners_of_a_group(library: Library, cluster: Cluster, is_async: bool) -> None:
    told: list[object] = []
    consumer: Any = None

    class Listener(library.abc.ConsumerRebalanceListener):  # type: ignore[misc, name-defined]  # of either module
        def on_partitions_revoked(self, revoked: set[object]) -> None:
            told.append(("revoked", len(revoked)))

        def on_partitions_assigned(self, assigned: set[object]) -> None:
            told.append(("assigned", len(assigned)))
            for tp in assigned:
                consumer.seek(tp, 2)

    class AsyncListener(Listener):
        async def on_partitions_revoked(self, revoked: set[object]) -> None:  # type: ignore[override]
            super().on_partitions_revoked(revoked)

        async def on_partitions_assigned(self, assigned: set[object]) -> None:  # type: ignore[override]
            told.append(sorted([await consumer.committed(tp) for tp in assigned], key=str))
            super().on_partitions_assigned(assigned)

    async def main() -> None:
        nonlocal consumer
        consumer = library.consumer(group_id="billing")
        cluster.create_topic("my-orders", partitions=1)  # a pattern matches from the start of a name
        consumer.subscribe(pattern="ord.*", listener=AsyncListener() if is_async else Listener())
        await consumer.start()
        assert sorted([record.value for record in await read(consumer, 2)]) == [b"4", b"5"]
        assert consumer.subscription() == {"orders"}
        await consumer.stop()

    run(main)
    told = [what for what in told if what != ("revoked", 0)]
    assert told == ([[None, None]] if is_async else []) + [("assigned", 2)]
    assert {tp.partition: at.offset for tp, at in cluster.committed("billing").items()} == {0: 3, 1: 3}


@BOTH
def test_a_second_member_takes_its_share(library: Library) -> None:
    async def main() -> None:
        first = library.consumer("orders", group_id="billing", heartbeat_interval_ms=200)
        await first.start()
        second = library.consumer("orders", group_id="billing", heartbeat_interval_ms=200)
        # kwire's rebalances take part in polls.
        polling = asyncio.create_task(read(first, 100))
        await second.start()
        while not len(first.assignment()) == len(second.assignment()) == 1:
            await asyncio.sleep(0.01)
        assert first.assignment() | second.assignment() == {library.tp(0), library.tp(1)}
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        await second.stop()
        await first.stop()

    run(main)


@BOTH
def test_one_task_starts_members_one_after_the_other(library: Library, cluster: Cluster) -> None:
    """The second member could not start: it waited for the first one, which nobody polled. The records that the first
    member had fetched by then are neither committed nor lost."""
    told: list[tuple[str, int]] = []

    class Listener(library.abc.ConsumerRebalanceListener):  # type: ignore[misc, name-defined]  # of either module
        async def on_partitions_revoked(self, revoked: set[object]) -> None:
            told.append(("revoked", len(revoked)))

        async def on_partitions_assigned(self, assigned: set[object]) -> None:
            told.append(("assigned", len(assigned)))

    async def main() -> None:
        first = library.consumer(group_id="billing", heartbeat_interval_ms=200)
        first.subscribe(["orders"], listener=Listener())
        second = library.consumer("orders", group_id="billing", heartbeat_interval_ms=200)
        await first.start()
        await second.start()
        while not len(first.assignment()) == len(second.assignment()) == 1 or len(told) < 4:
            await asyncio.sleep(0.01)
        assert first.assignment() | second.assignment() == {library.tp(0), library.tp(1)}
        assert told == [("revoked", 0), ("assigned", 2), ("revoked", 2), ("assigned", 1)]
        assert [at.offset for at in cluster.committed("billing").values()] in ([], [0, 0])
        found = [*await read(first, 3), *await read(second, 3)]
        assert sorted(record.value for record in found) == [b"0", b"1", b"2", b"3", b"4", b"5"]
        await second.stop()
        await first.stop()

    run(main)
    assert {tp.partition: at.offset for tp, at in cluster.committed("billing").items()} == {0: 3, 1: 3}


@BOTH
def test_a_member_that_has_called_seek_takes_part_in_the_rebalance_of_the_next_start(library: Library) -> None:
    async def main() -> None:
        settings = {"group_id": "billing", "heartbeat_interval_ms": 200, "enable_auto_commit": False}
        first, second = library.consumer("orders", **settings), library.consumer("orders", **settings)
        await first.start()
        for partition in first.assignment():
            first.seek(partition, 2)
        began_s = time.monotonic()
        await second.start()
        assert time.monotonic() - began_s < 6.0
        while not len(first.assignment()) == len(second.assignment()) == 1:
            await asyncio.sleep(0.01)
        await second.stop()
        await first.stop()

    run(main)


@BOTH
def test_a_seek_behind_start_holds_for_the_first_record(library: Library) -> None:
    async def main() -> None:
        async with library.consumer("orders", group_id="billing") as consumer:
            for partition in consumer.assignment():
                consumer.seek(partition, 2)
            await asyncio.sleep(0.5)
            assert sorted(record.value for record in await read(consumer, 2)) == [b"4", b"5"]

    run(main)


def test_a_consumer_that_the_program_has_dropped_is_collected(cluster: Cluster) -> None:
    """A task polled it until `max_poll_interval_ms` was over, and it kept its partitions."""
    library = Library("kwire.compat.aiokafka", cluster)

    async def main() -> None:
        consumer = library.consumer("orders", group_id="billing")
        await consumer.start()
        dropped = weakref.ref(consumer)
        del consumer
        until_s = time.monotonic() + 10.0
        while dropped() is not None or len(asyncio.all_tasks()) > 1:
            assert time.monotonic() < until_s
            gc.collect()
            await asyncio.sleep(0.05)

    run(main)


@pytest.mark.parametrize("cancels_tasks", [True, False])
def test_a_consumer_is_stopped_in_another_event_loop(cluster: Cluster, cancels_tasks: bool) -> None:
    """After the loop of `start()` was closed, with its tasks cancelled, as `asyncio.run()` does, or not."""
    library = Library("kwire.compat.aiokafka", cluster)

    async def started() -> Any:  # noqa: ANN401
        consumer = library.consumer("orders", group_id="billing")
        await consumer.start()
        return consumer

    if cancels_tasks:
        consumer = asyncio.run(started())
    else:
        loop = asyncio.new_event_loop()
        consumer = loop.run_until_complete(started())
        loop.close()

    async def stop() -> None:
        await asyncio.wait_for(consumer.stop(), 10.0)

    asyncio.run(stop())
    assert consumer._closed


@BOTH
def test_members_that_read_nothing_commit_nothing(library: Library, cluster: Cluster) -> None:
    async def main() -> None:
        async with (
            library.consumer("orders", group_id="billing", heartbeat_interval_ms=200),
            library.consumer("orders", group_id="billing", heartbeat_interval_ms=200),
        ):
            pass

    run(main)
    assert [at.offset for at in cluster.committed("billing").values()] in ([], [0, 0])


@BOTH
def test_a_member_without_partitions_may_commit(library: Library) -> None:
    """It raised IllegalStateError, so a program that commits after each getmany ended when members outnumbered
    partitions. As in aiokafka, it is an error only before the first assignment."""

    async def main() -> None:
        joining = library.consumer("orders", group_id="billing", heartbeat_interval_ms=200)
        with pytest.raises(library.errors.IllegalStateError, match="No partitions assigned"):
            await joining.commit()
        members = [library.consumer("orders", group_id="billing", heartbeat_interval_ms=200) for _ in range(2)]
        for member in (*members, joining):
            await member.start()
        polling = [asyncio.create_task(read(member, 100)) for member in (*members, joining)]
        while sorted(len(member.assignment()) for member in (*members, joining)) != [0, 1, 1]:
            await asyncio.sleep(0.01)
        for task in polling:
            task.cancel()
        await asyncio.gather(*polling, return_exceptions=True)
        (idle,) = [member for member in (*members, joining) if not member.assignment()]
        await idle.commit()
        with pytest.raises(library.errors.IllegalStateError, match="is not assigned"):
            await idle.commit({library.tp(0): 1})
        by_hand = library.consumer(group_id="billing")
        by_hand.assign([])
        await by_hand.start()
        await by_hand.commit()
        for member in (by_hand, *members, joining):
            await member.stop()

    run(main)


@BOTH
@pytest.mark.parametrize("many", [2.5, "5", 0, -1])
def test_how_many_records_is_a_positive_whole_number(library: Library, many: object) -> None:
    async def main() -> None:
        async with library.consumer("orders") as consumer:
            with pytest.raises(ValueError, match="`max_records` must be a positive Integer"):
                await consumer.getmany(max_records=many)

    run(main)


@BOTH
def test_records_are_asked_for_of_partitions(library: Library) -> None:
    async def main() -> None:
        async with library.consumer("orders") as consumer:
            with pytest.raises(AssertionError):
                await consumer.getone("orders")
            with pytest.raises(AssertionError):
                await consumer.getmany("orders")

    run(main)


@BOTH
def test_the_first_call_for_records_meets_an_error_of_the_time_before(library: Library) -> None:
    async def main() -> None:
        settings = {"group_id": "billing", "heartbeat_interval_ms": 200, "auto_offset_reset": "none"}
        first, second = library.consumer("orders", **settings), library.consumer("orders", **settings)
        await first.start()
        await second.start()
        for consumer in (first, second):
            with pytest.raises(library.errors.NoOffsetForPartitionError):
                await consumer.getone()
        await second.stop()
        await first.stop()

    run(main)


def test_no_task_is_left_of_a_consumer_that_was_stopped(cluster: Cluster) -> None:
    library = Library("kwire.compat.aiokafka", cluster)

    async def main() -> None:
        async with library.consumer("orders", group_id="billing"):
            assert len(asyncio.all_tasks()) == 2
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main)


def test_a_program_that_never_reads_leaves_its_group(cluster: Cluster) -> None:
    library = Library("kwire.compat.aiokafka", cluster)

    async def main() -> None:
        settings = {"group_id": "billing", "max_poll_interval_ms": 500}
        async with library.consumer("orders", **settings), library.consumer("orders", **settings) as second:
            while len(second.assignment()) < 2:
                await second.getmany(timeout_ms=100)

    run(main)


def test_members_of_both_kinds_share_a_group(cluster: Cluster) -> None:
    """So a group can change over member by member."""

    async def main() -> None:
        theirs, ours = Library("aiokafka", cluster), Library("kwire.compat.aiokafka", cluster)
        found: list[bytes] = []

        async def work(library: Library, is_alone: asyncio.Event) -> None:
            async with library.consumer("orders", group_id="billing", heartbeat_interval_ms=200) as consumer:
                while not is_alone.is_set():
                    for records in (await consumer.getmany(timeout_ms=50)).values():
                        found.extend(record.value for record in records)
                    shares[library] = set(consumer.assignment())

        shares: dict[Library, set[object]] = {theirs: set(), ours: set()}
        stop = asyncio.Event()
        members = [asyncio.create_task(work(library, stop)) for library in shares]
        while [len(share) for share in shares.values()] != [1, 1] or shares[theirs] == shares[ours]:
            await asyncio.sleep(0.01)
        cluster.produce("orders", b"new", partition=0)
        cluster.produce("orders", b"new", partition=1)
        while found.count(b"new") < 2:
            await asyncio.sleep(0.01)
        stop.set()
        await asyncio.gather(*members)
        assert set(found) == {b"0", b"1", b"2", b"3", b"4", b"5", b"new"}

    run(main)


@BOTH
def test_other_tasks_have_their_turn(library: Library, cluster: Cluster) -> None:
    """Records that are at hand are waited for by nobody; the loop goes on all the same."""
    cluster.create_topic("many")
    for _ in range(20):
        cluster.produce("many", *[b"x"] * 1_000)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main() -> None:
        async with library.consumer("many") as consumer:
            counting = asyncio.create_task(count())
            await read(consumer, 20_000)
            counting.cancel()

    run(main)
    assert turns > 5


@BOTH
def test_a_task_that_waits_ends_with_the_consumer(library: Library) -> None:
    async def main() -> None:
        consumer = library.consumer("orders")
        await consumer.start()
        await read(consumer, 6)
        waiting = asyncio.create_task(consumer.getone())
        looping = asyncio.create_task(_loop(consumer))
        await asyncio.sleep(0.05)
        await consumer.stop()
        with pytest.raises(library.errors.ConsumerStoppedError):
            await waiting
        await looping
        with pytest.raises(library.errors.ConsumerStoppedError):
            await consumer.getmany()
        await consumer.stop()

    run(main)


async def _loop(consumer: Any) -> None:  # noqa: ANN401
    async for _ in consumer:
        pass


@BOTH
def test_a_wait_that_is_cancelled_loses_no_record(library: Library, cluster: Cluster) -> None:
    async def main() -> None:
        async with library.consumer("orders") as consumer:
            await read(consumer, 6)
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(consumer.getone(), 0.05)
            cluster.produce("orders", b"late", partition=0)
            assert (await consumer.getone()).value == b"late"

    run(main)


@BOTH
def test_tasks_read_side_by_side(library: Library, cluster: Cluster) -> None:
    async def main() -> None:
        async with library.consumer("orders") as consumer:
            both = await asyncio.gather(
                *(asyncio.create_task(_values(consumer, library.tp(partition))) for partition in (1, 0))
            )
            assert both == [[b"1", b"3", b"5"], [b"0", b"2", b"4"]]
            waiting = asyncio.create_task(consumer.getone(library.tp(0)))
            cluster.produce("orders", b"other", partition=1)
            assert (await consumer.getone(library.tp(1))).value == b"other"
            cluster.produce("orders", b"mine", partition=0)
            assert (await waiting).value == b"mine"

    run(main)


async def _values(consumer: Any, tp: object) -> list[bytes]:  # noqa: ANN401
    return [(await consumer.getone(tp)).value for _ in range(3)]


@BOTH
def test_errors_have_their_names(library: Library, cluster: Cluster) -> None:
    async def main() -> None:
        consumer = library.consumer("orders")
        await consumer.start()
        with pytest.raises(library.package.IllegalOperation):
            await consumer.commit()
        with pytest.raises(library.package.IllegalOperation):
            await consumer.committed(library.tp(0))
        with pytest.raises(library.errors.IllegalStateError):
            await consumer.position(library.package.TopicPartition("others", 0))
        with pytest.raises(library.errors.IllegalStateError):
            consumer.assign([library.tp(0)])
        with pytest.raises(TypeError):
            consumer.subscribe(["orders"], pattern="orders")
        with pytest.raises(TypeError):
            consumer.subscribe(["orders"], listener=object())
        await consumer.stop()

        strict = library.consumer(group_id="strict", auto_offset_reset="none")
        strict.assign([library.tp(0)])
        await strict.start()
        with pytest.raises(library.errors.NoOffsetForPartitionError):
            await strict.getone()
        strict.seek(library.tp(0), 99)
        with pytest.raises(library.errors.OffsetOutOfRangeError) as caught:
            await strict.getone()
        assert caught.value.args == ({library.tp(0): 99},)
        assert caught.value.errno == 1
        await strict.stop()

        cluster.deny(topic="orders")
        denied = library.consumer(group_id="denied")
        denied.assign([library.tp(0)])
        with pytest.raises(library.errors.TopicAuthorizationFailedError):
            await denied.start()
        await denied.stop()

    run(main)


@BOTH
def test_no_broker(library: Library) -> None:
    async def main() -> None:
        consumer = library.consumer("orders", bootstrap_servers="127.0.0.1:1")
        with pytest.raises(library.errors.KafkaConnectionError):
            await consumer.start()
        await consumer.stop()

    run(main)


@BOTH
def test_deserializers_see_nulls(library: Library, cluster: Cluster) -> None:
    async def main() -> None:
        async with library.consumer("orders", key_deserializer=lambda data: [data]) as consumer:
            assert (await consumer.getone()).key == [None]

    run(main)


@BOTH
@pytest.mark.parametrize("is_pattern", [True, False])
def test_a_pattern_does_not_replace_topics_nor_they_a_pattern(library: Library, is_pattern: bool) -> None:
    async def main() -> None:
        ways: list[dict[str, object]] = [{"pattern": "^or"}, {"topics": ["orders"]}]
        first, second = ways if is_pattern else reversed(ways)
        consumer = library.consumer(group_id="billing")
        consumer.subscribe(**first)
        consumer.subscribe(**first)
        with pytest.raises(library.errors.IllegalStateError, match="mutually exclusive"):
            consumer.subscribe(**second)
        await consumer.stop()

    run(main)


def test_a_pattern_that_is_refused_without_a_group_leaves_the_choice_open(cluster: Cluster) -> None:
    async def main() -> None:
        consumer = adapter.AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
        with pytest.raises(adapter.errors.IllegalStateError, match="need a group_id"):
            consumer.subscribe(pattern="^or")
        consumer.subscribe(["orders"])
        assert consumer.subscription() == {"orders"}
        await consumer.stop()

    run(main)


@BOTH
def test_going_on_to_other_topics(library: Library, cluster: Cluster) -> None:
    cluster.create_topic("others")
    cluster.produce("others", b"x")

    async def main() -> None:
        async with library.consumer("orders", group_id="billing") as consumer:
            await read(consumer, 6)
            consumer.unsubscribe()
            assert consumer.assignment() == set()
            consumer.subscribe(["others"])
            assert consumer.subscription() == {"others"}
            assert (await consumer.getone()).value == b"x"

    run(main)


@BOTH
@pytest.mark.parametrize("unsubscribe", [True, False])
def test_going_on_to_other_topics_without_a_group(library: Library, cluster: Cluster, *, unsubscribe: bool) -> None:
    cluster.create_topic("others")
    cluster.produce("others", b"x")

    async def main() -> None:
        async with library.consumer("orders") as consumer:
            await read(consumer, 6)
            if unsubscribe:
                consumer.unsubscribe()
            consumer.subscribe(["others"])
            assert (await consumer.getone()).value == b"x"
            cluster.produce("orders", b"no longer read")
            cluster.produce("others", b"y")
            assert (await consumer.getone()).value == b"y"
            assert {tp.topic for tp in consumer.assignment()} == {"others"}

    run(main)


def test_a_subscription_that_is_cancelled_in_the_middle_is_made_by_the_next_call(cluster: Cluster) -> None:
    async def main() -> None:
        async with Library("kwire.compat.aiokafka", cluster).consumer(group_id="billing") as consumer:
            consumer.subscribe(["orders"])
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.getone(), 0)
            assert len(await read(consumer, 6)) == 6

    run(main)


def test_settings_of_aiokafka_are_understood(caplog: pytest.LogCaptureFixture) -> None:
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    given: dict[str, object] = {
        "loop": None,
        "api_version": "auto",
        "bootstrap_servers": "b1,b2:9093",
        "consumer_timeout_ms": 200,
        "enable_auto_commit": True,
        "rebalance_timeout_ms": 5_000,
        "sasl_mechanism": "PLAIN",
        "partition_assignment_strategy": (RoundRobinPartitionAssignor,),
    }
    config = ConsumerConfig.of(settings_of(given))
    assert list(map(str, config.bootstrap_servers)) == ["b1:9092", "b2:9093"]
    assert config.partition_assignment_strategy == ("roundrobin",)
    assert config.session_timeout_ms == 10_000
    assert ["rebalance_timeout_ms" in line for line in caplog.messages] == [True]


# Bases of the same errors in kafka-python.
OF_KAFKA_PYTHON = frozenset({"AuthorizationError", "InvalidMetadataError", "RetriableError"})


def test_each_error_of_aiokafka_is_there() -> None:
    with warnings.catch_warnings(action="ignore"):
        theirs, ours = import_module("aiokafka.errors"), import_module("kwire.compat.aiokafka.errors")
    names = [name for name, value in vars(theirs).items() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(names) > 100
    for name in names:
        of_both = [getattr(module, name) for module in (theirs, ours)]
        told = [
            (
                [kind.__name__ for kind in one.__mro__ if kind.__name__ not in OF_KAFKA_PYTHON],
                *(getattr(one, of, None) for of in ("retriable", "invalid_metadata")),
            )
            for one in of_both
        ]
        assert told[0] == told[1]
        if (number := getattr(of_both[0], "errno", None)) is not None:
            assert (of_both[1].errno, of_both[1].message) == (number, of_both[0].message)
            assert ours.for_code(number) is getattr(ours, theirs.for_code(number).__name__)
    assert ours.for_code(12_345) is ours.UnknownError


@BOTH
def test_a_wrong_password_is_no_connection(name: str) -> None:
    async def main() -> None:
        with Cluster(security_protocol="SASL_PLAINTEXT", users={"alice": "secret"}) as cluster:
            library = Library(name, cluster)
            login = {"sasl_plain_username": "alice", "sasl_plain_password": "wrong", "sasl_mechanism": "PLAIN"}
            consumer = library.consumer("orders", security_protocol="SASL_PLAINTEXT", **login)
            with pytest.raises(library.errors.KafkaConnectionError):
                await consumer.start()
            await consumer.stop()

    run(main)


@BOTH
def test_a_session_may_be_as_short_as_the_interval_of_heartbeats(library: Library) -> None:
    async def main() -> None:
        library.consumer(session_timeout_ms=3_000)

    run(main)


def test_heartbeats_fit_a_short_session() -> None:
    assert ConsumerConfig.of(settings_of({"session_timeout_ms": 3_000})).heartbeat_interval_ms == 1_000
    assert ConsumerConfig.of(settings_of({"session_timeout_ms": 30_000})).heartbeat_interval_ms == 3_000
    assert ConsumerConfig.of(settings_of({})).heartbeat_interval_ms == 3_000


def test_modules_and_names_are_those_of_aiokafka() -> None:
    assert callable(import_module("aiokafka.helpers").create_ssl_context)
    for module in ("", ".abc", ".errors", ".structs", ".helpers"):
        theirs = _public(import_module(f"aiokafka{module}"))
        ours = import_module(f"kwire.compat.aiokafka{module}")
        assert not {name for name in _public(ours) if name not in theirs} - OURS, module
    for name, theirs_member in vars(import_module("aiokafka").AIOKafkaConsumer).items():
        if not name.startswith("_") and callable(theirs_member):
            assert hasattr(import_module("kwire.compat.aiokafka").AIOKafkaConsumer, name), name


# Errors that aiokafka has no name for, and what makes its values of kwire's.
OURS = frozenset(
    {"create_ssl_context", "RecordDeserializationError", "is_listener", "raised_as_theirs", "record_of", "error_of"}
)


def _public(module: ModuleType) -> frozenset[str]:
    return frozenset(getattr(module, "__all__", ())) | {
        name for name, value in vars(module).items() if isinstance(value, type) and value.__module__ == module.__name__
    }


# --- what aiokafka's own tests have found ---------------------------------------------------------------------------


@BOTH
def test_max_poll_records_bounds_one_getmany_and_not_what_is_at_hand(library: Library, cluster: Cluster) -> None:
    cluster.create_topic("single", partitions=1)
    for number in range(10):
        cluster.produce("single", b"%d" % number)

    async def main() -> None:
        async with library.consumer("single", max_poll_records=4) as consumer:
            sizes = []
            for most in (None, 3, None):
                found = await consumer.getmany(timeout_ms=10_000, max_records=most)
                sizes += [len(records) for records in found.values()]
            assert sizes == [4, 3, 3]

    run(main)


@BOTH
@pytest.mark.parametrize("group", [None, "billing"])
def test_a_topic_that_start_asks_for_comes_to_be(library: Library, group: str | None) -> None:
    async def main() -> None:
        async with library.consumer("not-yet", group_id=group) as consumer:
            assert {tp.topic for tp in consumer.assignment()} == {"not-yet"}

    run(main)


@BOTH
def test_start_leaves_it_to_the_first_getone_that_there_is_no_offset(library: Library) -> None:
    async def main() -> None:
        async with library.consumer("orders", group_id="billing", auto_offset_reset="none") as consumer:
            assert len(consumer.assignment()) == 2
            with pytest.raises(library.errors.NoOffsetForPartitionError):
                await consumer.getone()

    run(main)


@BOTH
def test_each_rebalance_begins_with_what_is_revoked_even_nothing(library: Library) -> None:
    told: list[tuple[str, set[Any]]] = []

    class Listener(library.abc.ConsumerRebalanceListener):  # type: ignore[misc, name-defined]  # of either module
        def on_partitions_revoked(self, revoked: set[Any]) -> None:
            told.append(("revoked", revoked))

        def on_partitions_assigned(self, assigned: set[Any]) -> None:
            told.append(("assigned", assigned))

    async def main() -> None:
        consumer = library.consumer(group_id="billing")
        consumer.subscribe(["orders"], listener=Listener())
        async with consumer:
            pass

    run(main)
    assert told == [("revoked", set()), ("assigned", {library.tp(0), library.tp(1)})]


@BOTH
def test_a_task_of_a_listener_may_look_up_and_seek(library: Library) -> None:
    found: list[tuple[Any, ...]] = []

    class Listener(library.abc.ConsumerRebalanceListener):  # type: ignore[misc, name-defined]  # of either module
        def on_partitions_revoked(self, revoked: set[Any]) -> None:
            pass

        async def on_partitions_assigned(self, assigned: set[Any]) -> None:
            await asyncio.create_task(self.go_to_end())

        async def go_to_end(self) -> None:
            consumer, tp = made[0], library.tp(0)
            committed, position = await consumer.committed(tp), await consumer.position(tp)
            await consumer.seek_to_end(tp)
            found.append((committed, position, await consumer.position(tp)))

    made: list[Any] = []

    async def main() -> None:
        made.append(library.consumer(group_id="billing"))
        made[0].subscribe(["orders"], listener=Listener())
        async with made[0]:
            pass

    run(main)
    assert found == [(None, 0, 3)]


@BOTH
def test_a_partition_that_is_not_assigned_comes_before_a_group_that_is_not_there(library: Library) -> None:
    async def main() -> None:
        async with library.consumer() as consumer:
            consumer.assign([library.tp(0)])
            with pytest.raises(library.errors.IllegalStateError):
                await consumer.seek_to_committed(library.tp(1))
            await consumer.getone()  # aiokafka stumbles when it is stopped at once

    run(main)


@BOTH
def test_a_loop_is_deprecated(library: Library) -> None:
    async def main() -> None:
        with pytest.deprecated_call():
            library.consumer(loop=asyncio.get_running_loop())

    run(main)


@BOTH
def test_a_getmany_that_waits_comes_back_empty_when_another_task_stops_the_consumer(library: Library) -> None:
    async def main() -> None:
        consumer = library.consumer()
        await consumer.start()
        consumer.assign([library.tp(0)])
        assert len(await read(consumer, 3)) == 3
        waiting = asyncio.create_task(consumer.getmany(timeout_ms=30_000))
        one = asyncio.create_task(consumer.getone())
        await asyncio.sleep(0)
        await consumer.stop()
        assert waiting.done()
        assert waiting.result() == {}
        with pytest.raises(library.errors.ConsumerStoppedError):
            await one

    run(main)


@BOTH
def test_what_cannot_be_committed_is_refused_by_its_form_first(library: Library) -> None:
    async def main() -> None:
        async with library.consumer("orders", group_id="billing") as consumer:
            await consumer.getone()
            with pytest.raises(ValueError, match="something"):
                await consumer.commit("something")
            with pytest.raises(TypeError, match="Key should be TopicPartition instance"):
                await consumer.commit({"orders": 1})
            with pytest.raises(library.errors.IllegalStateError, match="is not assigned"):
                await consumer.commit({library.tp(9): 1})
            with pytest.raises(ValueError, match="Offset must be a positive integer"):
                consumer.seek(library.tp(0), "")
            consumer.unsubscribe()
            with pytest.raises(library.errors.IllegalStateError, match="Not subscribed to any topics"):
                await consumer.commit({library.tp(0): 1})

    run(main)


# --- what a hunt for bugs has found ---------------------------------------------------------------------------------


def test_a_partition_that_comes_while_others_are_read_is_read_later(cluster: Cluster) -> None:
    """Another member leaves while a task waits in `getone(tp)`: the poll in it brings the other's partitions."""

    async def main() -> None:
        library = Library("kwire.compat.aiokafka", cluster)
        consumer, asked, other = library.consumer(), library.tp(0), library.tp(1)
        consumer.assign([asked])
        await consumer.start()
        consumer.seek(asked, 3)
        poll, has_come = consumer._kwire_poll, asyncio.Event()

        async def poll_in_which_another_comes(wait_s: float) -> None:
            if not has_come.is_set():
                await consumer._kwire_consumer.assign([asked, other])
                wait_s = 60.0
            await poll(wait_s)
            has_come.set()

        consumer._kwire_poll = poll_in_which_another_comes
        waiting = asyncio.create_task(consumer.getone(asked))
        await has_come.wait()
        cluster.produce("orders", b"mine", partition=0)
        assert (await waiting).value == b"mine"
        assert [record.value for record in await read(consumer, 3)] == [b"1", b"3", b"5"]
        await consumer.stop()

    run(main)


def test_a_record_of_a_partition_that_is_named_is_done_when_the_next_one_is_asked_for(cluster: Cluster) -> None:
    """Before that no auto-commit covers it."""

    async def main() -> None:
        library = Library("kwire.compat.aiokafka", cluster)
        async with library.consumer("orders", group_id="billing") as consumer:
            await consumer.getone(library.tp(0))
            not_told = consumer._kwire_consumer._session.state.delivery.so_far()
            assert [(tp, position.offset) for tp, _, position in not_told] == [(library.tp(0), 1)]

    run(main)


@BOTH
@pytest.mark.parametrize("is_patched", [False, True], ids=["class", "instance"])
def test_a_loop_calls_a_getone_that_is_overridden(library: Library, *, is_patched: bool) -> None:
    """One that deciphers records, or traces them."""

    class Decoding(library.package.AIOKafkaConsumer):  # type: ignore[misc, name-defined]  # of either module
        async def getone(self, *partitions: object) -> Any:  # noqa: ANN401
            return decoded(await super().getone(*partitions))

    def decoded(record: Any) -> Any:  # noqa: ANN401
        record.value = b"decoded " + record.value
        return record

    async def main() -> None:
        if not is_patched:
            library.package = SimpleNamespace(AIOKafkaConsumer=Decoding)
        found = []
        async with library.consumer("orders") as consumer:
            if is_patched:
                getone = consumer.getone

                async def patched(*partitions: object) -> Any:  # noqa: ANN401
                    return decoded(await getone(*partitions))

                consumer.getone = patched
            async for record in consumer:
                found.append(record.value)
                if len(found) == 6:
                    break
        assert sorted(found) == [b"decoded %d" % number for number in range(6)]

    run(main)


@BOTH
def test_a_task_waits_until_something_is_assigned(library: Library) -> None:
    async def main() -> None:
        async with library.consumer() as consumer:
            waiting = asyncio.create_task(consumer.getone())
            assert not (await asyncio.wait([waiting], timeout=0.2))[0]
            consumer.assign([library.tp(0)])
            assert (await waiting).value == b"0"

    run(main)


def test_a_getmany_of_nothing_ends_with_its_timeout(cluster: Cluster) -> None:
    async def main() -> None:
        async with Library("kwire.compat.aiokafka", cluster).consumer() as consumer:
            assert await consumer.getmany() == {}
            assert await consumer.getmany(timeout_ms=50) == {}

    run(main)


@BOTH
@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("failing", ["revoked", "assigned"])
def test_what_a_listener_raises_does_not_end_the_program(
    library: Library, caplog: pytest.LogCaptureFixture, *, failing: str, is_async: bool
) -> None:
    """One that commits in it, for example, whose member was removed from the group."""

    class Listener(library.abc.ConsumerRebalanceListener):  # type: ignore[misc, name-defined]  # of either module
        def on_partitions_revoked(self, revoked: set[Any]) -> Any:  # noqa: ANN401
            return self.tell("revoked")

        def on_partitions_assigned(self, assigned: set[Any]) -> Any:  # noqa: ANN401
            return self.tell("assigned")

        def tell(self, what: str) -> Any:  # noqa: ANN401
            if is_async:
                return self.fail(what)
            if what == failing:
                raise library.errors.CommitFailedError
            return None

        async def fail(self, what: str) -> None:
            if what == failing:
                raise library.errors.CommitFailedError

    async def main() -> None:
        consumer = library.consumer(group_id="billing")
        consumer.subscribe(["orders"], listener=Listener())
        async with consumer:
            assert len(await read(consumer, 6)) == 6

    run(main)
    assert [record for record in caplog.records if record.exc_info]


@BOTH
def test_a_listener_hears_nothing_of_an_unsubscribe(library: Library, cluster: Cluster) -> None:
    told: list[tuple[str, int]] = []
    cluster.create_topic("others")
    cluster.produce("others", b"x")

    class Listener(library.abc.ConsumerRebalanceListener):  # type: ignore[misc, name-defined]  # of either module
        async def on_partitions_revoked(self, revoked: set[Any]) -> None:
            told.append(("revoked", len(revoked)))
            if revoked:
                await consumers[0].commit()

        async def on_partitions_assigned(self, assigned: set[Any]) -> None:
            told.append(("assigned", len(assigned)))

    consumers: list[Any] = []

    async def main() -> None:
        consumer = library.consumer(group_id="billing", enable_auto_commit=False)
        consumers.append(consumer)
        consumer.subscribe(["orders"], listener=Listener())
        async with consumer:
            await read(consumer, 6)
            consumer.unsubscribe()
            consumer.subscribe(["others"])
            assert (await consumer.getone()).value == b"x"

    run(main)
    assert told == [("revoked", 0), ("assigned", 2)]


@BOTH
def test_the_next_listener_hears_of_what_an_unsubscribe_gave_up_when_it_is_committed(
    library: Library, name: str, cluster: Cluster
) -> None:
    """aiokafka commits as well, but when the member has left the group, and the broker refuses that."""
    told: list[tuple[str, list[str]]] = []
    found: list[int] = []
    cluster.create_topic("others")

    class Listener(library.abc.ConsumerRebalanceListener):  # type: ignore[misc, name-defined]  # of either module
        async def on_partitions_revoked(self, revoked: set[Any]) -> None:
            told.append(("revoked", sorted({tp.topic for tp in revoked})))
            if revoked:
                found.extend(at.offset for _, at in sorted(cluster.committed("billing").items()))

        async def on_partitions_assigned(self, assigned: set[Any]) -> None:
            told.append(("assigned", sorted({tp.topic for tp in assigned})))

    async def main() -> None:
        consumer = library.consumer(group_id="billing", auto_commit_interval_ms=3_600_000)
        consumer.subscribe(["orders"], listener=Listener())
        async with consumer:
            await read(consumer, 6)
            consumer.unsubscribe()
            consumer.subscribe(["others"], listener=Listener())
            cluster.produce("others", b"x")
            assert (await consumer.getone()).value == b"x"

    run(main)
    assert told == [("revoked", []), ("assigned", ["orders"]), ("revoked", ["orders"]), ("assigned", ["others"])]
    assert found == ([3, 3] if name == "kwire.compat.aiokafka" else [])


def test_a_listener_that_subscribes_to_others_is_followed_when_the_rebalance_is_over(cluster: Cluster) -> None:
    """A commit in it does what was put off, but for that."""
    library = Library("kwire.compat.aiokafka", cluster)
    cluster.create_topic("others")
    cluster.produce("others", b"x")
    failures: list[Exception] = []

    class Listener(library.abc.ConsumerRebalanceListener):  # type: ignore[misc, name-defined]  # of a module
        def on_partitions_revoked(self, revoked: set[Any]) -> None:
            pass

        async def on_partitions_assigned(self, assigned: set[Any]) -> None:
            consumers[0].subscribe(["others"])
            try:
                await consumers[0].commit({min(assigned): 1})
            except library.errors.KafkaError as error:
                failures.append(error)

    consumers: list[Any] = []

    async def main() -> None:
        consumer = library.consumer(group_id="billing", enable_auto_commit=False)
        consumers.append(consumer)
        consumer.subscribe(["orders"], listener=Listener())
        async with consumer:
            while (await consumer.getone()).topic != "others":
                pass

    run(main)
    assert failures == []
    assert {tp.partition: at.offset for tp, at in cluster.committed("billing").items()} == {0: 1}


@BOTH
def test_a_class_that_derives_from_the_consumer_may_have_attributes_of_its_own(library: Library) -> None:
    class Own(library.package.AIOKafkaConsumer):  # type: ignore[misc, name-defined]  # of either module
        def __init__(self, *topics: str, **configs: object) -> None:
            super().__init__(*topics, **configs)
            self._topics = self._consumer = self._later = None

        def _poll(self) -> None:
            pass

    async def main() -> None:
        library.package = SimpleNamespace(AIOKafkaConsumer=Own)
        async with library.consumer("orders") as consumer:
            assert len(await read(consumer, 6)) == 6

    run(main)


def test_private_names_are_those_that_nobody_else_has(cluster: Cluster) -> None:
    async def main() -> None:
        consumer = Library("kwire.compat.aiokafka", cluster).consumer()
        private = {name for name in dir(consumer) if not name.startswith("__") and re.match("_(?!kwire)", name)}
        assert private == {name for name in vars(PrivateAttributes) if re.match("_(?!_|kwire)", name)}
        await consumer.stop()

    run(main)


@BOTH
@pytest.mark.parametrize("group_id", [None, "billing"])
def test_a_record_that_cannot_be_deserialized_does_not_keep_a_consumer_from_starting(
    library: Library, group_id: str | None
) -> None:
    """Who starts it could not seek past the record."""

    def deserialize(data: bytes | None) -> int:
        raise ValueError(f"not this one: {data!r}")

    async def main() -> None:
        consumer = library.consumer("orders", group_id=group_id, value_deserializer=deserialize)
        await consumer.start()
        with pytest.raises((ValueError, library.errors.KafkaError), match=r"not this one|cannot be deserialized"):
            await consumer.getone()
        await consumer.stop()

    for _ in range(5):
        run(main)


@BOTH
def test_a_consumer_may_be_started_again_after_that_has_failed(library: Library, cluster: Cluster) -> None:
    """Services begin before their brokers do, and try until they are there."""

    async def main() -> None:
        cluster.kill_broker(0)
        consumer = library.consumer("orders", group_id="billing", request_timeout_ms=1_000)
        for _ in range(2):
            with pytest.raises(library.errors.KafkaConnectionError):
                await consumer.start()
        cluster.start_broker(0)
        await consumer.start()
        assert len(await read(consumer, 6)) == 6
        with pytest.raises(AssertionError, match="twice"):
            await consumer.start()
        await consumer.stop()

    run(main)


@BOTH
def test_what_was_assigned_is_there_when_it_is_started_again(library: Library, cluster: Cluster) -> None:
    async def main() -> None:
        cluster.kill_broker(0)
        consumer = library.consumer(request_timeout_ms=1_000)
        consumer.assign([library.tp(1)])
        with pytest.raises(library.errors.KafkaConnectionError):
            await consumer.start()
        cluster.start_broker(0)
        await consumer.start()
        assert [record.partition for record in await read(consumer, 3)] == [1, 1, 1]
        await consumer.stop()

    run(main)
