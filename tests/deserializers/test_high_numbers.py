"""Bytes that begin with a zero by chance may name a schema by a number that no registry has: the record's fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry import avro as confluent_avro

from kwire import Consumer, Header, RecordDeserializationError
from kwire.deserializers import AvroDeserializer
from kwire.testing import Cluster, NewRecord

if TYPE_CHECKING:
    from tests.schema_registry import Page, SchemaRegistry
else:
    from schema_registry import Page

pytestmark = pytest.mark.slow

GARBAGE = b"\0\xde\xad\xbe\xef\2x"
TOLD = r"offset 0: {} names schema 3735928559, and no registry has so high a number; to step over it: seek\("


@pytest.fixture(autouse=True)
def answer(registry: SchemaRegistry) -> None:
    """As a registry answers what is no number of Java's: like any path that it does not have."""
    registry.page = Page(b'{"error_code": 404, "message": "HTTP 404 Not Found"}', 404)


def consumer_of(cluster: Cluster, deserialize: object = None) -> Consumer:
    given: dict[str, object] = {"bootstrap.servers": cluster.bootstrap_servers, "auto.offset.reset": "earliest"}
    return Consumer(given if deserialize is None else {**given, "value.deserializer": deserialize}, "orders")


@pytest.mark.parametrize("is_kwires", [True, False])
def test_a_frame_with_a_number_that_is_too_high_is_a_bad_record(
    client: SchemaRegistryClient, cluster: Cluster, *, is_kwires: bool
) -> None:
    """It was told as a wrong address of the registry, and stopped a Processor."""
    cluster.produce("orders", GARBAGE, partition=0)
    own = AvroDeserializer(client) if is_kwires else confluent_avro.AvroDeserializer(client)
    expected = TOLD.format("its frame" if is_kwires else "it")
    with consumer_of(cluster, own) as consumer, pytest.raises(RecordDeserializationError, match=expected):
        consumer.poll(10)


def test_a_header_with_a_number_that_is_too_high_is_a_bad_record(
    client: SchemaRegistryClient, cluster: Cluster
) -> None:
    cluster.produce("orders", NewRecord(b"\2x", None, (Header("__value_schema_id", GARBAGE[:5]),)), partition=0)
    expected = TOLD.format("the header __value_schema_id")
    with (
        consumer_of(cluster, AvroDeserializer(client)) as consumer,
        pytest.raises(RecordDeserializationError, match=expected),
    ):
        consumer.poll(10)


def test_a_column_with_a_number_that_is_too_high_names_its_record(
    client: SchemaRegistryClient, cluster: Cluster
) -> None:
    cluster.produce("orders", NewRecord(None, b"key"), GARBAGE, partition=0)
    with consumer_of(cluster) as consumer:
        records = consumer.poll(10)
    with pytest.raises(RecordDeserializationError, match="offset 1: its frame names schema 3735928559"):
        records.to_arrow(value=AvroDeserializer(client))
