"""What the address of a schema registry answers is no fault of a record, whatever it is: nothing is stepped over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.schema_registry import json_schema as confluent_json
from confluent_kafka.serialization import MessageField
from confluent_kafka.serialization import SerializationContext as ConfluentContext

from kwire import Consumer, RecordDeserializationError, SchemaRegistryUnavailableError
from kwire.deserializers import AvroDeserializer, JsonSchemaDeserializer
from kwire.processing import Processor
from kwire.testing import Cluster

if TYPE_CHECKING:
    from tests.registry_consumers import consumer_of
    from tests.schema_registry import Page, SchemaRegistry
else:
    from registry_consumers import consumer_of
    from schema_registry import Page

pytestmark = pytest.mark.slow

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
CTX = ConfluentContext("orders", MessageField.VALUE, [])
JSON_TYPE = {"Content-Type": "application/json"}
SCHEMAS = "/schemas/"


@pytest.fixture
def written(client: SchemaRegistryClient, cluster: Cluster) -> Cluster:
    """With two good records."""
    serialize = confluent_avro.AvroSerializer(client, ORDER)
    cluster.produce("orders", *[serialize({"id": number}, CTX) or b"" for number in (1, 2)], partition=0)
    return cluster


def values(consumer: Consumer) -> list[object]:
    return list(consumer.poll(10).values())


def settings_of(registry: SchemaRegistry) -> dict[str, object]:
    return {"url": registry.url, "max.retries": 0}


@pytest.mark.parametrize("is_kwires", [True, False])
@pytest.mark.parametrize(
    ("page", "answer"),
    [
        (Page(b"<html>log in</html>", headers={"Content-Type": "text/html"}), r"'<html>log in</html>' \(text/html\)"),
        (Page(b"", headers=JSON_TYPE), "nothing"),
        (Page(b'{"hello": "world"}', headers=JSON_TYPE), "{'hello': 'world'}"),
        (Page(b"[]", headers=JSON_TYPE), r"\[\]"),
        (Page(b"x" * 5000, path=SCHEMAS), "'x{79}... "),
    ],
)
def test_an_answer_that_is_no_schema_is_an_outage(
    registry: SchemaRegistry, written: Cluster, page: Page, answer: str, *, is_kwires: bool
) -> None:
    """Each good record was blamed: a Processor stepped over all of them, and committed that."""
    registry.page = page
    with SchemaRegistryClient(settings_of(registry)) as client:
        own = AvroDeserializer(client) if is_kwires else confluent_avro.AvroDeserializer(client)
        expected = rf"the schema registry answered what is no schema: {answer}.*, at {registry.url}; poll again"
        with consumer_of(written, own) as consumer:
            with pytest.raises(SchemaRegistryUnavailableError, match=expected):
                consumer.poll(10)
            registry.page = None
            assert values(consumer) == [{"id": 1}, {"id": 2}]


def test_an_answer_that_cannot_be_unpacked_is_an_outage(registry: SchemaRegistry, written: Cluster) -> None:
    registry.page = Page(b"xx", headers={"Content-Encoding": "gzip"})
    expected = "the answer of the schema registry cannot be read: DecodingError"
    with (
        consumer_of(written, AvroDeserializer(settings_of(registry))) as consumer,
        pytest.raises(SchemaRegistryUnavailableError, match=expected),
    ):
        consumer.poll(10)


@pytest.mark.parametrize("text", ["this is no avro", '{"type": "record"', ""])
def test_a_schema_that_cannot_be_used_stops_a_processor_until_it_is_corrected(
    registry: SchemaRegistry, written: Cluster, text: str
) -> None:
    good = dict(registry.schemas[0])
    registry.schemas[0]["schema"] = text
    with consumer_of(written, AvroDeserializer(settings_of(registry))) as consumer:
        processor = Processor(consumer, print, on_failure="skip")
        expected = (
            rf"the schema 1 of the schema registry cannot be used: .*, at {registry.url}; correct it there, and start"
        )
        with pytest.raises(RecordDeserializationError, match=expected) as caught:
            processor.run()
        assert (caught.value.retriable, processor.status().skipped) == (False, 0)
    registry.schemas[0].update(good)
    with consumer_of(written, AvroDeserializer(settings_of(registry))) as consumer:
        assert values(consumer) == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("schema", ['{"type": "thing"}', '{"$ref": "#/$defs/Gone"}', "{"])
def test_a_json_schema_that_cannot_be_used_is_no_fault_of_a_record(
    registry: SchemaRegistry, client: SchemaRegistryClient, cluster: Cluster, schema: str
) -> None:
    serialize = confluent_json.JSONSerializer('{"title": "Order", "type": "object"}', client)
    cluster.produce("orders", serialize({"id": 1}, CTX) or b"")
    registry.schemas[0]["schema"] = schema
    with consumer_of(cluster, JsonSchemaDeserializer(settings_of(registry))) as consumer:
        processor = Processor(consumer, print, on_failure="skip")
        with pytest.raises(RecordDeserializationError, match=r"the schema 1 of the schema registry cannot be used"):
            processor.run()
        assert processor.status().skipped == 0


def test_what_makes_no_column_of_a_bad_schema_names_it(registry: SchemaRegistry, written: Cluster) -> None:
    with Consumer("orders", bootstrap_servers=written.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        records = consumer.poll(10)
    good = dict(registry.schemas[0])
    registry.schemas[0]["schema"] = "this is no avro"
    deserialize = AvroDeserializer(settings_of(registry))
    with pytest.raises(RecordDeserializationError, match=r"the schema 1 of the schema registry cannot be used"):
        records.to_arrow(value=deserialize)
    registry.schemas[0].update(good)
    deserialize = AvroDeserializer(settings_of(registry))
    assert records.to_arrow(value=deserialize)["value"].to_pylist() == [{"id": 1}, {"id": 2}]


def broken_login() -> dict[str, object]:
    raise LookupError("no secret there")


def test_a_client_that_cannot_ask_is_no_fault_of_a_record(registry: SchemaRegistry, written: Cluster) -> None:
    login: dict[str, object] = {
        "bearer.auth.credentials.source": "CUSTOM",
        "bearer.auth.custom.provider.function": lambda _: broken_login(),
        "bearer.auth.custom.provider.config": {},
    }
    expected = "the schema registry cannot be asked: LookupError: no secret there"
    with (
        consumer_of(written, AvroDeserializer({**settings_of(registry), **login})) as consumer,
        pytest.raises(RecordDeserializationError, match=expected),
    ):
        Processor(consumer, print, on_failure="skip").run()


def test_a_function_that_fails_over_what_was_decoded_is_the_records_fault(
    registry: SchemaRegistry, written: Cluster
) -> None:
    def from_dict(fields: dict[str, object], _: object) -> object:
        raise KeyError(fields["id"])

    with (
        consumer_of(written, AvroDeserializer(settings_of(registry), from_dict=from_dict)) as consumer,
        pytest.raises(RecordDeserializationError, match=r"offset 0: KeyError: 1; to step over it: seek\("),
    ):
        consumer.poll(10)


def test_a_schema_of_the_users_own_is_not_the_registrys(
    registry: SchemaRegistry, client: SchemaRegistryClient, cluster: Cluster
) -> None:
    serialize = confluent_json.JSONSerializer('{"title": "Order", "type": "object"}', client)
    cluster.produce("orders", serialize({"id": 1}, CTX) or b"")

    def from_dict(fields: dict[str, object], _: object) -> object:
        pytest.importorskip("jsonschema").validate(fields, {"$ref": "#/$defs/Gone"})
        return fields

    with (
        consumer_of(cluster, JsonSchemaDeserializer(settings_of(registry), from_dict=from_dict)) as consumer,
        pytest.raises(RecordDeserializationError, match=r"offset 0: _WrappedReferencingError: .*; to step over it"),
    ):
        consumer.poll(10)


def logins(registry: SchemaRegistry) -> Iterator[dict[str, object]]:
    host = registry.url.removeprefix("http://")
    yield {"url": f"http://alice:secret@{host}/"}
    yield {"url": f"http://alice:secret@{host},http://bob:hunter2@{host}"}


def test_the_address_is_told_without_the_password(registry: SchemaRegistry, written: Cluster) -> None:
    registry.status = 401
    for login in logins(registry):
        with (
            consumer_of(written, AvroDeserializer({**login, "max.retries": 0})) as consumer,
            pytest.raises(RecordDeserializationError, match=f", at {registry.url}") as caught,
        ):
            consumer.poll(10)
        assert not any(secret in str(caught.value) for secret in ("alice", "secret", "bob", "hunter2"))


def test_a_schema_that_is_not_registered_is_told_with_the_address(registry: SchemaRegistry, cluster: Cluster) -> None:
    cluster.produce("orders", b"\0\0\1\0\0\2x")
    expected = rf"does not know its schema: Schema 65536 not found.*, at {registry.url}; compare the registry's address"
    with (
        consumer_of(cluster, AvroDeserializer(settings_of(registry))) as consumer,
        pytest.raises(RecordDeserializationError, match=expected),
    ):
        consumer.poll(10)


class UnknownType(Exception):  # noqa: N818  jsonschema's name
    """As jsonschema raises it over a schema that it cannot use."""


UnknownType.__module__ = "jsonschema.exceptions"


class Own:
    """A user's deserializer, whose names are those of confluent-kafka's by chance."""

    @property
    def _registry(self) -> object:
        raise KeyError("not there")

    def __call__(self, data: bytes) -> object:
        raise UnknownType(data)


def test_a_users_own_deserializer_is_no_schema_registry(cluster: Cluster) -> None:
    cluster.produce("orders", b"{}")
    with (
        consumer_of(cluster, Own()) as consumer,
        pytest.raises(RecordDeserializationError, match=r"offset 0: UnknownType: .*seek\(") as caught,
    ):
        consumer.poll(10)
    assert "registry" not in str(caught.value)
