"""`kwire consume --value-format avro` and its like, through a real HTTP registry, beside Confluent's serializers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.schema_registry import json_schema as confluent_json
from confluent_kafka.schema_registry import protobuf as confluent_protobuf
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.timestamp_pb2 import Timestamp

from kwire.testing import Cluster

if TYPE_CHECKING:
    from tests.cli.fake_consumer import Command, Outcome
    from tests.schema_registry import SchemaRegistry, running_registry
else:
    from schema_registry import running_registry

pytestmark = pytest.mark.slow

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "item", "type": "string"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "photo", "type": "bytes"},
    ],
}
JSON_ORDER = json.dumps({"title": "Order", "type": "object", "properties": {"item": {"type": "string"}}})
PEN = {"item": "pen", "price": Decimal("1.10"), "photo": b"\xff"}
AS_JSON = '{"item":"pen","price":"1.10","photo":{"base64":"/w=="}}'
CTX = SerializationContext("orders", MessageField.VALUE, [])

Read = Callable[..., "Outcome"]


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running_registry() as found:
        yield found


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 1}) as found:
        yield found


@pytest.fixture
def client(registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as found:
        yield found


@pytest.fixture
def avro(client: SchemaRegistryClient, cluster: Cluster) -> None:
    """The topic holds an order in Avro."""
    cluster.produce("orders", confluent_avro.AvroSerializer(client, json.dumps(ORDER))(PEN, CTX) or b"")


@pytest.fixture
def read(command: Command, cluster: Cluster) -> Read:
    def read(*arguments: object) -> Outcome:
        return command("consume", "orders", "-e", "-b", cluster.bootstrap_servers, *arguments)

    return read


@pytest.mark.usefixtures("avro")
def test_avro_is_printed_as_json(read: Read, registry: SchemaRegistry) -> None:
    outcome = read("--value-format", "avro", "--schema-registry", registry.url)
    assert (outcome.code, outcome.out, outcome.err) == (0, AS_JSON + "\n", "")
    envelope = json.loads(read("--value-format", "avro", "-r", registry.url, "-f", "json").out)
    assert envelope["value"] == json.loads(AS_JSON)


@pytest.mark.usefixtures("avro")
@pytest.mark.parametrize("place", ["variable", "property", "file"])
def test_where_the_registry_is_may_be_said_elsewhere(
    read: Read, registry: SchemaRegistry, place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    arguments: list[object] = ["--value-format", "avro"]
    if place == "variable":
        monkeypatch.setenv("KWIRE_SCHEMA_REGISTRY_URL", registry.url)
        monkeypatch.setenv("KWIRE_SCHEMA_REGISTRY_USER_INFO", "alice:secret")
    elif place == "property":
        arguments += ["--property", f"schema.registry.url={registry.url}"]
    else:
        path = tmp_path / "client.properties"
        path.write_text(
            f"schema.registry.url={registry.url}\n"
            "basic.auth.credentials.source=USER_INFO\n"
            "basic.auth.user.info=alice:secret\n"
            "value.deserializer=io.confluent.kafka.serializers.KafkaAvroDeserializer\n"
        )
        arguments = ["--config", path]
    outcome = read(*arguments)
    assert (outcome.code, outcome.out, outcome.err) == (0, AS_JSON + "\n", "")
    assert registry.users == (set() if place == "property" else {"alice"})


@pytest.mark.parametrize("name", ["basic.auth.user.info", "schema.registry.basic.auth.user.info"])
@pytest.mark.usefixtures("avro")
def test_a_password_for_the_registry_in_a_flag_is_warned_of(
    read: Read, registry: SchemaRegistry, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As all others are: every user of the machine sees it."""
    outcome = read("--value-format", "avro", "-r", registry.url, "-X", f"{name}=alice:secret")
    assert (outcome.code, registry.users) == (0, {"alice"})
    (message,) = caplog.messages
    assert message.startswith(f"-X {name}: every user of this machine can see a secret")


def test_json_with_a_schema(
    read: Read, registry: SchemaRegistry, client: SchemaRegistryClient, cluster: Cluster
) -> None:
    cluster.produce("orders", confluent_json.JSONSerializer(JSON_ORDER, client)({"item": "pen"}, CTX) or b"")
    assert read("--value-format", "json-schema", "-r", registry.url).out == '{"item":"pen"}\n'


def test_protobuf_by_the_class_of_a_message(read: Read, client: SchemaRegistryClient, cluster: Cluster) -> None:
    serialize = confluent_protobuf.ProtobufSerializer(Timestamp, client)
    cluster.produce("orders", serialize(Timestamp(seconds=5), CTX) or b"")
    outcome = read("--value-format", "protobuf", "--protobuf", "google.protobuf.timestamp_pb2:Timestamp")
    assert (outcome.code, outcome.out) == (0, "1970-01-01T00:00:05Z\n")


@pytest.mark.usefixtures("avro")
def test_what_is_no_avro_is_named_and_what_lies_in_front_is_printed(
    read: Read, registry: SchemaRegistry, cluster: Cluster
) -> None:
    cluster.produce("orders", b'{"item": "pen"}')
    outcome = read("--value-format", "avro", "-r", registry.url)
    assert (outcome.code, outcome.out) == (1, AS_JSON + "\n")
    assert outcome.err.startswith(
        "kwire: orders-0 at offset 1: the value is not of --value-format: it has no frame of a"
    )
    assert outcome.err.endswith("--value-format hex shows its bytes, --from 2 begins behind it\n")


@pytest.mark.usefixtures("avro")
@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "the schema registry refuses this client: "),
        (500, "the schema registry failed: "),
    ],
)
def test_a_registry_that_does_not_answer_is_not_the_records_fault(
    read: Read, registry: SchemaRegistry, status: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)  # between the attempts of the registry's client
    registry.status = status
    outcome = read("--value-format", "avro", "-r", registry.url)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(f"kwire: orders-0 at offset 0: the value cannot be read: {said}")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--value-format", "avro"], "--value-format avro: where is the schema registry? Say --schema-registry URL"),
        (["--key-format", "protobuf"], "--key-format protobuf: which message? Say --protobuf MODULE:CLASS"),
        (
            ["--value-format", "protobuf", "--protobuf", "no_such_module:Order"],
            "--value-format protobuf: No module named 'no_such_module'",
        ),
        (
            ["--value-format", "protobuf", "--protobuf", "json:Order"],
            "--protobuf json:Order: there is no class Order in json",
        ),
        (
            ["--value-format", "protobuf", "--protobuf", "json:JSONDecoder"],
            "--protobuf json:JSONDecoder: this class is none of messages, which protoc makes",
        ),
        (
            ["--value-format", "protobuf", "--protobuf", ":Order"],
            "--protobuf :Order: '' cannot be imported: ValueError: Empty module name",
        ),
        (
            ["--value-format", "protobuf", "--protobuf", "broken_orders_pb2:Order"],
            "--protobuf broken_orders_pb2:Order: 'broken_orders_pb2' cannot be imported: RuntimeError: made for 9.0",
        ),
        (["--value-format", "avro", "-r", "nonsense"], "--value-format avro: the settings of the schema registry: "),
    ],
)
def test_what_a_format_misses_is_said(
    read: Read, arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_orders_pb2.py").write_text("raise RuntimeError('made for 9.0')")
    monkeypatch.syspath_prepend(tmp_path)
    outcome = read(*arguments)
    assert outcome.code == 2
    assert outcome.err.startswith(f"kwire: {said}")
