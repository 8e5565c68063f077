"""Names that `kwire` does not have. The error of an import says where the name is, or what there is instead."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import kwire
from kwire.import_hints import HOMES, OTHER_NAMES, import_hint


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        (
            "KafkaConsumer",
            "kwire has no KafkaConsumer: kwire's own is Consumer; kwire.compat.kafka_python has a KafkaConsumer",
        ),
        ("AIOKafkaConsumer", "kwire has no AIOKafkaConsumer: kwire's own is AsyncConsumer; kwire.compat.aiokafka"),
        ("AIOConsumer", "kwire has no AIOConsumer: kwire's own is AsyncConsumer; kwire.compat.confluent_kafka.aio"),
        ("KafkaException", "kwire has no KafkaException: kwire's is KafkaError"),
        ("WakeupException", "kwire has no WakeupException: kwire's is WakeupError"),
        ("ConsumerStoppedError", "kwire has no ConsumerStoppedError: after wakeup(), poll() raises a WakeupError"),
        ("OFFSET_STORED", "kwire has no OFFSET_STORED: an assigned partition begins at its committed offset"),
        ("CommitFailedException", "kwire has no CommitFailedException: kwire's is CommitFailedError"),
        ("ConsumerRebalanceListener", "kwire has no ConsumerRebalanceListener: kwire's is RebalanceListener"),
        (
            "StringDeserializer",
            "StringDeserializer is in kwire.deserializers: from kwire.deserializers import StringDeserializer",
        ),
        ("Processor", "Processor is in kwire.processing: from kwire.processing import Processor"),
        ("Producer", "kwire has no Producer: kwire only reads"),
        ("KafkaProducer", "kwire has no KafkaProducer: kwire only reads"),
    ],
)
def test_an_import_by_habit_is_told_where_to_look(name: str, answer: str) -> None:
    """Python says only that it cannot import the name, and puts that in the place of an AttributeError's text."""
    with pytest.raises(ImportError, match=f"^{re.escape(answer)}"):
        exec(f"from kwire import {name}")


@pytest.mark.parametrize("name", ["KafkaConsumer", "Processor", "CommitFailedException"])
def test_code_that_asks_for_the_name_is_told_that_it_is_not_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ImportError went through `hasattr`, `mock.patch(create=True)` and `pickle.whichmodule`."""
    assert not hasattr(kwire, name)
    assert getattr(kwire, name, None) is None
    monkeypatch.setattr(kwire, name, object(), raising=False)
    monkeypatch.undo()
    with pytest.raises(AttributeError, match=name):
        getattr(kwire, name)
    with pytest.raises(ImportError, match=name):
        exec(f"from kwire import {name}")


@pytest.mark.parametrize("name", ["Nothing", "NothingException", "OFFSET_INVALID", "__wrapped__", "consumr"])
def test_any_other_name_is_just_not_there(name: str) -> None:
    assert not hasattr(kwire, name)
    with pytest.raises(ImportError, match=f"cannot import name '{name}' from 'kwire'"):
        exec(f"from kwire import {name}")


def test_nothing_is_answered_for_that_is_there() -> None:
    names = [*OTHER_NAMES, *(name for names in HOMES.values() for name in names)]
    assert [name for name in names if name in vars(kwire)] == []


@pytest.mark.parametrize("home", HOMES)
def test_names_of_kwires_own_are_where_it_says(home: str) -> None:
    assert [name for name in HOMES[home] if not hasattr(importlib.import_module(home), name)] == []


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("KafkaConsumer", ["kwire.Consumer", "kwire.compat.kafka_python.KafkaConsumer"]),
        ("AIOKafkaConsumer", ["kwire.AsyncConsumer", "kwire.compat.aiokafka.AIOKafkaConsumer"]),
        ("AIOConsumer", ["kwire.AsyncConsumer", "kwire.compat.confluent_kafka.aio.AIOConsumer"]),
        ("AsyncKafkaConsumer", ["kwire.AsyncConsumer"]),
        ("DeserializingConsumer", ["kwire.Consumer"]),
        ("ConsumerRebalanceListener", ["kwire.RebalanceListener", "kwire.AsyncRebalanceListener"]),
        ("AsyncConsumerRebalanceListener", ["kwire.RebalanceListener", "kwire.AsyncRebalanceListener"]),
        ("Message", ["kwire.Record"]),
        ("ConsumerRecord", ["kwire.Record"]),
        ("ConsumerRecords", ["kwire.Records"]),
        ("KafkaException", ["kwire.KafkaError"]),
        ("TimeoutException", ["kwire.KafkaTimeoutError"]),
        ("TimeoutError", ["kwire.KafkaTimeoutError"]),
        ("NoBrokersAvailable", ["kwire.BootstrapError", "kwire.DisconnectError"]),
        ("KafkaConnectionError", ["kwire.BootstrapError", "kwire.DisconnectError"]),
        ("WakeupException", ["kwire.WakeupError"]),
        ("ConsumerStoppedError", ["kwire.WakeupError"]),
        ("OFFSET_BEGINNING", ["kwire.Consumer.seek_to_beginning", "kwire.Consumer.seek_to_end"]),
    ],
)
def test_what_an_answer_names_is_there(name: str, named: list[str]) -> None:
    hint = (import_hint(name, kwire.__all__) or "").removeprefix(f"kwire has no {name}: ")
    for each in named:
        assert re.search(rf"\b{each.rpartition('.')[2]}\b", hint)
        pkgutil.resolve_name(each)
