"""A program of kafka-python changes the name of the package and nothing else: what it imports is there."""

from __future__ import annotations

import warnings
from importlib import import_module

import pytest

with warnings.catch_warnings(action="ignore"):  # it reads its schemas in a deprecated way
    import kafka

pytestmark = pytest.mark.slow
OURS = "kwire.compat.kafka_python"
IMPORTED = [
    ("", "KafkaConsumer"),
    ("", "TopicPartition"),
    ("", "OffsetAndMetadata"),
    ("", "ConsumerGroupMetadata"),
    ("", "ConsumerRebalanceListener"),
    ("", "AsyncConsumerRebalanceListener"),
    (".consumer", "KafkaConsumer"),
    (".consumer.group", "KafkaConsumer"),
    (".consumer.fetcher", "ConsumerRecord"),
    (".consumer.subscription_state", "ConsumerRebalanceListener"),
    (".consumer.subscription_state", "AsyncConsumerRebalanceListener"),
    (".structs", "TopicPartition"),
    (".structs", "OffsetAndMetadata"),
    (".structs", "OffsetAndTimestamp"),
    (".structs", "ConsumerGroupMetadata"),
    (".future", "Future"),
    (".errors", "KafkaError"),
    (".errors", "for_code"),
]


@pytest.mark.parametrize(("module", "name"), IMPORTED)
def test_a_name_is_in_the_module_where_kafka_python_has_it(module: str, name: str) -> None:
    assert hasattr(import_module(f"{kafka.__name__}{module}"), name)
    assert hasattr(import_module(f"{OURS}{module}"), name)


def test_a_name_is_the_same_thing_in_each_module() -> None:
    for name in import_module(OURS).__all__:
        kinds = {getattr(import_module(f"{OURS}{module}"), name) for module, of in IMPORTED if of == name}
        assert kinds <= {getattr(import_module(OURS), name)}


@pytest.mark.parametrize(
    "name", ["KafkaError", "CommitFailedError", "RebalanceInProgressError", "UnknownMemberIdError"]
)
def test_an_error_that_aiokafka_has_as_well_is_the_same_class(name: str) -> None:
    assert getattr(import_module(f"{OURS}.errors"), name) is getattr(
        import_module("kwire.compat.aiokafka.errors"), name
    )
