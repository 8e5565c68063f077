"""The registry that serializers and deserializers of the tests share, and records by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, avro
from confluent_kafka.serialization import MessageField, SerializationContext

from kwire.testing import Cluster

if TYPE_CHECKING:
    from tests.schema_registry import SchemaRegistry, running_registry
else:
    from schema_registry import running_registry


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running_registry() as found:
        yield found


@pytest.fixture
def client(registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    """Asks once: a registry that is down is to be told at once."""
    with SchemaRegistryClient({"url": registry.url, "max.retries": 0}) as found:
        yield found


@pytest.fixture
def written(client: SchemaRegistryClient, cluster: Cluster) -> Cluster:
    """With a good record of Avro."""
    order = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
    context = SerializationContext("orders", MessageField.VALUE, [])
    cluster.produce("orders", avro.AvroSerializer(client, order)({"id": 1}, context) or b"", partition=0)
    return cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as found:
        found.create_topic("orders", partitions=2)
        yield found
