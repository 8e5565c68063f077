"""Where a partition begins that was assigned or reset by hand is looked up from the next poll on, as Java does it.

Until then the application may still change that: it commits where its group is to begin, or writes records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import pytest

from kwire import Consumer, OffsetAndMetadata, TopicPartition
from kwire.clock import Deadline
from kwire.consumer.steps import Steps
from kwire.events import Reply
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.testing import Cluster

T = TypeVar("T")
RECORDS = 10
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"t": 2}, settings={"group.initial.rebalance.delay.ms": 0}) as running:
        for tp in (T0, T1):
            running.produce("t", *(b"%d" % number for number in range(RECORDS)), partition=tp.partition)
        yield running


@pytest.fixture
def consumer(cluster: Cluster) -> Iterator[Consumer[bytes, bytes]]:
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id="g", auto_offset_reset="latest") as opened:
        yield opened


def pass_some_turns(consumer: Consumer[bytes, bytes]) -> None:
    """The network thread sends and receives, and would have time for a look-up."""
    for _ in range(10):
        consumer.end_offsets([T0])


def interrupt_the_next_wait(consumer: Consumer[bytes, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """By Ctrl-C, when what it waits for has come."""
    link = consumer._session.link
    wait_for = link.wait_for

    def interrupted(reply: Reply[T], what: str, deadline: Deadline, *, wakeable: bool) -> Steps[T]:
        monkeypatch.setattr(link, "wait_for", wait_for)
        yield from wait_for(reply, what, deadline, wakeable=wakeable)
        raise KeyboardInterrupt

    monkeypatch.setattr(link, "wait_for", interrupted)


def asks_for(request: ListOffsetsRequest, wanted: TopicPartition) -> bool:
    return any(wanted.partition == each.partition_index for topic in request.topics for each in topic.partitions)


def test_a_commit_before_the_first_poll_says_where_reading_begins(consumer: Consumer[bytes, bytes]) -> None:
    """All records were skipped: the group had no commit when the partition was assigned, so it began at the end."""
    consumer.assign([T0])
    pass_some_turns(consumer)
    consumer.commit_sync({T0: OffsetAndMetadata(3)})
    assert next(iter(consumer.poll(10))).offset == 3


@pytest.mark.parametrize("way", ["close", "commit_sync", "assign"])
def test_without_a_poll_nothing_is_committed(cluster: Cluster, consumer: Consumer[bytes, bytes], way: str) -> None:
    consumer.assign([T0])
    pass_some_turns(consumer)
    match way:
        case "close":
            consumer.close()
        case "commit_sync":
            consumer.commit_sync()
        case _:
            consumer.assign([T1])
            pass_some_turns(consumer)
    assert cluster.committed("g") == {}


def test_seek_to_end_goes_to_the_end_of_the_time_of_the_poll(
    cluster: Cluster, consumer: Consumer[bytes, bytes]
) -> None:
    consumer.assign([T0])
    consumer.seek(T0, 0)
    assert consumer.poll(10)
    consumer.seek_to_end([T0])
    pass_some_turns(consumer)
    cluster.produce("t", b"later", partition=0)
    assert not consumer.poll(0.0)
    assert consumer.position(T0) == RECORDS + 1


def test_position_asks_at_once(consumer: Consumer[bytes, bytes]) -> None:
    consumer.assign([T0, T1])
    assert consumer.position(T0) == RECORDS


def test_the_description_says_that_a_poll_is_missing(consumer: Consumer[bytes, bytes]) -> None:
    consumer.assign([T0])
    pass_some_turns(consumer)
    (partition,) = consumer.describe().partitions
    (cause,) = partition.causes
    assert cause.text == "its committed offset is looked up, which waits for a poll"


@pytest.mark.parametrize("way", ["assign", "seek_to_beginning", "a seek that Ctrl-C ends"])
def test_a_poll_that_has_records_of_others_begins_the_look_up(
    cluster: Cluster, consumer: Consumer[bytes, bytes], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Otherwise a partition without a position would wait until nothing is buffered of all the others."""
    consumer.assign([T0])
    consumer.seek(T0, 0)
    assert consumer.poll(10, max_records=1)
    consumer.assign([T0, T1])
    match way:
        case "seek_to_beginning":
            consumer.seek_to_beginning([T1])
        case "a seek that Ctrl-C ends":
            consumer.poll(0.0, max_records=1)
            interrupt_the_next_wait(consumer, monkeypatch)
            with pytest.raises(KeyboardInterrupt):
                consumer.seek_to_beginning([T1])
        case _:
            pass
    pass_some_turns(consumer)
    asked = cluster.control.on(ListOffsetsRequest, where=lambda request, _: asks_for(request, T1)).observe()
    assert [record.partition for record in consumer.poll(10, max_records=1)] == [0]
    pass_some_turns(consumer)
    assert asked.fired
