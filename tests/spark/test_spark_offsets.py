"""Offsets as Spark keeps them: what its `kafka` source writes is read, and the other way round."""

from __future__ import annotations

import json

import pytest

from kwire import TopicPartition
from kwire.spark.errors import OptionError
from kwire.spark.offsets import (
    from_spark,
    offsets_from_json,
    partitions_from_json,
    timestamps_from_json,
    to_json,
    to_spark,
)

A0, A2, A10, B0 = TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("a", 10), TopicPartition("b", 0)


def test_offsets_are_written_in_one_order_whatever_order_they_came_in() -> None:
    assert to_json({B0: 4, A10: 3, A2: 2, A0: 1}) == '{"a":{"0":1,"2":2,"10":3},"b":{"0":4}}'


def test_what_is_written_is_read_again() -> None:
    offsets = {A0: 1, A10: 2**63 - 1, B0: 0}
    assert from_spark(json.loads(json.dumps(to_spark(offsets)))) == offsets


def test_what_the_kafka_source_left_in_a_checkpoint_is_read() -> None:
    assert from_spark(json.loads('{"b":{"0":50},"a":{"10":7,"0":250}}')) == {B0: 50, A10: 7, A0: 250}


def test_an_option_names_offsets_and_those_to_be_looked_up() -> None:
    assert offsets_from_json('{"a":{"0":23,"2":-1},"b":{"0":-2}}') == {A0: 23, A2: -1, B0: -2}


@pytest.mark.parametrize(
    "text",
    [
        '{"a":{"0":9223372036854775808}}',
        "",
        "0",
        "[]",
        '{"a":[0]}',
        '{"a":{"0":"7"}}',
        '{"a":{"x":7}}',
        '{"a":{"0":1.5}}',
        '{"a":{"0":true}}',
        "{",
        "null",
    ],
)
def test_what_is_no_offsets_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(OptionError, match=r'Expected e\.g\. \{"topicA":\{"0":23,"1":-1\},"topicB":\{"0":-2\}\}, got'):
        offsets_from_json(text)
    with pytest.raises(OptionError, match=r'Expected e\.g\. \{"topicA": \{"0": 123456789, "1": 123456789\}'):
        timestamps_from_json(text)


def test_partitions_to_assign() -> None:
    assert partitions_from_json('{"a":[0,10],"b":[0]}') == {A0, A10, B0}


@pytest.mark.parametrize("text", ["{", '{"a":"0"}', '{"a":["0"]}', '{"a":[true]}', '{"a":1}', '["a"]'])
def test_what_is_no_partitions_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(OptionError, match=r'Expected e\.g\. \{"topicA":\[0,1\],"topicB":\[0,1\]\}, got'):
        partitions_from_json(text)


def test_the_offset_of_another_kind_of_query_is_not_taken_for_one() -> None:
    with pytest.raises(OptionError, match="not the offsets of a Kafka source"):
        from_spark({"a": {"0": {"head": 7, "gaps": [[0, 3]]}}})
