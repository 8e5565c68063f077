"""The consumer protocol (KIP-848) on a real broker, in one group with librdkafka's members and with classic ones."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
import time
from itertools import chain, product
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
from confluent_kafka.cimpl import NewTopic

from kwire import Consumer, OffsetAndMetadata, RebalanceConsumer, RebalanceListener, SubscriptionPattern, TopicPartition
from kwire.errors import (
    InvalidArgumentError,
    InvalidRegularExpressionError,
    RebalanceListenerError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from kwire.protocol.framing import Framing
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka.admin import AdminClient

    from kwire.config import Settings
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import BytesConsumer, OpenConsumer, PollUntil, Read
    from tests.integration.kafkas import SharedKafka, StartKafka

pytestmark = pytest.mark.slow

PARTITIONS = 6
DEADLINE_S = 30.0


def all_partitions(topic: str) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in range(PARTITIONS))


def shared_out(topic: str, *members: BytesConsumer) -> bool:
    """Whether each has something, together they have all, and no two the same."""
    assigned = [member.assignment() for member in members]
    together = frozenset[TopicPartition]().union(*assigned)
    return all(assigned) and sum(map(len, assigned)) == PARTITIONS and together == all_partitions(topic)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


class Told(RebalanceListener):
    """Writes down what it was told, and does something on the way."""

    def __init__(self, on_revoked: Callable[[RebalanceConsumer], object] = lambda consumer: None) -> None:
        self.events: list[tuple[str, frozenset[TopicPartition]]] = []
        self._on_revoked = on_revoked

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        self.events.append(("assigned", partitions))

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        self.events.append(("revoked", partitions))
        self._on_revoked(consumer)

    def on_partitions_lost(self, consumer: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        self.events.append(("lost", partitions))

    def heard(self, kind: str) -> list[frozenset[TopicPartition]]:
        return [partitions for event, partitions in self.events if event == kind]


def shorten_session(kafka: SharedKafka, group_id: str, timeout_ms: int) -> None:
    """Sessions are the broker's business: it is told for each group."""
    kafka.configure_group(group_id, {"consumer.session.timeout.ms": str(timeout_ms)})


# --- consuming ---------------------------------------------------------------------------------------------------


def test_what_is_committed_is_where_the_next_member_begins(
    topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer, read: Read
) -> None:
    name = topic(PARTITIONS)
    produce(name, numbered(300))
    first = open_consumer(name, group_id=group_id, enable_auto_commit=False, group_protocol="consumer")
    assert {record.value for record in read(first, 300)} == set(numbered(300))
    first.commit_sync()
    first.close()
    produce(name, numbered(50, 300))
    second = open_consumer(name, group_id=group_id, group_protocol="consumer")
    assert {record.value for record in read(second, 50)} == set(numbered(50, 300))
    group = second.group_metadata()
    assert group.generation_id > 0
    assert len(group.member_id) == 22


def test_auto_commit_covers_what_was_polled_when_it_closes(
    topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer, read: Read
) -> None:
    name = topic()
    produce(name, numbered(20))
    first = open_consumer(name, group_id=group_id, group_protocol="consumer")
    read(first, 20)
    first.close()
    reader = open_consumer(group_id=group_id, enable_auto_commit=False)
    tp = TopicPartition(name, 0)
    assert reader.committed([tp]) == {tp: OffsetAndMetadata(20, leader_epoch=0)}


# --- sharing -----------------------------------------------------------------------------------------------------


