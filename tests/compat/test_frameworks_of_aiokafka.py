"""Programs that keep aiokafka's own classes beside the adapter's consumer, as frameworks do."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable

import pytest

from kwire.compat import aiokafka as adapter
from kwire.testing import Cluster

with warnings.catch_warnings(action="ignore"):  # its own code warns of what Python has deprecated
    import aiokafka
    import aiokafka.abc

pytestmark = pytest.mark.slow


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await main()

    asyncio.run(bounded())


def consumer_of(cluster: Cluster, *topics: str, **more: object) -> adapter.AIOKafkaConsumer:
    settings = {"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest", **more}
    return adapter.AIOKafkaConsumer(*topics, **settings)


# --- listeners --------------------------------------------------------------------------------------------------


class Listener(aiokafka.abc.ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """A listener as frameworks define it: it derives from aiokafka's class."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    async def on_partitions_revoked(self, revoked: set[adapter.TopicPartition]) -> None:
        self.told.append(("revoked", len(revoked)))

    async def on_partitions_assigned(self, assigned: set[adapter.TopicPartition]) -> None:
        self.told.append(("assigned", len(assigned)))


def test_a_listener_that_derives_from_the_class_of_aiokafka_is_called(cluster: Cluster) -> None:
    listener = Listener()

    async def main() -> None:
        consumer = consumer_of(cluster, group_id="billing")
        consumer.subscribe(["orders"], listener=listener)
        async with consumer:
            pass

    run(main)
    assert listener.told == [("revoked", 0), ("assigned", 2)]


def test_a_listener_that_derives_from_neither_class_is_refused(cluster: Cluster) -> None:
    class Other:
        on_partitions_revoked = Listener.on_partitions_revoked
        on_partitions_assigned = Listener.on_partitions_assigned

    async def main() -> None:
        consumer = consumer_of(cluster, group_id="billing")
        with pytest.raises(TypeError, match="should be an instance of ConsumerRebalanceListener"):
            consumer.subscribe(["orders"], listener=Other())  # type: ignore[arg-type]
        await consumer.stop()

    run(main)
