"""What a task reads, on a cluster in the process: its ranges, what is left of them, and what it says when it cannot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire import TopicPartition
from kwire.clock import monotonic_ms
from kwire.consumer.range_consumer import RangeConsumer
from kwire.errors import CorruptRecordError, KafkaTimeoutError
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.spark import range_reader
from kwire.spark.errors import DataLossError, OffsetsError
from kwire.spark.options import SourceOptions, batch_options
from kwire.spark.planning import Task
from kwire.spark.range_reader import read_task
from kwire.spark.ranges import OffsetRange
from kwire.testing import Cluster

AT = r"127\.0\.0\.1:\d+"
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Two partitions of 100 records, ten in a batch, whose values are their offsets."""
    with Cluster() as kafka:
        kafka.create_topic("a", partitions=2)
        for partition in range(2):
            for first in range(0, 100, 10):
                kafka.produce("a", *(b"%d" % offset for offset in range(first, first + 10)), partition=partition)
        yield kafka
        while range_reader._idle:
            range_reader._idle.popitem()[1].close()


def options_of(cluster: Cluster, **options: str) -> SourceOptions:
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    return batch_options({**servers, "subscribe": "a", "kafkaConsumer.pollTimeoutMs": "20000", **options})


def read(cluster: Cluster, task: Task, **options: str) -> dict[TopicPartition, list[int]]:
    """The offsets of each partition, in the order they came; values have to be the same."""
    found: dict[TopicPartition, list[int]] = {}
    for batch in read_task(task, options_of(cluster, **options)):
        rows = batch.to_pydict()
        assert [int(value) for value in rows["value"]] == rows["offset"]
        for partition, offset in zip(rows["partition"], rows["offset"], strict=True):
            found.setdefault(TopicPartition("a", partition), []).append(offset)
    return found


def test_a_task_reads_its_ranges(cluster: Cluster) -> None:
    assert read(cluster, (OffsetRange(A0, 7, 42),)) == {A0: list(range(7, 42))}
    assert read(cluster, (OffsetRange(A0, 7, 42), OffsetRange(A1, 90, 100))) == {
        A0: list(range(7, 42)),
        A1: list(range(90, 100)),
    }


def test_ends_are_looked_up_when_the_task_runs(cluster: Cluster) -> None:
    cluster.delete_records("a", 0, 30)
    assert read(cluster, (OffsetRange(A0, -2, -1), OffsetRange(A1, -2, 5))) == {
        A0: list(range(30, 100)),
        A1: list(range(5)),
    }


def test_a_start_behind_the_end_fails_the_task_when_that_is_known(cluster: Cluster) -> None:
    with pytest.raises(OffsetsError, match="start offset 105 is greater than the resolved end offset 100 for topic a "):
        read(cluster, (OffsetRange(A0, 105, -1),), failOnDataLoss="false")
    assert read(cluster, (OffsetRange(A0, 100, -1),)) == {}


def test_several_ranges_of_a_broker_are_asked_for_in_one_request(cluster: Cluster) -> None:
    asked: list[int] = []

    def see(request: FetchRequest, _: object) -> None:
        asked.append(sum(len(topic.partitions) for topic in request.topics))

    cluster.control.on(FetchRequest).observe(see)
    read(cluster, (OffsetRange(A0, 0, 100), OffsetRange(A1, 0, 100)))
    assert 2 in asked


def test_the_consumer_stays_for_the_next_task(cluster: Cluster) -> None:
    read(cluster, (OffsetRange(A0, 0, 5),))
    (before,) = range_reader._idle.values()
    read(cluster, (OffsetRange(A1, 0, 5),))
    assert list(range_reader._idle.values()) == [before]


