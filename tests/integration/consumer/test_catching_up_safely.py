"""What may happen to a lag while it is being caught up with: no next owner skips a record."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer as OtherConsumer
from confluent_kafka import TopicPartition as OtherTopicPartition
from confluent_kafka.cimpl import NewTopic

from kwire import Cursor, OffsetAndMetadata
from kwire.errors import GroupAuthorizationError, IllegalStateError, OffsetOutOfRangeError, RecordDeserializationError
from kwire.model import ZERO_UUID
from kwire.parallel_rebalance.token import HeadMark, encode_mark
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kwire.testing import Cluster

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from tests.integration.consumer.lag_story import Story
    from tests.integration.kafkas import SharedKafka

pytestmark = pytest.mark.slow

DEADLINE_S = 30.0


def at(offset: int, metadata: str = "", leader_epoch: int | None = None) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, metadata, leader_epoch)


def leave_a_lag_behind(story: Story, leader_epoch: int | None = None) -> None:
    """The child had committed 100 of [70, 120), the main cursor 140, and the log ends at 150."""
    consumer = story.lag(70, 120)
    story.read(consumer, main=[], child=range(70, 120))
    story.produce_up_to(150)
    story.read(consumer, main=range(120, 150), child=[])
    story.claim_of(consumer)
    consumer.commit_sync({story.tp: at(100, "", leader_epoch)})
    consumer.commit_sync({story.tp: at(140, "", leader_epoch)})
    assert (story.group_log().offset, story.head_log().offset) == (100, 140)
    story.crash(consumer)


# --- who comes next ---


def test_a_client_that_knows_nothing_of_ranges_reads_again_and_skips_nothing(story: Story, kafka: SharedKafka) -> None:
    leave_a_lag_behind(story)
    other = OtherConsumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": story.group_id, "enable.auto.commit": False}
    )
    other.assign([OtherTopicPartition(*story.tp, found.offset) for found in _committed(other, story)])
    seen: list[int] = []
    until_s = time.monotonic() + DEADLINE_S
    while len(seen) < 50 and time.monotonic() < until_s:
        message = other.poll(1.0)
        if message is not None and (offset := message.offset()) is not None:
            seen.append(offset)
    assert seen == list(range(100, 150))
    other.commit(offsets=[OtherTopicPartition(*story.tp, 110)], asynchronous=False)
    other.close()
    # What it committed has no token: everything behind it is to be done, whatever the head's log says.
    story.read_all(story.start(), range(110, 150))


def _committed(other: OtherConsumer, story: Story) -> list[OtherTopicPartition]:
    return other.committed([OtherTopicPartition(*story.tp)], timeout=DEADLINE_S)


def test_without_the_feature_everything_behind_the_low_water_mark_is_read_again(story: Story) -> None:
    leave_a_lag_behind(story)
    plain = story.start(enable_parallel_rebalance=False)
    story.read(plain, main=range(100, 150), child=[])
    plain.commit_sync()
    assert (story.group_log().offset, story.group_log().metadata) == (150, "")
    story.crash(plain)
    story.produce_up_to(160)
    story.read_all(story.start(), range(150, 160))


def test_what_a_zombie_writes_into_the_heads_log_makes_nobody_skip(story: Story) -> None:
    """It was declared dead and does not know yet. The group's log is closed to it, the head's is not."""
    leave_a_lag_behind(story)
    heir = story.start()
    story.read(heir, main=[], child=[*range(100, 120), *range(140, 150)])
    token = story.claim_of(heir)
    story.produce_up_to(170)
    zombie = story.start(group_id=f"{story.group_id}.head", enable_parallel_rebalance=False, assigned=True)
    zombie.commit_sync({story.tp: at(160, encode_mark(HeadMark("a former life", ZERO_UUID)))})
    story.crash(heir)
    last = story.start()
    story.read_all(last, [*range(100, 120), *range(140, 170)])
    assert token.head == 150


def test_another_member_continues_the_lag_it_is_given(story: Story) -> None:
    leave_a_lag_behind(story)
    first = story.start(max_poll_records=5)
    seen = [record.offset for record in first.poll(10.0)]
    first.commit_sync()
    story.crash(first)
    story.read_all(story.start(), {*range(100, 120), *range(140, 150)} - set(seen))


def test_a_consumer_that_crashes_again_and_again_loses_nothing(story: Story) -> None:
    """Each time something is returned, some of it is committed, and the log grows."""
    story.produce_up_to(100)
    first = story.start()
    story.read(first, main=range(100), child=[])
    first.commit_sync({story.tp: at(70)})
    seen: set[int] = set(range(70))
    story.crash(first)
    for crash in range(6):
        story.produce_up_to(story.end + 20)
        consumer = story.start(max_poll_records=9)
        for _ in range(3):
            records = consumer.poll(5.0)
            seen |= {record.offset for record in records}
            if crash % 2:
                consumer.commit_sync(records.next_offsets())
        low = consumer.committed([story.tp])[story.tp]
        assert low is not None
        assert set(range(low.offset)) <= seen
        story.crash(consumer)
    last = story.start()
    while len(seen) < story.end:
        seen |= {record.offset for record in last.poll(5.0)}
    last.commit_sync()
    assert (story.group_log().offset, story.group_log().metadata) == (story.end, "")


# --- the log changes ---


def delete_records(admin: AdminClient, story: Story, before: int) -> None:
    for done in admin.delete_records([OtherTopicPartition(*story.tp, before)]).values():
        done.result(DEADLINE_S)


def test_what_retention_takes_of_the_lag_is_not_waited_for(story: Story, admin: AdminClient) -> None:
    consumer = story.lag(70, 120)
    delete_records(admin, story, 90)
    story.read(consumer, main=[], child=range(90, 120))
    consumer.commit_sync()
    assert (story.group_log().offset, story.group_log().metadata) == (120, "")


def test_a_lag_that_retention_took_as_a_whole_is_done(story: Story, admin: AdminClient) -> None:
    consumer = story.lag(70, 120)
    delete_records(admin, story, 120)
    story.produce_up_to(125)
    story.read_all(consumer, range(120, 125))
    story.until(lambda: not any(each.left for each in consumer.catch_up_progress().values()), consumer)
    consumer.commit_sync()
    assert (story.group_log().offset, story.group_log().metadata) == (125, "")


def test_without_a_reset_policy_the_loss_is_raised(story: Story, admin: AdminClient) -> None:
    consumer = story.lag(70, 120, auto_offset_reset="none")
    delete_records(admin, story, 90)
    with pytest.raises(OffsetOutOfRangeError, match="70"):
        story.read_all(consumer, range(90, 120))
    story.read_all(consumer, range(90, 120))


def test_the_lag_of_a_topic_that_was_recreated_is_void(story: Story, admin: AdminClient) -> None:
    """Its offsets are other records now, and all of them are new."""
    leave_a_lag_behind(story)
    admin.delete_topics([story.tp.topic])[story.tp.topic].result(DEADLINE_S)
    until_s = time.monotonic() + DEADLINE_S
    while story.tp.topic in admin.list_topics(timeout=DEADLINE_S).topics:
        assert time.monotonic() < until_s
    admin.create_topics([NewTopic(story.tp.topic, 1, 1)])[story.tp.topic].result(DEADLINE_S)
    story.end = 0
    story.produce_up_to(180)
    consumer = story.start()
    # Kafka forgets a group's offsets with the topic, some time after it. Until then the group's own offset counts.
    offsets: set[int] = set()
    while not set(range(100, 180)) <= offsets:
        offsets |= {record.offset for record in consumer.poll(5.0)}
    assert not offsets - set(range(180))


def test_each_cursor_leaves_out_the_transactions_that_were_aborted(story: Story, kafka: SharedKafka) -> None:
    """One of them in the lag, one behind it; and one from before the end of the lag to behind it."""
    committed = story.write_transactions(kafka, ["commit", "abort", "commit"])
    consumer, returned = story.lag_of_nothing_read(isolation_level="read_committed")
    more = story.write_transactions(kafka, ["abort", "commit"])
    until_s = time.monotonic() + DEADLINE_S
    while sum(map(len, returned)) < len(committed) + len(more) - 1 and time.monotonic() < until_s:
        returned.append(consumer.poll(0.5))
    found = {cursor: [record.value for records in returned for record in records.of(cursor)] for cursor in Cursor}
    assert found[Cursor.CHILD] + found[Cursor.MAIN] == [*committed, *more][1:]
    assert found[Cursor.CHILD] == committed[1:]


# --- records that cannot be read ---


def refuse_80(data: bytes) -> bytes:
    if data == b"80":
        raise ValueError("not this one")
    return data


def test_a_record_of_the_lag_that_cannot_be_deserialized_can_be_passed_over(story: Story) -> None:
    consumer = story.lag(70, 120, value_deserializer=refuse_80)
    story.read(consumer, main=[], child=range(70, 80))
    with pytest.raises(RecordDeserializationError) as raised:
        consumer.poll(10.0)
    assert raised.value.offset == 80
    with pytest.raises(RecordDeserializationError):
        consumer.poll(10.0)
    consumer.seek(story.tp, 81)
    story.read(consumer, main=[], child=range(81, 120))
    assert consumer.position(story.tp) == 120


def test_what_is_new_comes_although_a_record_of_the_lag_cannot_be_read(story: Story) -> None:
    """Also what comes behind it, when that is there already: the lag's error was raised again for ever."""
    consumer = story.lag(70, 120, value_deserializer=refuse_80)
    story.read(consumer, main=[], child=range(70, 80))
    seen, errors = list[int](), 0
    for end in range(121, 126):
        story.produce_up_to(end)
        until_s = time.monotonic() + DEADLINE_S  # not so many polls: one that raises does not wait for what is new
        while (len(seen) < end - 120 or not errors) and time.monotonic() < until_s:
            try:
                seen += [record.offset for record in consumer.poll(0.2)]
            except RecordDeserializationError:
                errors += 1
        assert seen == list(range(120, end))
    assert errors


