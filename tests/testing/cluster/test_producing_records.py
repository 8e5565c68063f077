"""Records that a test writes into the cluster: as values, as `NewRecord`s, or as producers have them."""

from __future__ import annotations

from typing import Any

import pytest

import kwire
from kwire.errors import InvalidArgumentError
from kwire.testing import Cluster, NewRecord


@pytest.mark.parametrize(
    ("records", "keywords", "expected"),
    [
        ([], {"value": b"v", "key": b"k"}, (b"v", b"k")),
        ([b"v"], {"key": b"k"}, (b"v", b"k")),
        ([], {"value": b"v"}, (b"v", None)),
        ([], {"key": b"k"}, (None, b"k")),
    ],
)
def test_one_record_may_be_given_as_producers_have_it(
    kafka_cluster: Cluster, records: list[bytes], keywords: dict[str, bytes], expected: tuple[bytes | None, ...]
) -> None:
    """Only Python answered, that `value` is unexpected."""
    kafka_cluster.create_topic("orders")
    assert kafka_cluster.produce("orders", *records, **keywords, partition=0) == 0
    (record,) = kwire.read("orders", bootstrap_servers=kafka_cluster.bootstrap_servers)
    assert (record.value, record.key) == expected


@pytest.mark.parametrize(
    ("records", "keywords"),
    [
        ([b"a", b"b"], {"key": b"k"}),
        ([b"a"], {"value": b"b"}),
        ([NewRecord(b"a")], {"key": b"k"}),
    ],
)
def test_a_key_beside_several_records_is_refused(
    kafka_cluster: Cluster, records: list[NewRecord | bytes], keywords: dict[str, bytes]
) -> None:
    kafka_cluster.create_topic("orders")
    with pytest.raises(InvalidArgumentError, match=r"are of one record; give several as NewRecord\(value, key\)"):
        kafka_cluster.produce("orders", *records, **keywords, partition=0)
    assert kafka_cluster.end_offset("orders") == 0


@pytest.mark.parametrize(("records", "keywords"), [(["v"], {}), ([], {"value": "v", "key": b"k"})])
def test_a_value_that_is_no_bytes_is_refused_in_either_way(
    kafka_cluster: Cluster, records: list[Any], keywords: dict[str, Any]
) -> None:
    kafka_cluster.create_topic("orders")
    with pytest.raises(InvalidArgumentError, match=r"bytes.*not str"):
        kafka_cluster.produce("orders", *records, **keywords)
