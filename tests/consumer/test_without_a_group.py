"""Topics that are read without a group: all partitions, new ones too; and to their ends, by `kwire.read`."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import kwire
from kwire import Consumer, TopicPartition
from kwire.errors import (
    IllegalStateError,
    InvalidArgumentError,
    KafkaTimeoutError,
    RecordDeserializationError,
)
from kwire.testing import Cluster, NewRecord
from tests.network_clients import network_threads


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as found:
        found.create_topic("orders", partitions=2)
        yield found


def values(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    for _ in range(100):
        found += [record.value for record in consumer.poll(0.5)]
        if len(found) >= count:
            break
    return sorted(found, key=str)


def open_consumer(cluster: Cluster, *topics: str, max_age_ms: int = 300_000) -> Consumer:
    return Consumer(
        *topics,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        metadata_max_age_ms=max_age_ms,
    )


def test_all_partitions_are_read_and_nothing_is_committed(cluster: Cluster) -> None:
    for partition in (0, 1):
        cluster.produce("orders", b"%d" % partition, partition=partition)
    with open_consumer(cluster, "orders") as consumer:
        assert consumer.subscription() == {"orders"}
        assert values(consumer, 2) == [b"0", b"1"]
        assert consumer.assignment() == {TopicPartition("orders", 0), TopicPartition("orders", 1)}
        assert not consumer.config.enable_auto_commit


def test_a_loop_over_it_needs_no_group(cluster: Cluster) -> None:
    cluster.produce("orders", b"first", partition=1)
    with open_consumer(cluster, "orders") as consumer:
        assert next(iter(consumer)).value == b"first"


def test_a_topic_that_comes_later_is_read_then(cluster: Cluster) -> None:
    with open_consumer(cluster, "orders", "refunds", max_age_ms=50) as consumer:
        cluster.create_topic("refunds", partitions=1)
        cluster.produce("refunds", b"later", partition=0)
        assert values(consumer, 1) == [b"later"]


@pytest.mark.slow
def test_new_partitions_are_read_as_well(cluster: Cluster) -> None:
    cluster.produce("orders", b"0", partition=0)
    with open_consumer(cluster, "orders", max_age_ms=50) as consumer:
        assert values(consumer, 1) == [b"0"]
        cluster.grow_topic("orders", 3)
        cluster.produce("orders", b"2", partition=2)
        assert values(consumer, 1) == [b"2"]


def test_what_is_assigned_or_unsubscribed_takes_its_place(cluster: Cluster) -> None:
    with open_consumer(cluster, "orders") as consumer:
        consumer.assign([TopicPartition("orders", 1)])
        assert consumer.assignment() == {TopicPartition("orders", 1)}
        consumer.unsubscribe()
        with pytest.raises(IllegalStateError, match="nothing to poll"):
            consumer.poll(0.0)


def test_a_topic_is_read_to_where_it_ended(cluster: Cluster) -> None:
    for number in range(5):
        cluster.produce("orders", b"%d" % number, partition=number % 2)
    records = kwire.read("orders", bootstrap_servers=cluster.bootstrap_servers, value_deserializer=int)
    cluster.produce("orders", b"99", partition=0)
    assert sorted(record.value or 0 for record in records) == [0, 1, 2, 3, 4]


def test_an_empty_topic_is_over_at_once(cluster: Cluster) -> None:
    assert list(kwire.read({"bootstrap.servers": cluster.bootstrap_servers}, "orders")) == []


def read_numbers(cluster: Cluster, start: int | datetime | None = None, end: int | datetime | None = None) -> list[int]:
    """The values of orders, in their order."""
    records = kwire.read("orders", start=start, end=end, bootstrap_servers=cluster.bootstrap_servers)
    return sorted(int(record.value or b"") for record in records)


def minute(number: int) -> datetime:
    return datetime(2026, 11, 1, 8, number, tzinfo=UTC)


@pytest.fixture
def of_ten_minutes(cluster: Cluster) -> Cluster:
    """Record N is of minute N; the even ones lie in partition 0, the odd ones in partition 1."""
    for number in range(10):
        at_ms = round(minute(number).timestamp() * 1000)
        cluster.produce("orders", NewRecord(b"%d" % number, timestamp_ms=at_ms), partition=number % 2)
    return cluster


@pytest.mark.parametrize(
    ("start", "end", "numbers"),
    [
        (None, None, range(10)),
        (3, None, range(6, 10)),
        (0, 2, range(4)),
        (-1, None, [8, 9]),
        (-2, -1, [6, 7]),
        (-99, 99, range(10)),
        (99, None, []),
        (3, 3, []),
        (4, 2, []),
        (minute(5), None, range(5, 10)),
        (None, minute(5), range(5)),
        (minute(2), minute(7), range(2, 7)),
        (minute(9), None, [9]),
        (minute(30), None, []),
        (minute(2), 3, [2, 3, 4, 5]),
        (-3, minute(7), [4, 5, 6]),
        (np.int64(-1), None, [8, 9]),
    ],
)
def test_a_part_of_a_topic_is_read(
    of_ten_minutes: Cluster, start: int | datetime | None, end: int | datetime | None, numbers: Iterable[int]
) -> None:
    assert read_numbers(of_ten_minutes, start, end) == list(numbers)


def test_the_last_records_are_read_to_where_the_topic_ended(of_ten_minutes: Cluster) -> None:
    records = kwire.read("orders", start=-1, bootstrap_servers=of_ten_minutes.bootstrap_servers)
    of_ten_minutes.produce("orders", b"10", partition=0)
    assert sorted(record.offset for record in records) == [4, 4]


def test_times_are_finer_than_those_of_records(of_ten_minutes: Cluster) -> None:
    """A record of the millisecond that has begun is before such a time."""
    just_after = minute(5) + timedelta(microseconds=1)
    assert read_numbers(of_ten_minutes, start=just_after) == [6, 7, 8, 9]
    assert read_numbers(of_ten_minutes, end=just_after) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("bound", ["start", "end"])
def test_milliseconds_are_not_taken_for_an_offset(of_ten_minutes: Cluster, bound: str) -> None:
    """Nothing was read, or all."""
    with pytest.raises(InvalidArgumentError, match="if it is a time, give a datetime"):
        read_numbers(of_ten_minutes, **{bound: 1_793_520_000_000})


def test_without_a_policy_it_begins_at_the_beginning(of_ten_minutes: Cluster) -> None:
    records = kwire.read("orders", bootstrap_servers=of_ten_minutes.bootstrap_servers, auto_offset_reset="none")
    assert len(list(records)) == 10


def test_an_error_does_not_look_like_the_end(of_ten_minutes: Cluster) -> None:
    """A generator that has raised is over: who went on behind the error missed all that was left."""
    of_ten_minutes.produce("orders", b"bad", b"10", partition=0)
    servers = of_ten_minutes.bootstrap_servers
    records = kwire.read("orders", start=5, bootstrap_servers=servers, value_deserializer=int)
    for _ in range(3):
        with pytest.raises(RecordDeserializationError, match="at offset 5"):
            next(records)
    assert next(kwire.read("orders", start=6, bootstrap_servers=servers, value_deserializer=int)).value == 10


def test_reading_may_be_closed(cluster: Cluster) -> None:
    cluster.produce("orders", b"0", b"1", partition=0)
    before = network_threads()
    with closing(kwire.read("orders", bootstrap_servers=cluster.bootstrap_servers)) as records:
        assert next(records).value == b"0"
    assert list(records) == []
    assert network_threads() <= before


@pytest.mark.slow
def test_a_topic_that_is_deleted_meanwhile_is_named_as_the_cause(cluster: Cluster) -> None:
    """The error said only that nothing came, and for how long."""
    cluster.create_topic("sales", partitions=1)
    for number in range(20):
        cluster.produce("sales", b"%d" % number)
    records = kwire.read(
        "sales",
        bootstrap_servers=cluster.bootstrap_servers,
        max_partition_fetch_bytes=1,
        fetch_buffer_bytes=1,
        default_api_timeout_ms=1_000,
    )
    assert next(records).value == b"0"
    cluster.delete_topic("sales")
    with pytest.raises(KafkaTimeoutError, match="nothing came of sales-0 for 1000 ms: topic 'sales' does not exist"):
        list(records)


def test_what_is_deleted_is_not_waited_for(of_ten_minutes: Cluster) -> None:
    of_ten_minutes.delete_records("orders", 0, 3)
    assert read_numbers(of_ten_minutes, 1, 4) == [3, 5, 6, 7]


@pytest.mark.parametrize("bound", ["earliest", 1.5, True, datetime(2026, 11, 1)])  # noqa: DTZ001
@pytest.mark.parametrize("name", ["start", "end"])
def test_a_bound_that_is_none_is_refused(cluster: Cluster, name: str, bound: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} (is an offset, -N for the last N|has no time zone)"):
        read_numbers(cluster, **{name: bound})


def test_reading_may_be_left_early(cluster: Cluster) -> None:
    for number in range(5):
        cluster.produce("orders", b"%d" % number, partition=0)
    for record in kwire.read("orders", bootstrap_servers=cluster.bootstrap_servers):
        assert record.value == b"0"
        break


def test_reading_may_be_left_before_it_has_begun(cluster: Cluster) -> None:
    """Nothing of the generator had run, so nothing closed the consumer, and a warning blamed the program for that."""
    cluster.produce("orders", b"0", partition=0)
    before = network_threads()
    records = kwire.read("orders", bootstrap_servers=cluster.bootstrap_servers)
    del records
    gc.collect()
    assert network_threads() <= before


def test_what_cannot_be_read_is_refused(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    for _ in range(2):  # it is not created by the first one
        with pytest.raises(InvalidArgumentError, match="there is no topic 'none'"):
            kwire.read("none", bootstrap_servers=servers)
    with pytest.raises(InvalidArgumentError, match="leave group_id out"):
        kwire.read("orders", bootstrap_servers=servers, group_id="g")
    with pytest.raises(InvalidArgumentError, match="name a topic"):
        kwire.read(bootstrap_servers=servers)


def test_a_timeout_names_what_the_user_has_called() -> None:
    """It named `partitions_for`, which read() calls by itself."""
    with pytest.raises(KafkaTimeoutError, match=r"^kwire\.read took too long; .*refused"):
        kwire.read("orders", bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=200)
