"""What is said of a consumer that is closed, and of a listener that fails over the end of a membership."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import pytest

from kwire import AsyncConsumer, Consumer
from kwire.errors import IllegalStateError, RebalanceListenerError
from kwire.testing import Cluster

BytesConsumer: TypeAlias = Consumer[bytes, bytes]


def test_a_with_block_is_not_entered_with_a_closed_consumer(kafka_cluster: Cluster) -> None:
    consumer: BytesConsumer = Consumer(bootstrap_servers=kafka_cluster.bootstrap_servers)
    consumer.close()
    with pytest.raises(IllegalStateError, match="this consumer is closed"), consumer:
        pytest.fail("entered")


def test_nor_is_an_async_with_block(kafka_cluster: Cluster) -> None:
    async def main() -> None:
        consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer(bootstrap_servers=kafka_cluster.bootstrap_servers)
        await consumer.close()
        with pytest.raises(IllegalStateError, match="this consumer is closed"):
            async with consumer:
                pytest.fail("entered")

    asyncio.run(main())


@pytest.mark.parametrize("leave", [Consumer.close, Consumer.unsubscribe], ids=["close", "unsubscribe"])
def test_a_listener_that_fails_over_leaving_is_told_that_the_group_is_left(
    kafka_cluster: Cluster, leave: Callable[[BytesConsumer], None]
) -> None:
    """Once, it was told that the rebalance goes on with the next poll."""

    def fail(_consumer: object, _partitions: object) -> None:
        raise LookupError("on purpose")

    kafka_cluster.create_topic("orders")
    kafka_cluster.produce("orders", b"1")
    with Consumer[bytes, bytes](
        bootstrap_servers=kafka_cluster.bootstrap_servers, group_id="billing", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(["orders"], on_revoked=fail)
        assert len(consumer.poll(10.0)) == 1
        with pytest.raises(
            RebalanceListenerError, match=r"LookupError\('on purpose'\); the group is left all the same"
        ):
            leave(consumer)