def test_of_many_settings_the_consumers_that_were_used_last_stay(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker kept one for each, with its thread, as long as it lived: of every query that had a new token, say."""
    closed: list[str] = []
    close = RangeConsumer.close

    def noted(consumer: RangeConsumer, *, timeout_ms: float | None = None) -> None:
        closed.append(str(consumer._config.client_id))
        close(consumer, timeout_ms=timeout_ms)

    monkeypatch.setattr(RangeConsumer, "close", noted)
    monkeypatch.setattr(range_reader, "_MAX_IDLE", 2)
    for name in ("first", "second", "first", "third"):
        read(cluster, (OffsetRange(A0, 0, 5),), **{"kafka.client.id": name})
    assert [config.client_id for _, config in range_reader._idle] == ["first", "third"]
    assert closed == ["second"]


def test_records_that_are_gone_fail_the_task(cluster: Cluster) -> None:
    cluster.delete_records("a", 0, 30)
    with pytest.raises(DataLossError, match=r"Could not read records in offset \[20, 50\) for topic partition a-0"):
        read(cluster, (OffsetRange(A0, 20, 50),))
    assert not range_reader._idle, "a consumer that failed is not used again"


def test_or_are_skipped_with_what_is_left_read_once(cluster: Cluster) -> None:
    cluster.delete_records("a", 0, 30)
    task = (OffsetRange(A0, 20, 50), OffsetRange(A1, 0, 100))
    assert read(cluster, task, failOnDataLoss="false") == {A0: list(range(30, 50)), A1: list(range(100))}


def test_a_topic_in_the_place_of_another_is_read_as_it_was_planned(cluster: Cluster) -> None:
    """The consumer that stayed from a task before knows the other one; what was planned is there all the same, and a
    task in a new process read it."""
    read(cluster, (OffsetRange(A0, 0, 100),))
    cluster.delete_topic("a")
    cluster.create_topic("a", partitions=2)
    cluster.produce("a", *(b"%d" % offset for offset in range(120)))
    assert read(cluster, (OffsetRange(A0, 100, 120),)) == {A0: list(range(100, 120))}


@pytest.mark.parametrize("span", [OffsetRange(A0, 5, 20), OffsetRange(A0, 150, 200)])
def test_or_nothing_is_left(cluster: Cluster, span: OffsetRange) -> None:
    cluster.delete_records("a", 0, 30)
    assert read(cluster, (span, OffsetRange(A1, 0, 3)), failOnDataLoss="false") == {A1: [0, 1, 2]}


SOON = {"kafkaConsumer.pollTimeoutMs": "1000"}


def test_a_log_that_ends_in_front_of_the_range_is_a_loss(cluster: Cluster) -> None:
    """It was cut, or its topic was created anew. The broker lets such a fetch wait, and the task named a broker that
    did not answer."""
    with pytest.raises(DataLossError, match=r"Could not read records in offset \[100, 120\) for topic partition a-0"):
        read(cluster, (OffsetRange(A0, 50, 120),), **SOON)


def test_or_what_is_there_is_read(cluster: Cluster) -> None:
    """A stream stood still for good: each start planned the same batch."""
    task = (OffsetRange(A0, 50, 120), OffsetRange(A1, 100, 130))
    assert read(cluster, task, failOnDataLoss="false", **SOON) == {A0: list(range(50, 100))}


def test_a_topic_that_was_created_anew_and_is_shorter_is_read_to_its_end(cluster: Cluster) -> None:
    reading = read_task((OffsetRange(A0, 0, 100),), options_of(cluster, failOnDataLoss="false", **SOON))
    assert next(reading).num_rows
    cluster.delete_topic("a")
    cluster.create_topic("a", partitions=2)
    cluster.produce("a", *(b"%d" % offset for offset in range(10)))
    list(reading)
    assert read(cluster, (OffsetRange(A0, 0, 100),), failOnDataLoss="false", **SOON) == {A0: list(range(10))}


def test_a_broker_that_does_not_answer_is_no_loss(cluster: Cluster) -> None:
    cluster.control.on(FetchRequest).delay(60_000.0)
    with pytest.raises(KafkaTimeoutError, match="Cannot fetch record for offset a-0 at 50 in 1000 milliseconds"):
        read(cluster, (OffsetRange(A0, 50, 100),), failOnDataLoss="false", **SOON)


def test_damage_is_named_with_its_place(cluster: Cluster) -> None:
    def damage(answer: FetchResponse) -> None:
        for topic in answer.responses:
            for partition in topic.partitions:
                if partition.records:
                    records = bytes(partition.records)
                    partition.records = records[:-1] + bytes([records[-1] ^ 0xFF])

    cluster.control.on(FetchRequest).edit(damage)  # type: ignore[arg-type]  # answers of these requests alone
    with pytest.raises(CorruptRecordError, match="a-0 at offset 90: ") as raised:
        read(cluster, (OffsetRange(A0, 0, 100),))
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("a", 0, 90)


def test_damage_is_stepped_over_if_the_user_says_so_and_no_other_record_is_lost(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A stream used to stand still for good: its checkpoint says that the damaged batch comes next."""
    cluster.control.on(FetchRequest).corrupt(lambda payload: payload.replace(b"45", b"XX"))
    task = (OffsetRange(A0, 35, 70), OffsetRange(A1, 42, 48))
    with pytest.raises(CorruptRecordError, match=r"set the source option kwire\.skipDamagedBatches to true"):
        read(cluster, task)
    found = read(cluster, task, **{"kwire.skipDamagedBatches": "true"})
    assert found == {A0: [*range(35, 40), *range(50, 70)]}
    assert "a-0: records in [40, 50) are skipped: " in caplog.text


def test_large_damaged_batches_are_fetched_a_few_times_and_what_lies_between_them_is_kept(cluster: Cluster) -> None:
    """Larger than what a first fetch asks for, such a batch comes alone, so nothing tells where the next one begins. It
    was fetched twice for each of its offsets: hours, if it had many."""
    fetches: list[FetchRequest] = []
    cluster.produce("a", *(b"%01000d" % offset for offset in range(100, 900)))
    cluster.produce("a", *(b"%d" % offset for offset in range(900, 903)))
    cluster.produce("a", *(b"%01000d" % offset for offset in range(903, 1703)))
    cluster.produce("a", *(b"%d" % offset for offset in range(1703, 1710)))
    cluster.control.on(FetchRequest).corrupt(
        lambda payload: payload.replace(b"%01000d" % 500, b"X" * 1000).replace(b"%01000d" % 1300, b"X" * 1000)
    )
    cluster.control.on(FetchRequest).observe(lambda request, _: fetches.append(request))
    found = read(cluster, (OffsetRange(A0, 90, 1710),), **{"kwire.skipDamagedBatches": "true"})
    assert found == {A0: [*range(90, 100), *range(900, 903), *range(1703, 1710)]}
    assert len(fetches) < 100


def test_what_was_damaged_on_its_way_alone_is_not_skipped(cluster: Cluster) -> None:
    cluster.control.on(FetchRequest, times=1).corrupt(lambda payload: payload.replace(b"45", b"XX"))
    found = read(cluster, (OffsetRange(A0, 35, 70),), **{"kwire.skipDamagedBatches": "true"})
    assert found == {A0: list(range(35, 70))}


def test_a_lost_connection_is_not_noticed(cluster: Cluster) -> None:
    cluster.control.on(FetchRequest, times=1).cut()
    assert read(cluster, (OffsetRange(A0, 0, 100),)) == {A0: list(range(100))}


SOON = {"kafkaConsumer.pollTimeoutMs": "1000"}


def test_a_broker_that_falls_silent_is_named_with_what_has_not_come(cluster: Cluster) -> None:
    """Its connection stays open, as that of a process that is stopped."""
    cluster.control.on(FetchRequest).drop()
    silent = rf"Cannot fetch record for offset a-0 at 5 in 1000 milliseconds: nothing came of a-0 \(from {AT}"
    with pytest.raises(KafkaTimeoutError, match=silent):
        read(cluster, (OffsetRange(A0, 5, 10),), **SOON)


def test_a_broker_that_is_down_is_named_with_what_has_not_come(cluster: Cluster) -> None:
    read(cluster, (OffsetRange(A0, 0, 5),))
    cluster.kill_broker(0)
    with pytest.raises(KafkaTimeoutError, match=rf"offset a-0 at 5 in 1000 milliseconds: .*{AT}"):
        read(cluster, (OffsetRange(A0, 5, 10),), **SOON)


@pytest.mark.parametrize(("span", "where"), [(OffsetRange(A0, 5, 10), "5"), (OffsetRange(A0, -2, 10), "its beginning")])
def test_a_broker_that_was_never_reached_is_named_with_what_has_not_come(
    cluster: Cluster, span: OffsetRange, where: str
) -> None:
    """As by a task that Spark tries again: its process is a new one."""
    cluster.kill_broker(0)
    with pytest.raises(KafkaTimeoutError, match=rf"offset a-0 at {where} in 1000 milliseconds: .*{AT}"):
        read(cluster, (span,), **SOON)


def test_the_error_does_not_wait_for_a_frozen_broker_to_say_goodbye(cluster: Cluster) -> None:
    """A consumer that has connections ends its fetch sessions, which it gave half a minute, after the task's time."""
    read(cluster, (OffsetRange(A0, 0, 5),))
    cluster.pause_broker(0)
    began_ms = monotonic_ms()
    with pytest.raises(KafkaTimeoutError):
        read(cluster, (OffsetRange(A0, 5, 10),), **SOON)
    assert monotonic_ms() - began_ms < 15_000


@pytest.mark.parametrize("first", [5, -2])
def test_a_broker_that_never_said_a_word_is_named_with_what_has_not_come(cluster: Cluster, first: int) -> None:
    """It takes connections, and that is all: it is frozen, or somebody in between keeps what it says."""
    cluster.pause_broker(0)
    with pytest.raises(
        KafkaTimeoutError, match=rf"a-0 at .* in 1000 milliseconds: .*a-0 \(from a leader that {AT} did"
    ):
        read(cluster, (OffsetRange(A0, first, 10),), **SOON)


def test_a_look_up_takes_no_longer_than_a_fetch_may(cluster: Cluster) -> None:
    cluster.control.on(ListOffsetsRequest).drop()
    with pytest.raises(KafkaTimeoutError, match=rf"offset a-0 at its end in 1000 milliseconds: .*{AT}"):
        read(cluster, (OffsetRange(A0, 0, -1),), **SOON)
