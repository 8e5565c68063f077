"""Names that `kwire` does not have: whoever imports one by habit is told where it is, or what there is instead."""

from __future__ import annotations

import importlib
import re

import pytest

import kwire
from kwire.other_names import _HOMES, _INSTEAD, instead_of


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("KafkaConsumer", "kwire's own is Consumer; kwire.compat.kafka_python has a KafkaConsumer"),
        ("AIOKafkaConsumer", "kwire's own is AsyncConsumer; kwire.compat.aiokafka"),
        ("AIOConsumer", "kwire's own is AsyncConsumer; kwire.compat.confluent_kafka.aio"),
        ("KafkaException", "kwire's is KafkaError"),
        ("WakeupException", "wakeup() raises a WakeupError"),
        ("CommitFailedException", "kwire's is CommitFailedError"),
        ("ConsumerRebalanceListener", "kwire's is RebalanceListener"),
        ("StringDeserializer", "from kwire.deserializers import StringDeserializer"),
        ("Processor", "from kwire.processing import Processor"),
        ("Producer", "kwire only reads"),
        ("KafkaProducer", "kwire only reads"),
    ],
)
def test_an_import_by_habit_is_told_where_to_look(name: str, answer: str) -> None:
    """Python says only that it cannot import the name, and puts that in the place of an AttributeError's text."""
    with pytest.raises(ImportError, match=f"^kwire has no {name}: {re.escape(answer)}"):
        exec(f"from kwire import {name}")


@pytest.mark.parametrize("name", ["KafkaConsumer", "Processor", "CommitFailedException"])
def test_code_that_asks_for_the_name_is_told_that_it_is_not_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ImportError went through `hasattr`, `mock.patch(create=True)` and `pickle.whichmodule`."""
    assert not hasattr(kwire, name)
    assert getattr(kwire, name, None) is None
    monkeypatch.setattr(kwire, name, object(), raising=False)
    monkeypatch.undo()
    with pytest.raises(AttributeError, match=f"^kwire has no {name}: "):
        getattr(kwire, name)
    with pytest.raises(ImportError, match=f"^kwire has no {name}: "):
        exec(f"from kwire import {name}")


@pytest.mark.parametrize("name", ["Nothing", "NothingException", "__wrapped__", "consumr"])
def test_any_other_name_is_just_not_there(name: str) -> None:
    assert not hasattr(kwire, name)
    with pytest.raises(ImportError, match=f"cannot import name '{name}' from 'kwire'"):
        exec(f"from kwire import {name}")


def test_nothing_is_answered_for_that_is_there() -> None:
    names = [*_INSTEAD, *(name for names in _HOMES.values() for name in names)]
    assert [name for name in names if name in vars(kwire)] == []


@pytest.mark.parametrize("home", _HOMES)
def test_names_of_kwires_own_are_where_it_says(home: str) -> None:
    assert [name for name in _HOMES[home] if not hasattr(importlib.import_module(home), name)] == []


@pytest.mark.parametrize("name", _INSTEAD)
def test_what_an_answer_names_is_there(name: str) -> None:
    answer = instead_of(name, kwire.__all__) or ""
    for module in re.findall(r"kwire(?:\.\w+)+", answer):
        found = importlib.import_module(module)
        assert module == "kwire.deserializers" or hasattr(found, name)
    for named in re.findall(r"\b[A-Z][a-z]+[A-Z]\w+", answer.replace(name, "")):
        assert hasattr(kwire, named), named
