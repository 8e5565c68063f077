"""`kwire.read` while records are deleted: what is left does not look like all there was."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import kwire
from kwire import Record, TopicPartition
from kwire.errors import LogTruncationError, OffsetOutOfRangeError
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.testing import Cluster

SALES = TopicPartition("sales", 0)
Records = Iterator[Record[bytes, bytes]]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as found:
        found.create_topic("sales", partitions=2)
        for number in range(20):
            found.produce("sales", b"%d" % number)
        yield found


@pytest.fixture
def read(cluster: Cluster) -> Callable[..., Records]:
    """Reads topics; each record comes in an answer of its own."""

    def begin(start: int | None = None, end: int | None = None, **settings: object) -> Records:
        small = {"max_partition_fetch_bytes": 1, "fetch_buffer_bytes": 1, "fetch_max_wait_ms": 20}
        config = {"bootstrap_servers": cluster.bootstrap_servers, **small, **settings}
        return kwire.read(config, "sales", start=start, end=end)

    return begin


@pytest.mark.parametrize(("start", "end", "last"), [(None, None, 14), (0, 12, 11), (-20, None, 14)])
def test_records_that_are_deleted_while_it_reads_are_an_error(
    cluster: Cluster, read: Callable[..., Records], start: int | None, end: int | None, last: int
) -> None:
    """It went on behind the gap, or ended before its end as if that had been all."""
    records = read(start, end)
    assert next(records).offset == 0
    cluster.delete_records("sales", 0, 15)
    found: list[int] = [0]
    with pytest.raises(OffsetOutOfRangeError) as raised:
        found.extend(record.offset for record in records)
    assert found == list(range(len(found)))
    gap = f"of sales-0 from offset {len(found)} to {last}"
    assert str(raised.value).startswith(f"records were deleted before they were read, {gap}: read it again, or pass ")
    assert raised.value.offsets == {SALES: len(found)}
    with pytest.raises(OffsetOutOfRangeError):  # again
        next(records)


def test_where_the_log_begins_may_be_unknown(cluster: Cluster, read: Callable[..., Records]) -> None:
    partition = ListOffsetsPartitionResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    refusal = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="sales", partitions=[partition])])
    records = read()
    next(records)
    cluster.control.on(ListOffsetsRequest).answer(refusal)
    cluster.delete_records("sales", 0, 15)
    with pytest.raises(OffsetOutOfRangeError, match=r"of sales-0 from offset \d+ on: read it again"):
        list(records)


@pytest.mark.parametrize("start", [None, 2, -20])
def test_what_is_deleted_before_it_reads_is_no_loss(
    cluster: Cluster, read: Callable[..., Records], start: int | None
) -> None:
    """A start that moves between the look-up and the first fetch: a read that begins later finds the same."""
    records = read(start)
    cluster.delete_records("sales", 0, 15)
    assert [record.offset for record in records] == [15, 16, 17, 18, 19]


def test_all_that_is_wanted_may_be_deleted_before_it_reads(cluster: Cluster, read: Callable[..., Records]) -> None:
    records = read(end=12)
    cluster.delete_records("sales", 0, 15)
    assert list(records) == []


def test_behind_the_end_nothing_is_lost(cluster: Cluster, read: Callable[..., Records]) -> None:
    """The next fetch is under way when the end is reached, and the partition paused."""
    for number in range(20):
        cluster.produce("sales", b"%d" % number, partition=1)
    records = read(end=3)
    while (record := next(records)).topic_partition != SALES or record.offset < 2:
        pass
    cluster.delete_records("sales", 0, 15)
    assert {record.topic_partition for record in records} <= {TopicPartition("sales", 1)}


def test_with_a_policy_of_the_user_it_goes_on(cluster: Cluster, read: Callable[..., Records]) -> None:
    records = read(auto_offset_reset="earliest")
    assert next(records).offset == 0
    cluster.delete_records("sales", 0, 15)
    assert [record.offset for record in records][-5:] == [15, 16, 17, 18, 19]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, r"sales-0 was read up to offset \d+, which means nothing in its log any more: its topic was recreated"),
        (
            {"auto_offset_reset": "earliest"},
            r"sales-0 begins anew at offset 0, where it was to be read from offset \d+ on",
        ),
    ],
    ids=["by default", "earliest"],
)
def test_a_topic_that_is_recreated_is_an_error(
    cluster: Cluster, read: Callable[..., Records], settings: dict[str, object], text: str
) -> None:
    """Records came that were written after the call, behind those of the topic before, and only the log said so."""
    records = read(**settings)
    assert [next(records).value for _ in range(3)] == [b"0", b"1", b"2"]
    cluster.delete_topic("sales")
    cluster.create_topic("sales", partitions=2)
    cluster.produce("sales", *(b"new %d" % number for number in range(40)))
    found: list[bytes | None] = []
    with pytest.raises(LogTruncationError, match=text):
        found.extend(record.value for record in records)
    assert not [value for value in found if (value or b"").startswith(b"new")]


def test_a_topic_that_is_recreated_before_it_is_read_is_an_error_if_it_ends_before_the_start(
    cluster: Cluster, read: Callable[..., Records]
) -> None:
    """Records came that lie in front of the start."""
    records = read(15)
    cluster.delete_topic("sales")
    cluster.create_topic("sales", partitions=2)
    cluster.produce("sales", b"new")
    with pytest.raises(
        LogTruncationError, match="sales-0 begins anew at offset 0, where it was to be read from offset 15"
    ):
        list(records)
