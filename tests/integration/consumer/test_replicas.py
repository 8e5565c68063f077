"""Replicas that differ: followers that are read from (KIP-392), and leaders that have lost records (KIP-320)."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kwire import OffsetAndMetadata, TopicPartition
from kwire.errors import LogTruncationError
from kwire.protocol.messages.fetch import FetchRequest
from kwire.testing.kafka.node import JVM_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kwire.testing.cluster.request_context import RequestContext
    from tests.integration.consumer.conftest import BytesConsumer, OpenConsumer, Read
    from tests.integration.kafkas import FakeKafka, OwnKafka, RealKafka, Side

    Fetches = Callable[[int, str], int]
else:
    from kafkas import FakeKafka, RealKafka, Side

pytestmark = pytest.mark.slow

DEADLINE_S = 60.0
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LOG_REQUESTS = "-Dorg.slf4j.simpleLogger.log.kafka.request.logger=debug"
NAMES = (f"replicas-{number}" for number in count())


@pytest.fixture(scope="module")
def watched(side: Side) -> Iterator[tuple[OwnKafka, Fetches]]:
    """Three brokers in three racks, and how many Fetch requests of a client one of them has answered."""
    if side is Side.FAKE:
        with FakeKafka(3, settings={"replica_selector_is_rack_aware": True}) as fake:
            yield fake, fetches_seen(fake)
    else:
        settings = {"replica.selector.class": SELECTOR, "unclean.leader.election.enable": "true"}
        with RealKafka(3, settings=settings, jvm_options=(*JVM_OPTIONS, LOG_REQUESTS)) as real:
            yield real, partial(fetches_logged, real)


@pytest.fixture
def cluster(watched: tuple[OwnKafka, Fetches]) -> OwnKafka:
    return watched[0]


@pytest.fixture
def fetches(watched: tuple[OwnKafka, Fetches]) -> Fetches:
    return watched[1]


def fetches_logged(cluster: RealKafka, broker: int, client_id: str) -> int:
    """As the broker's log tells."""
    log = (cluster.directory / f"broker-{broker}" / "broker.log").read_text(errors="replace")
    return sum(
        '"requestApiKeyName":"FETCH"' in line and f'"clientId":"{client_id}"' in line for line in log.splitlines()
    )


def fetches_seen(cluster: FakeKafka) -> Fetches:
    """As request control tells, which is asked about each."""
    seen: Counter[tuple[int, str]] = Counter()

    def see(_request: FetchRequest, call: RequestContext) -> None:
        seen[call.broker.node_id, call.client_id] += 1

    cluster.control.on(FetchRequest).observe(see)
    return lambda broker, client_id: seen[broker, client_id]


def make_topic(cluster: OwnKafka, *replicas: int) -> TopicPartition:
    """A partition on these brokers, led by the first."""
    name = next(NAMES)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    wanted = NewTopic(name, 1, replica_assignment=[list(replicas)])
    admin.create_topics([wanted])[name].result(DEADLINE_S)
    return TopicPartition(name, 0)


