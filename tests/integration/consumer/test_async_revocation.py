"""Asynchronous revocation (KIP-983): what is asked back can be drained while everything else goes on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from kwire import OffsetAndMetadata, RebalanceConsumer, RebalanceListener, TopicPartition
from kwire.errors import CommitFailedError, RebalanceInProgressError
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from kwire.config import Settings
    from kwire.model import Partitions
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import BytesConsumer, BytesRecord, OpenConsumer, PollUntil, Read
    from tests.integration.kafkas import FakeKafka, SharedKafka, Side
else:
    from kafkas import FakeKafka, Side

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])]

PARTITIONS = 4
DELAYED_POLLS = 20
TIMEOUT_S = 30.0

PROTOCOLS: dict[str, Settings] = {
    "eager": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}


def settings(protocol: str, group_id: str, *, asynchronous: bool = True, instance_id: str | None = None) -> Settings:
    chosen: Settings = {
        "group_id": group_id,
        "group_instance_id": instance_id,
        "enable_auto_commit": False,
        "enable_async_revocation": asynchronous,
        **PROTOCOLS[protocol],
    }
    if protocol != "consumer":
        chosen["heartbeat_interval_ms"] = 100
    return chosen


def all_of(topic: str) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in range(PARTITIONS))


class Told(RebalanceListener):
    """Writes down what it was told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Partitions]] = []

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self.events.append(("assigned", partitions))

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self.events.append(("revoked", partitions))

    def on_partitions_lost(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self.events.append(("lost", partitions))

    def of(self, what: str) -> list[Partitions]:
        """The partitions it was told this of, but for calls about none."""
        return [partitions for kind, partitions in self.events if kind == what and partitions]


def poll_until_asked(mine: BytesConsumer, other: BytesConsumer) -> frozenset[TopicPartition]:
    """Until the first is asked for partitions, which ends its poll at once."""
    until_s = time.monotonic() + TIMEOUT_S
    while True:
        other.poll(0)
        began_s = time.monotonic()
        records = mine.poll(TIMEOUT_S if mine.to_be_revoked_partitions() else 0.1)
        if asked := mine.to_be_revoked_partitions():
            assert records.to_be_revoked == asked
            assert not records
            return asked
        assert began_s < until_s, "nothing was asked for"


def test_what_is_delayed_is_drained_while_the_rest_flows(
    protocol: str,
    topic: MakeTopic,
    produce: Produce,
    group_id: str,
    open_consumer: OpenConsumer,
    poll_until: PollUntil,
    read: Read,
) -> None:
    """From the request to the end of the delay the partitions give nothing and can be committed; nobody else has them;
    what is kept flows. Then the next owner goes on behind the last commit: every record is seen once."""
    name = topic(PARTITIONS)
    told = Told()
    mine = open_consumer(**settings(protocol, group_id))
    mine.subscribe([name], listener=told)
    poll_until(lambda: mine.assignment() == all_of(name), mine)
    produce(name, [b"before"] * 40)
    before = read(mine, 40)
    other = open_consumer(name, **settings(protocol, group_id))
    asked = poll_until_asked(mine, other)
    kept = all_of(name) - asked
    assert bool(kept) is (protocol != "eager")
    for tp in sorted(all_of(name)):
        produce(name, [b"after"] * 5, partition=tp.partition)

    drained: list[BytesRecord] = []
    polls, until_s = 0, time.monotonic() + TIMEOUT_S
    while polls < DELAYED_POLLS or len(drained) < 5 * len(kept):
        assert mine.delay_revoke(asked)
        drained += mine.poll(0.02)
        other.poll(0)
        assert mine.to_be_revoked_partitions() == asked
        assert time.monotonic() < until_s
        polls += 1
    assert {record.topic_partition for record in drained} == kept
    assert mine.assignment() == all_of(name)
    assert not other.assignment() & asked
    assert not told.of("revoked")
    mine.commit_sync({tp: OffsetAndMetadata(offset) for tp, offset in ends(before, drained).items()})

    late = poll_until(lambda: shared_out(name, mine, other), mine, other)
    assert frozenset().union(*told.of("revoked")) >= asked
    assert not told.of("lost")
    late += read_in_turn(40 + 5 * PARTITIONS - len(before) - len(drained) - len(late), mine, other)
    seen = [(record.partition, record.offset) for record in (*before, *drained, *late)]
    assert len(seen) == len(set(seen)) == 40 + 5 * PARTITIONS


def ends(*handed_out: list[BytesRecord]) -> dict[TopicPartition, int]:
    """The offset behind the last record of each partition."""
    return {record.topic_partition: record.offset + 1 for records in handed_out for record in records}


def read_in_turn(count: int, *consumers: BytesConsumer) -> list[BytesRecord]:
    """So many records more, by any member."""
    records: list[BytesRecord] = []
    until_s = time.monotonic() + TIMEOUT_S
    while len(records) < count:
        for consumer in consumers:
            records += consumer.poll(0.02)
        assert time.monotonic() < until_s
    return records


def shared_out(topic: str, *members: BytesConsumer) -> bool:
    """Whether each has something, together they have all, and no two the same."""
    assigned = [member.assignment() for member in members]
    return all(assigned) and sum(map(len, assigned)) == PARTITIONS and frozenset().union(*assigned) == all_of(topic)


def test_some_of_a_request_go_while_others_stay(
    protocol: str, topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    """The listener hears of each when it goes; the group, which knows one end of a revoke, when the last has gone.
    Until then nothing commits for those that went by itself: what the application has committed of them stands."""
    name = topic(PARTITIONS)
    told = Told()
    mine = open_consumer(**settings(protocol, group_id, instance_id="static"))
    mine.subscribe([name], listener=told)
    poll_until(lambda: mine.assignment() == all_of(name), mine)
    other = open_consumer(name, **settings(protocol, group_id))
    asked = poll_until_asked(mine, other)
    slow = min(asked)
    for _ in range(DELAYED_POLLS):
        assert mine.delay_revoke({slow})
        mine.poll(0.02)
        other.poll(0)
    assert told.of("revoked") == [asked - {slow}]
    assert mine.assignment() == all_of(name) - (asked - {slow})
    assert not other.assignment()
    gone = asked - {slow}
    mine.commit_sync({tp: OffsetAndMetadata(3) for tp in gone})
    mine.commit_sync()
    assert {tp: at and at.offset for tp, at in mine.committed(gone).items()} == dict.fromkeys(gone, 3)
    assert not mine.delay_revoke(asked), "of those that are gone it is too late"
    poll_until(lambda: shared_out(name, mine, other), mine, other)
    assert told.of("revoked")[:2] == [asked - {slow}, {slow}]


def test_whoever_has_a_listener_and_a_loop_need_not_know(
    protocol: str, topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    """Beside members that revoke as ever."""
    name = topic(PARTITIONS)
    told = Told()
    mine = open_consumer(**settings(protocol, group_id))
    mine.subscribe([name], listener=told)
    poll_until(lambda: mine.assignment() == all_of(name), mine)
    other = open_consumer(name, **settings(protocol, group_id, asynchronous=False))
    poll_until(lambda: shared_out(name, mine, other), mine, other)
    third = open_consumer(name, **settings(protocol, group_id))
    poll_until(lambda: shared_out(name, mine, other, third), mine, other, third)
    assert told.of("revoked")
    assert not told.of("lost")


def test_leaving_ends_what_is_delayed(
    protocol: str, topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    name = topic(PARTITIONS)
    told = Told()
    mine = open_consumer(**settings(protocol, group_id))
    mine.subscribe([name], listener=told)
    poll_until(lambda: mine.assignment() == all_of(name), mine)
    other = open_consumer(name, **settings(protocol, group_id))
    asked = poll_until_asked(mine, other)
    assert mine.delay_revoke(asked)
    mine.poll(0)
    mine.unsubscribe()
    assert told.of("revoked") == [all_of(name)]
    poll_until(lambda: other.assignment() == all_of(name), other)


@pytest.mark.only(Side.FAKE, reason="it expels a member at a word")
def test_what_is_delayed_is_lost_with_the_membership(
    protocol: str,
    kafka: SharedKafka,
    topic: MakeTopic,
    group_id: str,
    open_consumer: OpenConsumer,
    poll_until: PollUntil,
) -> None:
    """The deadline of a delay. A poll that waits hears of it at once; then more time is refused, and so are commits.
    An eager member, which has nothing left to be told of, may be joining again by then."""
    assert isinstance(kafka, FakeKafka)
    name = topic(PARTITIONS)
    told = Told()
    mine = open_consumer(**settings(protocol, group_id))
    mine.subscribe([name], listener=told)
    poll_until(lambda: mine.assignment() == all_of(name), mine)
    other = open_consumer(name, **settings(protocol, group_id))
    asked = poll_until_asked(mine, other)
    assert mine.delay_revoke(asked)
    expel(kafka, mine.group_metadata().member_id)
    began_s = time.monotonic()
    records = mine.poll(TIMEOUT_S)
    assert time.monotonic() - began_s < TIMEOUT_S / 2
    assert records.lost == mine.lost_partitions() >= asked
    assert not records
    assert not mine.delay_revoke(asked)
    with pytest.raises((CommitFailedError, RebalanceInProgressError)):
        mine.commit_sync({tp: OffsetAndMetadata(0) for tp in asked})
    poll_until(lambda: frozenset().union(*told.of("lost")) == all_of(name), mine)
    assert not told.of("revoked")


def expel(kafka: FakeKafka, member_id: str) -> None:
    """The group's coordinator does not know this member any more. With the consumer protocol, whose members keep their
    ids for good, it does not take it back either."""
    unknown = ErrorCode.UNKNOWN_MEMBER_ID.value
    kafka.control.on(HeartbeatRequest, where=lambda request, _: request.member_id == member_id).answer(
        HeartbeatResponse(error_code=unknown)
    )
    kafka.control.on(ConsumerGroupHeartbeatRequest, where=lambda request, _: request.member_id == member_id).answer(
        ConsumerGroupHeartbeatResponse(error_code=unknown)
    )
