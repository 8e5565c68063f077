"""Every blocking call with no time at all, and with hardly any: none may wait, hang or lie."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from kwire import OffsetAndMetadata, TopicPartition
from kwire.errors import KafkaTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import BytesConsumer, OpenConsumer, Read
    from tests.integration.kafkas import OwnKafka, StartKafka

TP = TopicPartition("nobody-knows-it", 0)

ASKING: dict[str, Callable[[BytesConsumer, float], object]] = {
    "position": lambda consumer, timeout: consumer.position(TP, timeout=timeout),
    "commit_sync": lambda consumer, timeout: consumer.commit_sync({TP: OffsetAndMetadata(1)}, timeout=timeout),
    "committed": lambda consumer, timeout: consumer.committed([TP], timeout=timeout),
    # One that is not there: of a topic that is, the first answer says all.
    "partitions_for": lambda consumer, timeout: consumer.partitions_for(f"other-{uuid4()}", timeout=timeout),
}
"""Each waits for more than one answer: for a coordinator first, or for a topic that is not there."""


@pytest.fixture(scope="module")
def own_kafka(start_kafka: StartKafka) -> Iterator[OwnKafka]:
    """Of these tests alone, for its broker is paused: who counts on a broker being slower than the caller loses that
    race one day, on a busy machine."""
    with start_kafka() as cluster:
        yield cluster


@contextmanager
def paused(cluster: OwnKafka) -> Iterator[None]:
    """Its only broker takes connections and requests and answers none."""
    cluster.pause_broker(0)
    try:
        yield
    finally:
        cluster.resume_broker(0)


@pytest.mark.parametrize("timeout", [0, 0.001])
@pytest.mark.parametrize("call", ASKING.values(), ids=ASKING)
def test_what_a_broker_would_have_to_answer_times_out_and_says_what_it_waits_for(
    own_kafka: OwnKafka,
    open_consumer: OpenConsumer,
    group_id: str,
    call: Callable[[BytesConsumer, float], object],
    timeout: float,
) -> None:
    consumer = open_consumer(bootstrap_servers=own_kafka.bootstrap_servers, group_id=group_id, enable_auto_commit=False)
    with paused(own_kafka):
        consumer.assign([TP])
        started_s = time.monotonic()
        with pytest.raises(KafkaTimeoutError, match="still waiting for") as caught:
            call(consumer, timeout)
        assert time.monotonic() - started_s < 0.5
    assert "the network thread" not in str(caught.value)


@pytest.mark.parametrize("timeout", [0, 0.001])
def test_a_list_of_topics_that_nobody_gives_times_out(open_consumer: OpenConsumer, timeout: float) -> None:
    """One answer is enough for it, so with a broker to ask it may come in no time."""
    nobody = open_consumer(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(KafkaTimeoutError, match="still waiting for"):
        nobody.list_topics(timeout=timeout)


def test_offsets_that_nobody_can_know_in_no_time_are_left_out(open_consumer: OpenConsumer) -> None:
    """As in Java, where this is no error; with hardly any time it is one."""
    consumer = open_consumer()
    assert consumer.beginning_offsets([TP], timeout=0) == {}
    assert consumer.end_offsets([TP], timeout=0) == {}
    assert consumer.offsets_for_times({TP: 1}, timeout=0) == {TP: None}
    with pytest.raises(KafkaTimeoutError):
        consumer.end_offsets([TP], timeout=0.001)


def test_what_is_known_is_answered_in_no_time(
    topic: MakeTopic, produce: Produce, open_consumer: OpenConsumer, read: Read
) -> None:
    """Once a position was only answered in no time if the last poll had returned records of the partition."""
    tp = TopicPartition(topic(), 0)
    produce(tp.topic, [b"1"])
    consumer = open_consumer()
    consumer.assign([tp])
    consumer.seek(tp, 0)
    assert consumer.position(tp, timeout=0) == 0
    read(consumer, 1)
    consumer.poll(0)
    assert consumer.position(tp, timeout=0) == 1


def test_polls_without_time_bring_the_records_in_the_end(
    topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer
) -> None:
    """Java's PollEventuallyReturnsRecordsWithZeroTimeout: whatever is under way goes on between the polls."""
    name = topic()
    produce(name, [b"1"])
    consumer = open_consumer(name, group_id=group_id)
    until_s = time.monotonic() + 20
    while not (records := consumer.poll(0)):
        assert time.monotonic() < until_s
        time.sleep(0.001)  # what an application does between polls
    assert [record.value for record in records] == [b"1"]


def test_a_commit_without_time_to_wait_is_made_all_the_same(
    own_kafka: OwnKafka, open_consumer: OpenConsumer, group_id: str
) -> None:
    consumer = open_consumer(bootstrap_servers=own_kafka.bootstrap_servers, group_id=group_id, enable_auto_commit=False)
    consumer.assign([TP])
    consumer.commit_sync({TP: OffsetAndMetadata(1)})
    with paused(own_kafka), pytest.raises(KafkaTimeoutError, match="it may have been carried out"):
        consumer.commit_sync({TP: OffsetAndMetadata(2)}, timeout=0)
    assert consumer.committed([TP]) == {TP: OffsetAndMetadata(2)}
