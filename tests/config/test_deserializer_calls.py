"""A deserializer that cannot be called as kwire calls it is refused at once, and not at the first record."""

from __future__ import annotations

import json
import operator
import pickle
import struct
from functools import partial
from typing import Any

import pytest

from kwire import ConfigError, ConsumerConfig


class OfTwo:
    def deserialize(self, topic: str, data: bytes) -> object:
        return topic, data


@pytest.mark.parametrize("field", ["key_deserializer", "value_deserializer"])
@pytest.mark.parametrize(
    ("deserialize", "complaint"),
    [
        (lambda: None, r"called with \(bytes\), and cannot be: too many"),
        (lambda topic, data: (topic, data), r"called with \(bytes\), and cannot be: missing .*'data'"),
        (lambda data, ctx, more: (data, ctx, more), r"called with \(bytes, ctx\), and cannot be: missing .*'more'"),
        (OfTwo(), r"called with \(topic, headers, data\), and cannot be: too many"),
    ],
)
def test_what_takes_other_arguments_is_refused(field: str, deserialize: Any, complaint: str) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError, match=complaint):
        ConsumerConfig.of({"bootstrap_servers": "b:1", field: deserialize})


@pytest.mark.parametrize(
    "deserialize",
    [
        *(str, int, float, json.loads, pickle.loads, struct.Struct(">q").unpack, partial(json.loads, parse_int=str)),
        *(bytes.decode, operator.methodcaller("decode"), lambda *given: given, lambda data, encoding="utf-8": data),
    ],
)
def test_what_takes_bytes_is_taken(deserialize: object) -> None:
    assert (
        ConsumerConfig.of({"bootstrap_servers": "b:1", "value_deserializer": deserialize}).value_deserializer
        is deserialize
    )
