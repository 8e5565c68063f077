"""The cluster that programs of other clients read from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from kwire.testing import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as found:
        found.create_topic("orders", partitions=2)
        for number in range(6):
            found.produce("orders", b"%d" % number, partition=number % 2)
        yield found


@pytest.fixture
def open_transaction(cluster: Cluster) -> Iterator[None]:
    """A record at the end of orders-0 that readers of what is committed do not see yet."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "open", "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", b"not yet", partition=0)
    producer.flush()
    yield
    producer.abort_transaction()
