"""A rule of a schema that does not reach its server, such as one that decrypts fields, blames no record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.schema_registry.serde import RuleContext, RuleExecutor
from confluent_kafka.serialization import MessageField
from confluent_kafka.serialization import SerializationContext as ConfluentContext

from kwire import Consumer, RecordDeserializationError
from kwire.deserializers import AvroDeserializer
from kwire.testing import Cluster

if TYPE_CHECKING:
    from tests.schema_registry import SchemaRegistry

pytestmark = pytest.mark.slow

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
RULE = {"name": "r", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "FAILS", "tags": []}


class Fails(RuleExecutor):
    """A rule that asks a server, which fails so."""

    error: Exception = LookupError()

    def configure(self, *_: object) -> None:
        """Nothing to set."""

    def type(self) -> str:
        return "FAILS"

    def transform(self, ctx: RuleContext, message: object) -> object:
        raise self.error

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture(scope="module")
def rule() -> Fails:
    made = Fails()
    RuleRegistry.register_rule_executor(made)
    return made


def told(registry: SchemaRegistry, cluster: Cluster, *, is_kwires: bool) -> RecordDeserializationError:
    settings = {"url": registry.url, "max.retries": 0}
    with SchemaRegistryClient(settings) as client:
        context = ConfluentContext("orders", MessageField.VALUE, [])
        cluster.produce("orders", confluent_avro.AvroSerializer(client, ORDER)({"id": 1}, context) or b"")
    registry.schemas[0]["ruleSet"] = {"domainRules": [RULE]}
    with SchemaRegistryClient(settings) as client:
        given: dict[str, object] = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "auto.offset.reset": "earliest",
            "value.deserializer": AvroDeserializer(client) if is_kwires else confluent_avro.AvroDeserializer(client),
        }
        with Consumer(given, "orders") as consumer, pytest.raises(RecordDeserializationError) as caught:
            consumer.poll(10)
    return caught.value


@pytest.mark.parametrize("is_kwires", [True, False])
@pytest.mark.parametrize(
    ("error", "is_outage", "expected"),
    [
        (SchemaRegistryError(503, 50003, "of keys"), True, "a rule of its schema failed: the schema registry failed"),
        (httpx.ConnectError("no"), True, "a rule of its schema failed: the schema registry cannot be reached"),
        (SchemaRegistryError(401, 40101, "no"), False, "a rule of its schema failed: the schema registry refuses this"),
    ],
)
def test_a_rule_whose_server_fails_blames_no_record(
    registry: SchemaRegistry,
    cluster: Cluster,
    rule: Fails,
    error: Exception,
    expected: str,
    *,
    is_outage: bool,
    is_kwires: bool,
) -> None:
    """The record was given up, for no reason at all."""
    rule.error = error
    found = told(registry, cluster, is_kwires=is_kwires)
    assert expected in str(found)
    assert (found.retriable, "seek(" in str(found)) == (is_outage, False)


def test_a_rule_that_fails_over_the_record_says_why(registry: SchemaRegistry, cluster: Cluster, rule: Fails) -> None:
    rule.error = ArithmeticError("too long")
    assert "SerializationError: ArithmeticError('too long'); to step over it" in str(
        told(registry, cluster, is_kwires=True)
    )


def test_a_key_that_is_not_there_is_the_records_fault(registry: SchemaRegistry, cluster: Cluster, rule: Fails) -> None:
    rule.error = SchemaRegistryError(404, 40401, "no such key")
    found = str(told(registry, cluster, is_kwires=True))
    assert "no such key" in found
    assert "to step over it" in found
