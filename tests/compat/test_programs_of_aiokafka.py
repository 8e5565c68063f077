"""Programs of the kinds that aiokafka's documentation shows, run with aiokafka and with the adapter."""

from __future__ import annotations

import asyncio
import json
import warnings
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kwire.testing import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(params=["aiokafka", "kwire.compat.aiokafka"], ids=["aiokafka", "kwire"])
def library(request: pytest.FixtureRequest) -> Any:  # noqa: ANN401
    with warnings.catch_warnings(action="ignore"):
        import_module(f"{request.param}.abc")
        return import_module(request.param)


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await main()

    asyncio.run(bounded())


def test_batches_are_committed_by_partition(library: Any, cluster: Cluster) -> None:  # noqa: ANN401
    done: list[bytes] = []

    async def main() -> None:
        consumer = library.AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="batches",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await consumer.start()
        try:
            while len(done) < 6:
                batches = await consumer.getmany(timeout_ms=1_000)
                for tp, messages in batches.items():
                    done.extend(message.value for message in messages)
                    await consumer.commit({tp: messages[-1].offset + 1})
        finally:
            await consumer.stop()

    run(main)
    assert sorted(done) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert {tp.partition: at.offset for tp, at in cluster.committed("batches").items()} == {0: 3, 1: 3}


def test_state_and_offsets_live_outside_kafka(library: Any, cluster: Cluster, tmp_path: Path) -> None:  # noqa: ANN401
    """A listener loads what was counted, and seeks to where that ends; it saves when partitions go."""
    counts: dict[Any, dict[str, Any]] = {}
    consumer: Any = None

    def file_of(tp: Any) -> Path:  # noqa: ANN401
        return tmp_path / f"{tp.topic}-{tp.partition}.json"

    def save() -> None:
        for tp, state in counts.items():
            file_of(tp).write_text(json.dumps(state))

    class Loader(library.abc.ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: set[Any]) -> None:
            save()
            counts.clear()

        async def on_partitions_assigned(self, assigned: set[Any]) -> None:
            for tp in assigned:
                text = file_of(tp).read_text() if file_of(tp).exists() else '{"next": 0, "counts": {}}'
                known = json.loads(text)
                counts[tp] = {"next": known["next"], "counts": Counter(known["counts"])}
                consumer.seek(tp, known["next"])

    async def read(most: int) -> None:
        nonlocal consumer
        consumer = library.AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="stateful",
            enable_auto_commit=False,
            auto_offset_reset="none",
        )
        consumer.subscribe(["orders"], listener=Loader())
        async with consumer:
            for _ in range(most):
                message = await consumer.getone()
                state = counts[library.TopicPartition(message.topic, message.partition)]
                state["counts"][message.value.decode()] += 1
                state["next"] = message.offset + 1
            save()

    run(lambda: read(4))
    run(lambda: read(2))
    found = sum((Counter(json.loads(file.read_text())["counts"]) for file in tmp_path.iterdir()), Counter())
    assert found == Counter("012345")


def test_values_are_compressed_json(library: Any, cluster: Cluster) -> None:  # noqa: ANN401
    cluster.create_topic("packed")
    cluster.produce("packed", zlib.compress(json.dumps({"id": 1}).encode()))

    def unpack(data: bytes) -> object:
        return json.loads(zlib.decompress(data))

    async def main() -> None:
        consumer = library.AIOKafkaConsumer(
            "packed",
            bootstrap_servers=cluster.bootstrap_servers,
            value_deserializer=unpack,
            auto_offset_reset="earliest",
        )
        async with consumer:
            async for message in consumer:
                assert message.value == {"id": 1}
                break

    run(main)


def test_a_topic_is_read_up_to_where_it_ends_now(library: Any, cluster: Cluster) -> None:  # noqa: ANN401
    async def main() -> None:
        consumer = library.AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
        async with consumer:
            partitions = [library.TopicPartition("orders", number) for number in range(2)]
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            ends = await consumer.end_offsets(partitions)
            found = []
            while [tp for tp in partitions if await consumer.position(tp) < ends[tp]]:
                found.append((await consumer.getone()).value)
            assert sorted(found) == [b"0", b"1", b"2", b"3", b"4", b"5"]

    run(main)


def test_a_topic_is_read_from_a_time_on(library: Any, cluster: Cluster) -> None:  # noqa: ANN401
    async def main() -> None:
        tp = library.TopicPartition("orders", 0)
        consumer = library.AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
        consumer.assign([tp])
        async with consumer:
            await consumer.seek_to_beginning(tp)
            second = [await consumer.getone() for _ in range(2)][1]
            found = await consumer.offsets_for_times({tp: second.timestamp})
            consumer.seek(tp, found[tp].offset)
            assert (await consumer.getone()).timestamp >= second.timestamp

    run(main)


def test_workers_take_from_a_queue_while_a_task_reads(library: Any, cluster: Cluster) -> None:  # noqa: ANN401
    done: list[bytes] = []

    async def main() -> None:
        queue: asyncio.Queue[Any] = asyncio.Queue(maxsize=2)

        async def work() -> None:
            while True:
                message = await queue.get()
                done.append(message.value)
                queue.task_done()

        async with library.AIOKafkaConsumer(
            "orders", bootstrap_servers=cluster.bootstrap_servers, group_id="queue", auto_offset_reset="earliest"
        ) as consumer:
            workers = [asyncio.create_task(work()) for _ in range(2)]
            for _ in range(6):
                await queue.put(await consumer.getone())
            await queue.join()
            await consumer.commit()
            for worker in workers:
                worker.cancel()

    run(main)
    assert sorted(done) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert {tp.partition: at.offset for tp, at in cluster.committed("queue").items()} == {0: 3, 1: 3}