def test_members_share_take_over_and_come_back(
    topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    name = topic(PARTITIONS)
    told = Told()
    first = open_consumer(group_id=group_id, group_protocol="consumer")
    first.subscribe([name], listener=told)
    poll_until(lambda: first.assignment() == all_partitions(name), first)
    second = open_consumer(name, group_id=group_id, group_protocol="consumer")
    poll_until(lambda: shared_out(name, first, second), first, second)
    assert told.heard("revoked") == [all_partitions(name) - first.assignment()]
    third = open_consumer(name, group_id=group_id, group_protocol="consumer")
    poll_until(lambda: shared_out(name, first, second, third), first, second, third)
    second.close()
    poll_until(lambda: shared_out(name, first, third), first, third)
    first.unsubscribe()
    assert first.assignment() == frozenset()
    poll_until(lambda: third.assignment() == all_partitions(name), third)
    first.subscribe([name])
    poll_until(lambda: shared_out(name, first, third), first, third)


def test_a_group_with_librdkafka(
    kafka: SharedKafka, topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer
) -> None:
    """Two members of kwire and one of librdkafka read every record once; what one commits the other goes on from."""
    name = topic(PARTITIONS)
    ours = [open_consumer(name, group_id=group_id, group_protocol="consumer") for _ in range(2)]
    theirs = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group_id,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,  # what it has just committed by itself it refuses to commit again
        }
    )
    theirs.subscribe([name])
    seen: list[bytes] = []

    def poll_ours() -> None:
        for member in ours:
            seen.extend(record.value for record in member.poll(0.02) if record.value is not None)

    def poll_all() -> None:
        poll_ours()
        message = theirs.poll(0.02)
        if message is not None and message.error() is None:
            value = message.value()
            assert isinstance(value, bytes)
            seen.append(value)

    def until(condition: Callable[[], bool], poll: Callable[[], None]) -> None:
        until_s = time.monotonic() + DEADLINE_S
        while not condition():
            poll()
            assert time.monotonic() < until_s, (ours, len(seen))

    try:
        until(lambda: len(theirs.assignment()) == 2 and all(len(member.assignment()) == 2 for member in ours), poll_all)
        held = [*chain(*(member.assignment() for member in ours))]
        held += [TopicPartition(tp.topic, tp.partition) for tp in theirs.assignment()]
        assert sorted(held) == sorted(all_partitions(name))
        for partition in range(PARTITIONS):  # one batch could put all into ours, and librdkafka refuses an empty commit
            produce(name, numbered(50, 50 * partition), partition=partition)
        until(lambda: len(seen) >= 300, poll_all)
        assert sorted(seen) == sorted(numbered(300))
        theirs.commit(asynchronous=False)
    finally:
        theirs.close()
    until(lambda: shared_out(name, *ours), poll_ours)
    produce(name, numbered(60, 300))
    until(lambda: len(seen) >= 360, poll_ours)
    assert sorted(seen) == sorted(numbered(360))


