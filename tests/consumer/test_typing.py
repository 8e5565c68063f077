"""The public types are what users need: mypy checks these snippets, pytest that the names are there."""

from __future__ import annotations

from typing import assert_type

import kwire
from kwire import Consumer, ConsumerConfig, OffsetAndMetadata, Record, Records, TopicPartition


def typed(consumer: Consumer[str, bytes]) -> None:
    """Never run: for the type checker."""
    records = consumer.poll(1.0)
    assert_type(records, Records[str, bytes])
    for record in records:
        assert_type(record, Record[str, bytes])
        assert_type(record.key, str | None)
        assert_type(record.value, bytes | None)
        assert_type(record.topic_partition, TopicPartition)
    for record in consumer:
        assert_type(record, Record[str, bytes])
    assert_type(consumer.assignment(), frozenset[TopicPartition])
    assert_type(consumer.position(TopicPartition("t", 0)), int)
    assert_type(consumer.current_lag(TopicPartition("t", 0)), int | None)
    assert_type(consumer.committed([]), dict[TopicPartition, OffsetAndMetadata | None])
    assert_type(consumer.end_offsets([]), dict[TopicPartition, int])
    with consumer as entered:
        assert_type(entered, Consumer[str, bytes])


def wrong(servers: str) -> None:
    """Never run: each line is an error that mypy has to find, or it reports the comment as unused."""
    Consumer[bytes, bytes](bootstrap_server=servers)  # type: ignore[call-overload]  # misspelt
    Consumer[bytes, bytes](bootstrap_servers=servers, max_poll_records="5")  # type: ignore[call-overload]  # a number
    Consumer[bytes, bytes](bootstrap_servers=servers).poll("1")  # type: ignore[arg-type]  # seconds
    ConsumerConfig.of(bootstrap_servers=servers, group=1)  # type: ignore[call-arg]  # no such setting


def test_every_public_name_is_there() -> None:
    assert all(hasattr(kwire, name) for name in kwire.__all__)
    assert len(set(kwire.__all__)) == len(kwire.__all__)