# --- what does not go together ---


def test_a_transactional_producer_cannot_commit_past_the_lag(story: Story) -> None:
    consumer = story.start()
    with pytest.raises(IllegalStateError, match="still to be read"):
        consumer.group_metadata()


# --- what only the Kafka in this process can be told to do ---

FAKE_ALONE = pytest.mark.only("fake", reason="nobody can have a real Kafka lose so many records, or refuse one group")


@FAKE_ALONE
def test_what_was_written_anew_behind_a_cut_is_returned_though_its_offsets_were_committed(
    story: Story, kafka: SharedKafka
) -> None:
    """The head had committed 140. The log was cut in front of that while nobody looked, and has other records since."""
    assert isinstance(kafka, Cluster)
    leave_a_lag_behind(story, leader_epoch=0)
    kafka.elect_uncleanly(*story.tp, lose=20)
    story.end = kafka.end_offset(*story.tp)
    assert 120 <= story.end < 140
    cut = story.end
    story.produce_up_to(160)
    story.read_all(story.start(), [*range(100, 120), *range(cut, 160)])


@FAKE_ALONE
def test_a_cut_in_the_lag_gives_everything_behind_it_to_the_main_cursor(story: Story, kafka: SharedKafka) -> None:
    assert isinstance(kafka, Cluster)
    story.produce_up_to(75)
    consumer = story.lag(70, 120, max_poll_records=10)
    assert [record.offset for record in consumer.poll(10.0)] == list(range(70, 80))
    kafka.elect_uncleanly(*story.tp, lose=45)
    story.end = kafka.end_offset(*story.tp)
    assert story.end < 80
    cut = story.end
    story.produce_up_to(130)
    seen: set[int] = set()
    until_s = time.monotonic() + DEADLINE_S
    while not seen >= set(range(cut, 130)):
        assert time.monotonic() < until_s, seen
        seen |= {record.offset for record in consumer.poll(0.5) if record.leader_epoch}
    consumer.commit_sync()
    assert (story.group_log().offset, story.group_log().metadata) == (130, "")


@FAKE_ALONE
def test_without_permission_for_the_heads_log_a_poll_says_so(story: Story, kafka: SharedKafka) -> None:
    assert isinstance(kafka, Cluster)
    leave_a_lag_behind(story)
    refusal = kafka.control.on(FindCoordinatorRequest, where=partial(_asks_for_head, story)).answer(
        FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=f"{story.group_id}.head", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, node_id=-1)
            ]
        )
    )
    consumer = story.start()
    with pytest.raises(GroupAuthorizationError, match="head"):
        story.read_all(consumer, range(100, 150))
    refusal.remove()
    seen: set[int] = set()
    while not seen >= {*range(100, 120), *range(140, 150)}:
        with suppress(GroupAuthorizationError):  # those of before
            seen |= {record.offset for record in consumer.poll(1.0)}


def _asks_for_head(story: Story, request: FindCoordinatorRequest, call: object) -> bool:
    return f"{story.group_id}.head" in request.coordinator_keys