def test_what_stays_flows_while_the_rest_moves(
    topic: MakeTopic, produce: Produce, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    """The member that gives something back commits it in its callback, and loses and repeats nothing."""
    name = topic(PARTITIONS)
    told = Told(on_revoked=lambda consumer: consumer.commit_sync())
    first = open_consumer(group_id=group_id, enable_auto_commit=False, group_protocol="consumer")
    first.subscribe([name], listener=told)
    produce(name, numbered(600))
    records = poll_until(lambda: first.assignment() == all_partitions(name), first)
    second = open_consumer(name, group_id=group_id, enable_auto_commit=False, group_protocol="consumer")
    records += poll_until(lambda: shared_out(name, first, second), first, second)
    produce(name, numbered(600, 600))
    read: list[object] = [record.value for record in records]

    def all_there() -> bool:
        read.extend(record.value for member in (first, second) for record in member.poll(0.02))
        return len(read) >= 1200

    poll_until(all_there)
    assert sorted(map(str, read)) == sorted(map(str, numbered(1200)))
    assert not told.heard("lost")


def test_an_exception_in_a_callback_does_not_stop_the_rebalance(
    topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    name = topic(PARTITIONS)

    def fail(consumer: RebalanceConsumer) -> None:
        raise LookupError("on purpose")

    first = open_consumer(group_id=group_id, group_protocol="consumer")
    first.subscribe([name], listener=Told(on_revoked=fail))
    poll_until(lambda: first.assignment() == all_partitions(name), first)
    second = open_consumer(name, group_id=group_id, group_protocol="consumer")
    with pytest.raises(RebalanceListenerError, match="on purpose"):
        poll_until(lambda: False, first, second)
    poll_until(lambda: shared_out(name, first, second), first, second)
    first.subscribe([name])


# --- coming and going ---------------------------------------------------------------------------------------------

MEMBER_PROGRAM = """
import sys
from kwire import Consumer
with Consumer(sys.argv[2], bootstrap_servers=sys.argv[1], group_id=sys.argv[3], group_protocol="consumer") as consumer:
    said = False
    while True:
        consumer.poll(0.05)
        if consumer.assignment() and not said:
            print("assigned", flush=True)
            said = True
"""


def test_the_partitions_of_a_killed_member_go_to_the_others(
    kafka: SharedKafka,
    topic: MakeTopic,
    group_id: str,
    open_consumer: OpenConsumer,
    poll_until: PollUntil,
) -> None:
    name = topic(PARTITIONS)
    shorten_session(kafka, group_id, 2_000)
    arguments = [kafka.bootstrap_servers, name, group_id]
    with subprocess.Popen([sys.executable, "-c", MEMBER_PROGRAM, *arguments], stdout=subprocess.PIPE) as victim:
        try:
            assert victim.stdout is not None
            assert victim.stdout.readline() == b"assigned\n"
            survivor = open_consumer(name, group_id=group_id, group_protocol="consumer")
            poll_until(lambda: len(survivor.assignment()) == PARTITIONS // 2, survivor)
        finally:
            victim.send_signal(signal.SIGKILL)
    poll_until(lambda: survivor.assignment() == all_partitions(name), survivor)


def test_a_static_member_comes_back_to_its_partitions(
    topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    """It leaves with epoch -2: nobody else is given its partitions, and its next incarnation takes them over."""
    name = topic(PARTITIONS)
    told = Told()
    other = open_consumer(group_id=group_id, group_protocol="consumer")
    other.subscribe([name], listener=told)
    static: Settings = {"group_id": group_id, "group_instance_id": "i1", "group_protocol": "consumer"}
    before = open_consumer(name, **static)
    poll_until(lambda: shared_out(name, other, before), other, before)
    events = len(told.events)
    held = before.assignment()
    twin = open_consumer(name, **static)
    with pytest.raises(UnreleasedInstanceIdError):
        poll_until(lambda: False, other, twin)
    before.close()
    after = open_consumer(name, **static)
    poll_until(lambda: after.assignment() == held, other, after)
    assert len(told.events) == events


def test_a_dynamic_member_that_stays_behind_keeps_its_partitions_for_a_while(
    kafka: SharedKafka, topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    name = topic(PARTITIONS)
    shorten_session(kafka, group_id, 2_000)
    first = open_consumer(name, group_id=group_id, group_protocol="consumer")
    second = open_consumer(name, group_id=group_id, group_protocol="consumer")
    poll_until(lambda: shared_out(name, first, second), first, second)
    began_s = time.monotonic()
    second.close(leave_group=False)
    poll_until(lambda: first.assignment() == all_partitions(name), first)
    assert time.monotonic() - began_s > 1.0


def test_a_fenced_member_joins_again_and_goes_on(
    kafka: SharedKafka,
    topic: MakeTopic,
    produce: Produce,
    group_id: str,
    open_consumer: OpenConsumer,
    poll_until: PollUntil,
    read: Read,
) -> None:
    """Somebody takes the member out of its group behind its back; committed offsets are where it goes on."""
    name = topic(PARTITIONS)
    produce(name, numbered(60))
    told = Told()
    consumer = open_consumer(group_id=group_id, enable_auto_commit=False, group_protocol="consumer")
    consumer.subscribe([name], listener=told)
    read(consumer, 60)
    consumer.commit_sync()
    member_id = consumer.group_metadata().member_id
    leave = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=-1)
    host, _, port = kafka.bootstrap_servers.partition(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as connection:
        framing = Framing("somebody")
        connection.sendall(framing.send(leave, 1))
        while not framing.received(connection.recv_into(framing.writable_buffer())):
            pass
    poll_until(lambda: told.heard("lost") == [all_partitions(name)], consumer)
    poll_until(lambda: consumer.assignment() == all_partitions(name), consumer)
    assert consumer.group_metadata().member_id == member_id
    produce(name, numbered(10, 60))
    assert {record.value for record in read(consumer, 10)} == set(numbered(10, 60))
    consumer.commit_sync()


def test_a_member_that_is_not_polled_is_replaced_and_comes_back(
    topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    name = topic(PARTITIONS)
    told = Told()
    sleeper = open_consumer(group_id=group_id, max_poll_interval_ms=1_000, group_protocol="consumer")
    sleeper.subscribe([name], listener=told)
    poll_until(lambda: sleeper.assignment() == all_partitions(name), sleeper)
    other = open_consumer(name, group_id=group_id, group_protocol="consumer")
    poll_until(lambda: other.assignment() == all_partitions(name), other)
    poll_until(lambda: shared_out(name, sleeper, other), sleeper, other)
    # Some may have been on their way back already.
    assert told.heard("lost")
    assert frozenset().union(*told.heard("lost"), *told.heard("revoked")) == all_partitions(name)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_waiting_in_a_poll_is_polling(
    topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil, protocol: str
) -> None:
    name = topic(PARTITIONS)
    told = Told()
    consumer = open_consumer(group_id=group_id, max_poll_interval_ms=500, group_protocol=protocol)
    consumer.subscribe([name], listener=told)
    poll_until(lambda: consumer.assignment() == all_partitions(name), consumer)
    assert not consumer.poll(2.0)
    assert not consumer.poll(0.1)
    assert not [kind for kind, _ in told.events if kind != "assigned"]


# --- what is subscribed -------------------------------------------------------------------------------------------


def test_the_broker_matches_an_expression(
    topic: MakeTopic,
    produce: Produce,
    group_id: str,
    open_consumer: OpenConsumer,
    poll_until: PollUntil,
    read: Read,
) -> None:
    names = [topic(), topic()]
    partitions = {TopicPartition(name, 0) for name in names}
    for name in names:
        produce(name, [name.encode()])
    consumer = open_consumer(group_id=group_id, enable_auto_commit=False, group_protocol="consumer")
    consumer.subscribe(SubscriptionPattern("|".join(names)))
    records = poll_until(lambda: consumer.assignment() == partitions, consumer)
    records += read(consumer, 2 - len(records))
    assert {record.value for record in records} == {name.encode() for name in names}
    consumer.commit_sync()
    consumer.subscribe([names[0]])
    poll_until(lambda: consumer.assignment() == {TopicPartition(names[0], 0)}, consumer)


def test_a_topic_that_an_expression_matched_can_be_deleted(
    admin: AdminClient, topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    """The consumer asked for it by its name, and the broker created it anew."""
    kept, deleted = topic(), f"{group_id}-deleted"
    admin.create_topics([NewTopic(deleted, 1, 1)])[deleted].result(DEADLINE_S)
    consumer = open_consumer(group_id=group_id, group_protocol="consumer", metadata_max_age_ms=200)
    consumer.subscribe(SubscriptionPattern(f"{kept}|{deleted}"))
    poll_until(lambda: len(consumer.assignment()) == 2, consumer)
    admin.delete_topics([deleted])[deleted].result(DEADLINE_S)
    poll_until(lambda: consumer.assignment() == {TopicPartition(kept, 0)}, consumer)
    for _ in range(5):  # as long as five refreshes of the metadata take
        consumer.poll(0.2)
    assert deleted not in consumer.list_topics()
    assert consumer.assignment() == {TopicPartition(kept, 0)}


def test_only_the_consumer_protocol_takes_expressions_for_the_broker(
    group_id: str, open_consumer: OpenConsumer
) -> None:
    classic = open_consumer(group_id=group_id)
    with pytest.raises(UnsupportedVersionError, match=r'group_protocol="consumer".*re\.compile'):
        classic.subscribe(SubscriptionPattern("a.*"))
    with pytest.raises(InvalidArgumentError, match="cannot be empty"):
        SubscriptionPattern("")


def test_an_expression_the_broker_cannot_read_is_refused(
    group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil, topic: MakeTopic
) -> None:
    consumer = open_consumer(group_id=group_id, group_protocol="consumer")
    consumer.subscribe(SubscriptionPattern("(unclosed"))
    for _ in range(2):
        with pytest.raises(InvalidRegularExpressionError):
            poll_until(lambda: False, consumer)
    name = topic()
    consumer.subscribe([name])
    poll_until(lambda: consumer.assignment() == {TopicPartition(name, 0)}, consumer)


def test_a_pattern_of_our_own_is_matched_here(
    topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    name = topic()
    consumer = open_consumer(group_id=group_id, group_protocol="consumer")
    consumer.subscribe(re.compile(f"^{re.escape(name)}$"))
    poll_until(lambda: consumer.assignment() == {TopicPartition(name, 0)}, consumer)
    assert consumer.subscription() == {name}


def test_a_topic_may_be_subscribed_before_it_is_made(
    admin: AdminClient, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    name = f"{group_id}-later"
    consumer = open_consumer(name, group_id=group_id, allow_auto_create_topics=False, group_protocol="consumer")
    consumer.poll(0.5)
    new_topic = NewTopic(name, 2, 1)
    admin.create_topics([new_topic])[name].result(DEADLINE_S)
    try:
        poll_until(lambda: len(consumer.assignment()) == 2, consumer)
    finally:
        admin.delete_topics([name])[name].result(DEADLINE_S)


def test_the_brokers_assignor_can_be_chosen(
    topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    name = topic(PARTITIONS)
    chosen = open_consumer(name, group_id=group_id, group_remote_assignor="range", group_protocol="consumer")
    poll_until(lambda: chosen.assignment() == all_partitions(name), chosen)
    unheard_of = open_consumer(name, group_id=group_id, group_remote_assignor="unheard-of", group_protocol="consumer")
    with pytest.raises(UnsupportedAssignorError):
        poll_until(lambda: False, unheard_of)


# --- going over from the classic protocol -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_running_group_goes_over_to_the_consumer_protocol_and_back(
    topic: MakeTopic,
    produce: Produce,
    group_id: str,
    open_consumer: OpenConsumer,
    poll_until: PollUntil,
    strategy: str,
    static: bool,
) -> None:
    """One member after the other is replaced while records come in, and each record is read."""
    name = topic(PARTITIONS)

    def member(protocol: str, place: int) -> BytesConsumer:
        settings: Settings = {"group_id": group_id, "group_protocol": protocol}
        if static:
            settings["group_instance_id"] = f"i{place}"
        if protocol == "classic":
            settings |= {"heartbeat_interval_ms": 100, "partition_assignment_strategy": strategy}
        return open_consumer(name, **settings)

    members = [member("classic", place) for place in range(2)]
    seen: set[object] = set()
    poll_until(lambda: shared_out(name, *members), *members)
    for round_, (protocol, place) in enumerate(product(["consumer", "classic"], range(2))):
        produce(name, numbered(60, 60 * round_))
        wanted = set(numbered(60 * (round_ + 1)))

        def all_seen(wanted: set[bytes] = wanted) -> bool:
            seen.update(record.value for member in members for record in member.poll(0.02))
            return wanted <= seen

        poll_until(all_seen)
        members[place].close()
        members[place] = member(protocol, place)
        seen.update(record.value for record in poll_until(lambda: shared_out(name, *members), *members))
    assert seen == set(numbered(240))


# --- the end -------------------------------------------------------------------------------------------------------


def test_close_is_bounded_when_the_coordinator_is_gone(start_kafka: StartKafka) -> None:
    with start_kafka() as cluster:
        servers = cluster.bootstrap_servers
        consumer: BytesConsumer = Consumer(
            "bounded", bootstrap_servers=servers, client_id="bounded", group_id="bounded", group_protocol="consumer"
        )
        until_s = time.monotonic() + DEADLINE_S
        while not consumer.assignment():
            consumer.poll(0.1)
            assert time.monotonic() < until_s
        cluster.kill_broker(0)
        began_s = time.monotonic()
        consumer.close(1.0)
        assert time.monotonic() - began_s < 2.0
    assert not [thread for thread in threading.enumerate() if "bounded" in thread.name]
