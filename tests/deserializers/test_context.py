"""Functions that want to know where their bytes come from are told so; all others get bytes alone."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kwire import Consumer, Header
from kwire.deserializers import SerializationContext
from kwire.serialization_context import takes_context
from kwire.testing import Cluster, NewRecord


def with_ctx(data: bytes, ctx: SerializationContext) -> str:
    return f"{ctx.topic} {ctx.field} {data.decode()} {[tuple(header) for header in ctx.headers]}"


class Callee:
    def __call__(self, data: bytes, context: SerializationContext) -> str:
        return with_ctx(data, context)


@pytest.mark.parametrize("function", [with_ctx, Callee()])
def test_the_name_of_the_second_parameter_asks_for_it(function: object) -> None:
    assert takes_context(function)


@pytest.mark.parametrize("function", [bytes.decode, int, json.loads, str, len, lambda data, encoding="": data])
def test_another_second_parameter_does_not(function: object) -> None:
    assert not takes_context(function)


@pytest.mark.slow
@pytest.mark.parametrize("function", [with_ctx, Callee()])
def test_it_is_told_topic_headers_and_which_of_the_two(
    kafka_cluster: Cluster, function: Callable[[bytes, SerializationContext], str]
) -> None:
    kafka_cluster.create_topic("orders")
    kafka_cluster.produce("orders", NewRecord(b"v", b"k", (Header("a", b"1"),)), NewRecord(None, b"k"))
    with Consumer(
        "orders",
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        key_deserializer=function,
        value_deserializer=function,
    ) as consumer:
        first, second = consumer.poll(10)
    assert (first.key, first.value) == ("orders key k [('a', b'1')]", "orders value v [('a', b'1')]")
    assert (second.key, second.value) == ("orders key k []", None)