def write(cluster: OwnKafka, tp: TopicPartition, values: Sequence[bytes]) -> None:
    """Acknowledged by every replica that is in sync."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(tp.topic, value, partition=tp.partition)
    assert producer.flush(DEADLINE_S) == 0


def values_of(name: str, number: int) -> list[bytes]:
    return [b"%s-%d" % (name.encode(), i) for i in range(number)]


@contextmanager
def killed(cluster: OwnKafka, broker: int) -> Iterator[None]:
    """Without a broker, which comes back whatever happens meanwhile: other tests need it."""
    cluster.kill_broker(broker)
    try:
        yield
    finally:
        if not cluster.is_running(broker):
            cluster.start_broker(broker)


# --- followers --------------------------------------------------------------------------------------------------


def read_from(
    cluster: OwnKafka, fetches: Callable[[], int], tp: TopicPartition, consumer: BytesConsumer
) -> list[bytes | None]:
    """Writes and reads record by record until this broker has answered some fetches more; all that was read."""
    seen: list[bytes | None] = []
    answered, until_s = fetches(), time.monotonic() + DEADLINE_S
    while fetches() < answered + 3:
        write(cluster, tp, [b"next"])
        wanted = len(seen) + 1
        while len(seen) < wanted:
            seen += [record.value for record in consumer.poll(1.0)]
            assert time.monotonic() < until_s, "that broker is not asked"
    return seen


def test_a_follower_in_the_same_rack_is_read_from_until_it_dies(
    cluster: OwnKafka, fetches: Fetches, open_consumer: OpenConsumer, read: Read
) -> None:
    leader, follower = 0, 2
    tp = make_topic(cluster, leader, follower)
    write(cluster, tp, values_of("first", 10))
    consumer = open_consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        client_id="reader",
        client_rack=f"rack-{follower}",
        fetch_max_wait_ms=50,
        reconnect_backoff_max_ms=200,
    )
    consumer.assign([tp])
    seen = [record.value for record in read(consumer, 10)]
    seen += read_from(cluster, lambda: fetches(follower, "reader"), tp, consumer)
    with killed(cluster, follower):
        seen += read_from(cluster, lambda: fetches(leader, "reader"), tp, consumer)
    # Whatever moved, nothing was missed and nothing came twice.
    assert seen[:10] == values_of("first", 10)
    assert consumer.position(tp) == len(seen)
    assert set(seen[10:]) == {b"next"}


# --- truncation -------------------------------------------------------------------------------------------------


@pytest.mark.only("kafka", reason="replicas of the other share a log: none lacks what another has")
def test_a_leader_that_has_lost_records_is_not_mistaken_for_the_old_one(
    cluster: OwnKafka, open_consumer: OpenConsumer, read: Read
) -> None:
    """Broker 2 missed records that broker 1 wrote, and was elected all the same when broker 1 died. By then its log is
    longer than the position of those who have read the lost records: no offset is out of range anywhere."""
    tp = make_topic(cluster, 1, 2)

    def open_at(policy: str) -> BytesConsumer:
        consumer = open_consumer(
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset=policy,
            fetch_max_wait_ms=50,
            reconnect_backoff_max_ms=200,
        )
        consumer.assign([tp])
        consumer.seek(tp, 0)
        return consumer

    follows_policy, decides = open_at("earliest"), open_at("none")
    kept, lost, new = values_of("kept", 10), values_of("lost", 10), values_of("new", 25)
    write(cluster, tp, kept)
    with ExitStack() as died:
        died.enter_context(killed(cluster, 2))
        write(cluster, tp, lost)
        assert [record.value for record in read(follows_policy, 20)] == kept + lost
        records = read(decides, 20)
        assert [record.value for record in records] == kept + lost
        at_the_end = OffsetAndMetadata(20, leader_epoch=records[-1].leader_epoch)
        died.enter_context(killed(cluster, 1))
        cluster.start_broker(2)
        write(cluster, tp, new)

        # The policy: on from where the logs part, whichever end of the log it names (as the Java client).
        assert [(record.offset, record.value) for record in read(follows_policy, 25)] == list(enumerate(new, 10))

        # No policy: each poll says what happened, until the user goes where it points.
        with pytest.raises(LogTruncationError, match=f"{tp} at 20 .differs from offset 10."):
            read(decides, 1)
        with pytest.raises(LogTruncationError) as caught:
            read(decides, 1)
        assert caught.value.offsets == {tp: 20}
        with pytest.raises(LogTruncationError):
            decides.position(tp)
        decides.seek(tp, caught.value.divergent_offsets[tp])
        assert [record.value for record in read(decides, 25)] == new

        # One that comes later with what somebody committed before.
        later = open_at("earliest")
        later.seek(tp, at_the_end)
        assert [record.value for record in read(later, 25)] == new
