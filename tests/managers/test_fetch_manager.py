"""Fetching: which broker is asked for what, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from kwire.config.consumer_config import MIB
from kwire.errors import BrokerError, CorruptRecordError, DisconnectError, KafkaError, TopicAuthorizationError
from kwire.events import AssignRanges, BufferDrained, EnforceRebalance, ErrorRaised, Reply, SetHold
from kwire.fetching.buffer import RESERVED_SHARE
from kwire.holds import Hold
from kwire.managers.fetch import PATIENCE_MS
from kwire.managers.unsent import Channel
from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponseBroker
from kwire.subscription.partition import FIRST_FETCH_BYTES, AssignedPartition

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario
    from tests.record_batches import batch, misframed
else:
    from record_batches import batch, misframed

O0 = TopicPartition("orders", 0)
O1 = TopicPartition("orders", 1)
TOPIC_ID = UUID(int=0xFEED)
SESSION_ID = 77
MakeScenario = Callable[..., "Scenario"]


@pytest.fixture
def one_broker(scenario: Scenario) -> Scenario:
    """`orders-0` and `orders-1` are both led by broker 1, and their first fetch is under way."""
    scenario.topics["orders"] = (1, 1)
    scenario.start_fetching(O0, O1)
    return scenario


def data(number: int = 0, records: bytes | None = None, **fields: object) -> PartitionData:
    made = PartitionData(partition_index=number, records=records, high_watermark=100)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def answer(scenario: Scenario, *partitions: PartitionData, session_id: int = SESSION_ID) -> None:
    topics = [FetchableTopicResponse(topic="orders", partitions=list(partitions))] if partitions else []
    scenario.answer(FetchRequest, FetchResponse(session_id=session_id, responses=topics))


def refuse(scenario: Scenario, code: ErrorCode, number: int = 0, **fields: object) -> None:
    answer(scenario, data(number, None, error_code=code, **fields))


def wanted(scenario: Scenario) -> dict[int, int]:
    """Partition and offset of what the oldest fetch asks for anew."""
    request = scenario.request(FetchRequest)
    return {p.partition: p.fetch_offset for topic in request.topics for p in topic.partitions}


def forgotten(scenario: Scenario) -> list[int]:
    return [number for topic in scenario.request(FetchRequest).forgotten_topics_data for number in topic.partitions]


def fetched_from(scenario: Scenario) -> list[int]:
    return [u.destination.node.id for u in scenario.pending(FetchRequest) if u.destination.node is not None]


def buffered(scenario: Scenario) -> list[tuple[TopicPartition, int]]:
    found = []
    while (fetch := scenario.buffer.front()) is not None:
        found.append((fetch.topic_partition, fetch.fetch_offset))
        scenario.buffer.release(fetch)
    return found


# --- the request ------------------------------------------------------------------------------------------------


def test_each_broker_gets_one_request_of_its_own(scenario: Scenario) -> None:
    scenario.start_fetching(O0, O1, offset=5)
    assert sorted(fetched_from(scenario)) == [1, 2]
    for _ in range(3):
        assert scenario.turn() == []


def test_the_request_carries_the_settings(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(
        fetch_min_bytes=10,
        fetch_max_wait_ms=200,
        fetch_max_bytes=3_000,
        max_partition_fetch_bytes=1_000,
        isolation_level="read_committed",
        client_rack="rack-1",
        request_timeout_ms=1_000,
    )
    scenario.start_fetching(O0, offset=5)
    request, unsent = scenario.request(FetchRequest), scenario.unsent(FetchRequest)
    partition = request.topics[0].partitions[0]
    assert (request.min_bytes, request.max_wait_ms, request.max_bytes) == (10, 200, 3_000)
    assert (request.isolation_level, request.rack_id) == (1, "rack-1")
    assert (partition.fetch_offset, partition.current_leader_epoch, partition.partition_max_bytes) == (5, 5, 1_000)
    # The broker may hold the request for fetch_max_wait_ms before its own time begins.
    assert (unsent.timeout_ms, unsent.destination.channel) == (1_200, Channel.FETCH)


def sizes(scenario: Scenario) -> list[int]:
    """How much the oldest fetch asks for, partition by partition."""
    return [p.partition_max_bytes for topic in scenario.request(FetchRequest).topics for p in topic.partitions]


def start_with_partitions(scenario: Scenario, count: int) -> None:
    scenario.topics["orders"] = (1,) * count
    scenario.start_fetching(*(TopicPartition("orders", number) for number in range(count)), offset=5)


def final_sizes(scenario: Scenario, count: int) -> list[int]:
    """The first fetches are smaller."""
    for offset in (5, 6, 7):
        assert max(sizes(scenario)) < 4 * MIB
        answer(scenario, *(data(number, batch(offset)) for number in range(count)))
    return sizes(scenario)


@pytest.mark.parametrize(("partitions", "mib"), [(1, 4), (4, 4), (8, 2), (16, 1), (60, 1)])
def test_few_partitions_are_asked_for_more_each(scenario: Scenario, partitions: int, mib: int) -> None:
    """Together for an answer of 16 MiB, a quarter of the buffer; for 1 MiB at least, and 4 MiB at most."""
    start_with_partitions(scenario, partitions)
    assert final_sizes(scenario, partitions) == [mib * MIB] * partitions


def test_what_the_user_says_of_a_partition_holds(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(max_partition_fetch_bytes=5_000)
    start_with_partitions(scenario, 2)
    assert sizes(scenario) == [5_000] * 2


@pytest.mark.parametrize("setting", ["fetch_max_bytes", "fetch_buffer_bytes"])
def test_what_the_user_says_of_answers_and_memory_bounds_what_a_partition_is_asked_for(
    make_scenario: MakeScenario, setting: str
) -> None:
    scenario = make_scenario(**{setting: 8 * MIB if setting == "fetch_max_bytes" else 32 * MIB})
    start_with_partitions(scenario, 4)
    assert final_sizes(scenario, 4) == [2 * MIB] * 4


def test_when_partitions_go_the_others_are_asked_for_more(scenario: Scenario) -> None:
    partitions = [TopicPartition("orders", number) for number in range(8)]
    start_with_partitions(scenario, 8)
    assert final_sizes(scenario, 8) == [2 * MIB] * 8
    scenario.assign(*partitions[:4])
    answer(scenario, *(data(number, batch(8)) for number in range(4)))
    assert sizes(scenario) == [4 * MIB] * 4


def test_from_a_new_position_the_first_fetch_is_small_and_later_ones_are_full(scenario: Scenario) -> None:
    """The caller has the first records sooner, and who looks up single ones fetches little in vain."""
    start_with_partitions(scenario, 1)
    asked = []
    for offset in range(5, 10):
        asked += sizes(scenario)
        answer(scenario, data(0, batch(offset)))
    assert asked == [FIRST_FETCH_BYTES, MIB, 2 * MIB, 4 * MIB, 4 * MIB]
    scenario.seek(O0, 50)
    answer(scenario, data(0, batch(10)))
    assert (wanted(scenario), sizes(scenario)) == ({0: 50}, [FIRST_FETCH_BYTES])


def test_a_range_begins_with_a_small_fetch(scenario: Scenario) -> None:
    for start in (0, 50):
        scenario.post(AssignRanges({O0: (start, 100)}, Reply()))
        scenario.serve()
        if start:
            answer(scenario, data(0, batch(1)))
        assert (wanted(scenario), sizes(scenario)) == ({0: start}, [FIRST_FETCH_BYTES])
        answer(scenario, data(0, batch(start)))
        assert sizes(scenario) == [2 * FIRST_FETCH_BYTES]


def test_a_partition_whose_first_batch_is_too_large_for_a_small_fetch_is_asked_for_a_larger_one(
    scenario: Scenario,
) -> None:
    """Of a request's partitions only the first one with records has its first batch whole, whatever its size."""
    scenario.topics["orders"] = (1, 1)
    scenario.start_fetching(O0, O1, offset=0)
    answer(scenario, data(0, batch(0, 1)), data(1))
    assert (wanted(scenario), sizes(scenario)) == ({1: 0, 0: 2}, [2 * FIRST_FETCH_BYTES] * 2)


def test_a_partition_that_has_no_records_is_not_named_again(scenario: Scenario) -> None:
    scenario.topics["orders"] = (1, 1)
    scenario.start_fetching(O0, O1, offset=0)
    answer(scenario, data(0, batch(0, 1)), data(1, high_watermark=0))
    assert wanted(scenario) == {0: 2}


def test_without_topic_ids_the_version_stays_where_names_are_spoken(one_broker: Scenario) -> None:
    assert one_broker.unsent(FetchRequest).max_version == 12


def test_with_topic_ids_the_newest_version_is_used_and_its_answer_understood(scenario: Scenario) -> None:
    scenario.assign(O0)
    scenario.seek(O0, 0)
    metadata = scenario.metadata()
    metadata.topics[0].topic_id = TOPIC_ID
    scenario.answer(MetadataRequest, metadata)
    assert scenario.unsent(FetchRequest).max_version is None
    assert scenario.request(FetchRequest).topics[0].topic_id == TOPIC_ID
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data(0, batch(0, 1))])
    stranger = FetchableTopicResponse(topic_id=UUID(int=1), partitions=[data(0, batch(0, 1))])
    scenario.answer(FetchRequest, FetchResponse(session_id=1, responses=[topic, stranger]))
    assert buffered(scenario) == [(O0, 0)]


# --- sessions ---------------------------------------------------------------------------------------------------


def test_the_first_request_is_full_and_the_next_ones_name_what_changed(one_broker: Scenario) -> None:
    request = one_broker.request(FetchRequest)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert wanted(one_broker) == {0: 0, 1: 0}
    answer(one_broker, data(0, batch(0, 1, 2)), data(1, high_watermark=0))
    request = one_broker.request(FetchRequest)
    assert (request.session_id, request.session_epoch) == (SESSION_ID, 1)
    assert wanted(one_broker) == {0: 3}
    answer(one_broker)
    assert (one_broker.request(FetchRequest).session_epoch, wanted(one_broker)) == (2, {})


def test_what_leaves_the_assignment_is_forgotten(one_broker: Scenario) -> None:
    one_broker.assign(O0)
    answer(one_broker)
    assert (wanted(one_broker), forgotten(one_broker)) == ({}, [1])


def test_a_topic_that_was_recreated_is_forgotten_under_the_old_id_and_added_under_the_new(scenario: Scenario) -> None:
    scenario.assign(O0)
    scenario.seek(O0, 0)
    metadata = scenario.metadata()
    metadata.topics[0].topic_id = TOPIC_ID
    scenario.answer(MetadataRequest, metadata)
    scenario.advance(1_000)
    scenario.managers.metadata.request_update()
    scenario.turn()
    metadata = scenario.metadata()
    metadata.topics[0].topic_id = UUID(int=2)
    scenario.answer(MetadataRequest, metadata)
    answer(scenario)
    scenario.answer_offsets({O0: 0})  # the old topic has served it: the position means nothing in the new one
    request = scenario.request(FetchRequest)
    assert [t.topic_id for t in request.forgotten_topics_data] == [TOPIC_ID]
    assert [t.topic_id for t in request.topics] == [UUID(int=2)]


SESSION_ERRORS = [
    (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
    (ErrorCode.INVALID_FETCH_SESSION_EPOCH, SESSION_ID),
    (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, SESSION_ID),
]


@pytest.mark.parametrize(("code", "session_id"), SESSION_ERRORS, ids=lambda value: getattr(value, "name", value))
def test_a_session_that_broke_is_replaced_by_a_full_request(
    one_broker: Scenario, code: ErrorCode, session_id: int
) -> None:
    answer(one_broker)
    one_broker.answer(FetchRequest, FetchResponse(error_code=code))
    one_broker.serve()
    assert not one_broker.pending(FetchRequest)
    one_broker.advance(100)
    request = one_broker.request(FetchRequest)
    # The old session, when there may be one, is closed by the new request (KIP-227).
    assert (request.session_id, request.session_epoch) == (session_id, 0)
    assert wanted(one_broker) == {0: 0, 1: 0}


def test_a_lost_connection_is_followed_by_a_full_request(one_broker: Scenario) -> None:
    answer(one_broker)
    one_broker.fail(FetchRequest)
    one_broker.serve()
    one_broker.advance(100)
    assert (one_broker.request(FetchRequest).session_epoch, wanted(one_broker)) == (0, {0: 0, 1: 0})


def test_an_error_of_the_connection_that_stays_is_raised(one_broker: Scenario) -> None:
    one_broker.fail(FetchRequest, KafkaError("this broker offers no Fetch"))
    assert "no Fetch" in str(one_broker.take_error(KafkaError))


def test_closing_ends_the_sessions_on_another_connection(one_broker: Scenario) -> None:
    assert one_broker.managers.main.fetch.poll_on_close() == []
    answer(one_broker)
    (farewell,) = one_broker.managers.main.fetch.poll_on_close()
    assert isinstance(farewell.request, FetchRequest)
    assert (farewell.request.session_id, farewell.request.session_epoch) == (SESSION_ID, -1)
    assert farewell.destination.channel is Channel.CONTROL
    farewell.on_answer(FetchResponse(), one_broker.now_ms)
    farewell.on_failure(DisconnectError("gone"), one_broker.now_ms)


# --- answers ----------------------------------------------------------------------------------------------------


def test_records_go_into_the_buffer_and_the_next_fetch_begins_behind_them(one_broker: Scenario) -> None:
    aborted = [AbortedTransaction(producer_id=3, first_offset=1)]
    answer(one_broker, data(0, batch(0, 1) + batch(2, end=9), last_stable_offset=50, aborted_transactions=aborted))
    assert one_broker.data_notices == 1
    assert wanted(one_broker) == {0: 10}
    fetch = one_broker.buffer.front()
    assert fetch is not None
    assert (fetch.epoch, fetch.fetch_offset, fetch.aborted) == (one_broker.partition(O0).epoch, 0, ((3, 1),))
    partition = one_broker.partition(O0)
    assert (partition.high_watermark, partition.last_stable_offset) == (100, 50)
    assert (partition.end_offset(read_committed=False), partition.end_offset(read_committed=True)) == (100, 50)
    one_broker.buffer.release(fetch)


def test_a_fetch_knows_the_leader_epoch_of_what_lies_in_front_of_it(one_broker: Scenario) -> None:
    answer(one_broker, data(0, batch(0, 1, epoch=4)))
    answer(one_broker, data(0, batch(2, epoch=5)))
    first = one_broker.buffer.front()
    assert first is not None
    one_broker.buffer.release(first)
    second = one_broker.buffer.front()
    assert second is not None
    assert (first.fetch_epoch, second.fetch_epoch) == (None, 4)


def test_after_records_the_next_fetch_waits_for_nobody(one_broker: Scenario) -> None:
    """It is asked for again before the other managers are polled, and not once more with them."""
    (unsent,) = one_broker.pending(FetchRequest)
    topic = FetchableTopicResponse(topic="orders", partitions=[data(0, batch(0, 1)), data(1, high_watermark=0)])
    unsent.on_answer(FetchResponse(session_id=SESSION_ID, responses=[topic]), one_broker.now_ms)
    assert one_broker.managers.main.fetch.may_poll_early
    (early,) = one_broker.managers.main.fetch.poll(one_broker.now_ms).requests
    assert isinstance(early.request, FetchRequest)
    assert [p.fetch_offset for topic in early.request.topics for p in topic.partitions] == [2]
    assert not one_broker.turn()


@pytest.mark.parametrize(
    "partitions",
    [(), (data(0),), (data(0, batch(0, 1)), data(1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))],
    ids=["nothing", "no records", "records and an error"],
)
def test_after_anything_else_the_next_fetch_has_its_turn(
    one_broker: Scenario, partitions: tuple[PartitionData, ...]
) -> None:
    """What to ask next may depend on what others make of the answer, and there is no hurry."""
    (unsent,) = one_broker.pending(FetchRequest)
    topic = FetchableTopicResponse(topic="orders", partitions=list(partitions))
    unsent.on_answer(FetchResponse(session_id=SESSION_ID, responses=[topic]), one_broker.now_ms)
    assert not one_broker.managers.main.fetch.may_poll_early
    assert [type(unsent.request) for unsent in one_broker.turn()][:1] == [FetchRequest]


def test_an_answer_without_records_disturbs_nobody(one_broker: Scenario) -> None:
    answer(one_broker, data(0), data(1, b""))
    assert one_broker.data_notices == 0
    assert one_broker.pending(FetchRequest)


def test_an_answer_from_before_a_seek_is_dropped(one_broker: Scenario) -> None:
    one_broker.seek(O0, 50)
    answer(one_broker, data(0, batch(0, 1)))
    assert buffered(one_broker) == []
    assert wanted(one_broker) == {0: 50}


def test_an_answer_for_a_partition_that_was_given_up_is_dropped(one_broker: Scenario) -> None:
    one_broker.assign(O1)
    answer(one_broker, data(0, batch(0, 1)))
    assert buffered(one_broker) == []


def test_an_answer_for_a_partition_that_is_being_revoked_is_dropped(scenario: Scenario) -> None:
    scenario.become_stable(O0, offset=0)
    scenario.post(EnforceRebalance("because"))
    answer(scenario, data(0, batch(0, 1)))
    assert buffered(scenario) == []
    assert not scenario.pending(FetchRequest)


def test_an_answer_for_something_nobody_asked_for_is_dropped(one_broker: Scenario) -> None:
    answer(one_broker, data(9, batch(0)))
    assert buffered(one_broker) == []


def test_of_two_brokers_that_answer_for_a_partition_the_first_counts(scenario: Scenario) -> None:
    scenario.start_fetching(O0)
    move_leader(scenario, 3)
    assert fetched_from(scenario) == [1, 3]
    answer(scenario, data(0, batch(0, 1)))
    answer(scenario, data(0, batch(0, 1)))
    assert buffered(scenario) == [(O0, 0)]


def test_only_partitions_that_changed_are_looked_at(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand partitions may be assigned: an answer for one of them is work for one."""
    looked_at: list[TopicPartition] = []
    fetchable = AssignedPartition.fetchable

    def count(partition: AssignedPartition, now_ms: float) -> bool:
        looked_at.append(partition.topic_partition)
        return fetchable(partition, now_ms)

    scenario.topics["orders"] = (1,) * 50
    scenario.start_fetching(*(TopicPartition("orders", n) for n in range(50)))
    monkeypatch.setattr(AssignedPartition, "fetchable", count)
    answer(scenario, data(7, batch(0)))
    for _ in range(5):
        scenario.turn()
    assert looked_at == [TopicPartition("orders", 7)]


# --- the buffer -------------------------------------------------------------------------------------------------


def test_a_full_buffer_stops_fetching_and_room_resumes_it(make_scenario: MakeScenario) -> None:
    records = batch(0, 1, 2)
    scenario = make_scenario(fetch_buffer_bytes=len(records))
    scenario.start_fetching(O0)
    answer(scenario, data(0, records))
    assert not scenario.pending(FetchRequest)
    scenario.post(BufferDrained())
    assert not scenario.pending(FetchRequest)
    assert buffered(scenario) == [(O0, 0)]
    assert scenario.buffer.drained()
    scenario.post(BufferDrained())
    assert wanted(scenario) == {0: 3}


def max_bytes_asked_for(scenario: Scenario) -> list[int]:
    return [request.max_bytes for request in scenario.requests(FetchRequest)]


def test_what_other_brokers_are_asked_for_takes_room(make_scenario: MakeScenario) -> None:
    """It may come in the next moment. With what each had been asked for beside a buffer that was empty then, five
    brokers filled one of 400 KB with 570."""
    records = batch(0, 1, 2)
    limit_bytes = len(records) * 2
    scenario = make_scenario(fetch_buffer_bytes=limit_bytes)
    scenario.start_fetching(O0, O1)
    assert max_bytes_asked_for(scenario) == [limit_bytes // 4, limit_bytes // 4]
    answer(scenario, data(0, records))
    reserved_bytes = int(limit_bytes * RESERVED_SHARE)
    left_bytes = limit_bytes - reserved_bytes - len(records) - limit_bytes // 4
    assert max_bytes_asked_for(scenario) == [limit_bytes // 4, left_bytes]


def test_what_all_brokers_are_asked_for_leaves_half_of_the_buffer(make_scenario: MakeScenario) -> None:
    """Else one that has much would wait for those that have nothing and take their time to say so."""
    scenario = make_scenario(fetch_buffer_bytes=12_000)
    scenario.topics["orders"] = (1, 2, 3)
    scenario.start_fetching(*(TopicPartition("orders", number) for number in range(3)))
    assert max_bytes_asked_for(scenario) == [2_000] * 3


def test_one_answer_takes_no_more_than_a_quarter_of_the_buffer(make_scenario: MakeScenario) -> None:
    """It stays in memory until its last record is collected, so room comes by whole answers. With hundreds of
    partitions one had 50 MiB of the buffer's 64: the next would not be asked for before it is collected to its end."""
    scenario = make_scenario(fetch_buffer_bytes=10_000)
    scenario.start_fetching(O0)
    assert max_bytes_asked_for(scenario) == [2_500]


def test_a_seek_makes_room(make_scenario: MakeScenario) -> None:
    records = batch(0, 1, 2)
    scenario = make_scenario(fetch_buffer_bytes=len(records))
    scenario.start_fetching(O0)
    answer(scenario, data(0, records))
    scenario.seek(O0, 50)
    assert wanted(scenario) == {0: 50}


# --- partitions of which nothing is buffered ------------------------------------------------------------------


def with_no_room_but_the_reserved(make_scenario: MakeScenario, records: bytes) -> Scenario:
    """One partition's records fill the buffer up to what is reserved; the other one has none."""
    scenario = make_scenario(fetch_buffer_bytes=ceil(len(records) / (1 - RESERVED_SHARE)))
    scenario.topics["orders"] = (1, 1)
    scenario.start_fetching(O0, O1)
    answer(scenario, data(0, records), data(1, high_watermark=0))
    assert not scenario.pending(FetchRequest)
    scenario.advance(PATIENCE_MS)
    return scenario


def collect(scenario: Scenario, tp: TopicPartition, others: TopicPartition) -> None:
    """As the application does, which tells the network thread if there is room, or a partition has run out."""
    fetch = scenario.buffer.front({others})
    assert fetch is not None
    assert fetch.topic_partition == tp
    scenario.buffer.release(fetch)
    if (refusal := scenario.buffer.drained()) is not None:
        scenario.post(BufferDrained())
        scenario.buffer.drain_told(refusal)


def test_a_partition_without_buffered_records_is_fetched_beside_others_that_fill_the_buffer(
    make_scenario: MakeScenario,
) -> None:
    """A slow application hears of its records before it has handled all that is buffered of the others."""
    records = batch(*range(100))
    scenario = with_no_room_but_the_reserved(make_scenario, records)
    assert (wanted(scenario), forgotten(scenario)) == ({}, [0])
    (asked_bytes,) = max_bytes_asked_for(scenario)
    assert 0 < asked_bytes <= scenario.buffer.limit_bytes - len(records)


def test_once_its_records_are_taken_it_is_fetched_on_though_there_is_still_no_room(make_scenario: MakeScenario) -> None:
    scenario = with_no_room_but_the_reserved(make_scenario, batch(*range(100)))
    answer(scenario, data(1, batch(0), high_watermark=1))
    assert not scenario.pending(FetchRequest)
    collect(scenario, O1, others=O0)
    assert (wanted(scenario), forgotten(scenario)) == ({1: 1}, [])


def test_when_there_is_room_again_the_others_do_not_wait_for_its_fetch(make_scenario: MakeScenario) -> None:
    scenario = with_no_room_but_the_reserved(make_scenario, batch(*range(100)))
    collect(scenario, O0, others=O1)
    assert [sent.destination.channel for sent in scenario.pending(FetchRequest)] == [Channel.FETCH, Channel.NEW_FETCH]
    assert [topic.partitions[0].fetch_offset for topic in scenario.requests(FetchRequest)[1].topics] == [100]


def test_what_is_sought_while_it_is_set_aside_is_fetched_there(make_scenario: MakeScenario) -> None:
    scenario = with_no_room_but_the_reserved(make_scenario, batch(*range(100)))
    scenario.seek(O0, 500)
    (sought,) = [topic.partitions[0] for topic in scenario.requests(FetchRequest)[-1].topics]
    assert (sought.partition, sought.fetch_offset) == (0, 500)


def test_partitions_that_are_paused_one_after_the_other_do_not_each_fill_what_is_reserved(
    make_scenario: MakeScenario,
) -> None:
    """The first one keeps its records, and each other one is paused when it has some."""
    partitions = [TopicPartition("orders", number) for number in range(40)]
    scenario = make_scenario(fetch_buffer_bytes=MIB)
    scenario.topics["orders"] = (1,) * len(partitions)
    scenario.start_fetching(*partitions)
    for tp in partitions:
        if not scenario.pending(FetchRequest):
            scenario.advance(PATIENCE_MS)
        if not scenario.pending(FetchRequest):
            break  # nothing is left for what is paused
        size_bytes = 7 * max_bytes_asked_for(scenario)[0] // 8
        answer(scenario, data(tp.partition, batch(0, values={0: bytes(size_bytes)})))
        if tp != partitions[0]:
            pause(scenario, tp)
    assert scenario.buffer.size_bytes <= 5 * MIB // 2


def test_a_buffer_that_was_full_long_ago_is_waited_for_anew(make_scenario: MakeScenario) -> None:
    scenario = with_no_room_but_the_reserved(make_scenario, batch(*range(100)))
    assert scenario.buffer.tells_run_out
    pause(scenario, O0, O1)
    assert not scenario.buffer.tells_run_out


def test_a_fast_application_is_waited_for(make_scenario: MakeScenario) -> None:
    """A session that changes for each partition that has run out would cost more than the moment."""
    records = batch(*range(100))
    scenario = make_scenario(fetch_buffer_bytes=ceil(2 * len(records) / (1 - RESERVED_SHARE)))
    scenario.topics["orders"] = (1, 1)
    scenario.start_fetching(O0, O1)
    answer(scenario, data(0, records), data(1, records))
    assert not scenario.pending(FetchRequest)
    collect(scenario, O0, others=O1)
    scenario.advance(PATIENCE_MS / 2)
    assert not scenario.pending(FetchRequest)
    collect(scenario, O1, others=O0)
    assert (wanted(scenario), forgotten(scenario)) == ({0: 100, 1: 100}, [])


def pause(scenario: Scenario, *partitions: TopicPartition, paused: bool = True) -> None:
    scenario.post(SetHold(frozenset(partitions), Hold.USER_PAUSED, paused, Reply()))


def with_a_full_buffer(make_scenario: MakeScenario, records: bytes) -> Scenario:
    """One partition's records fill it, and the other one has to wait."""
    scenario = make_scenario(fetch_buffer_bytes=len(records))
    scenario.topics["orders"] = (1, 1)
    scenario.start_fetching(O0, O1)
    answer(scenario, data(0, records))
    assert not scenario.pending(FetchRequest)
    return scenario


def test_records_of_what_was_paused_meanwhile_do_not_have_it_fetched_on(one_broker: Scenario) -> None:
    pause(one_broker, O0)
    answer(one_broker, data(0, batch(0)), data(1, batch(0)))
    assert forgotten(one_broker) == [0]
    assert wanted(one_broker) == {1: 1}


def test_what_is_paused_is_not_fetched_and_does_not_keep_the_rest_from_it(make_scenario: MakeScenario) -> None:
    records = batch(0, 1, 2)
    scenario = with_a_full_buffer(make_scenario, records)
    pause(scenario, O0)
    assert (wanted(scenario), forgotten(scenario)) == ({}, [0])
    pause(scenario, O0, paused=False)
    answer(scenario, data(1, records))
    assert not scenario.pending(FetchRequest)
    assert buffered(scenario) == [(O0, 0), (O1, 0)]
    scenario.post(BufferDrained())
    assert wanted(scenario) == {0: 3, 1: 3}


def test_what_is_being_given_back_does_not_keep_the_rest_from_being_fetched(make_scenario: MakeScenario) -> None:
    """A revoke may be delayed for minutes (KIP-983), and nobody collects what is buffered of it."""
    records = batch(0, 1, 2)
    scenario = with_a_full_buffer(make_scenario, records)
    scenario.subscription.hold([O0], Hold.CALLBACK_PENDING)
    scenario.turn()
    assert (wanted(scenario), forgotten(scenario)) == ({}, [0])


# --- errors -----------------------------------------------------------------------------------------------------

SILENT = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
]


@pytest.mark.parametrize("code", SILENT, ids=lambda code: code.name)
def test_what_may_go_away_is_tried_again_with_fresh_metadata(one_broker: Scenario, code: ErrorCode) -> None:
    one_broker.advance(1_000)
    refuse(one_broker, code)
    assert one_broker.pending(MetadataRequest)
    assert not one_broker.errors
    # The other partition goes on meanwhile.
    assert forgotten(one_broker) == [0]
    one_broker.serve()
    answer(one_broker)
    one_broker.advance(100)
    answer(one_broker)
    assert wanted(one_broker) == {0: 0}


RAISED = [
    (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationError),
    (ErrorCode.CORRUPT_MESSAGE, CorruptRecordError),
    (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, BrokerError),
]


@pytest.mark.parametrize(("code", "error"), RAISED, ids=lambda value: getattr(value, "name", ""))
def test_what_the_user_has_to_know_is_raised_and_tried_again_later(
    one_broker: Scenario, code: ErrorCode, error: type[KafkaError]
) -> None:
    refuse(one_broker, code)
    assert "orders" in str(one_broker.take_error(error))
    answer(one_broker)
    one_broker.advance(100)
    answer(one_broker)
    assert wanted(one_broker) == {0: 0}


@pytest.mark.parametrize("code", [-1, 999], ids=["unknown", "newer than kwire"])
def test_an_error_nobody_can_name_is_logged_and_tried_again(
    one_broker: Scenario, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    refuse(one_broker, ErrorCode.of(code))
    assert "orders-0" in caplog.text
    assert not one_broker.errors
    one_broker.advance(100)
    answer(one_broker)
    assert wanted(one_broker) == {0: 0}


def test_a_partition_that_keeps_failing_is_asked_for_ten_times_a_second_at_most(scenario: Scenario) -> None:
    scenario.start_fetching(O0)
    count = 0
    for _ in range(100):
        while scenario.pending(FetchRequest):
            refuse(scenario, ErrorCode.UNKNOWN_SERVER_ERROR)
            count += 1
            assert count < 100, "a spin"
        scenario.advance(10)
    assert 8 <= count <= 12


@pytest.mark.parametrize("records", [batch(0, 1, 2)[:-1], batch(0)], ids=["a part of a batch", "a batch before it"])
def test_a_broker_that_answers_nothing_usable_is_not_asked_again_at_once(scenario: Scenario, records: bytes) -> None:
    scenario.start_fetching(O0, offset=1)
    count = 0
    for _ in range(100):
        while scenario.pending(FetchRequest):
            answer(scenario, data(0, records))
            count += 1
            assert count < 100, "a spin"
        scenario.advance(10)
    assert 8 <= count <= 12


def test_a_batch_behind_whose_last_offset_there_is_none_is_damage(scenario: Scenario) -> None:
    """The position behind it could not be written: no partition was fetched any more."""
    scenario.start_fetching(O0, offset=1)
    answer(scenario, data(0, batch(2**63 - 1)))
    error = scenario.take_error(CorruptRecordError)
    assert (error.topic, error.partition, error.offset) == ("orders", 0, 1)
    scenario.advance(100)
    assert wanted(scenario) == {0: 1}


def test_broken_framing_stops_the_partition_until_a_seek(one_broker: Scenario) -> None:
    answer(one_broker, data(0, batch(0, 1) + misframed(batch(2))))
    assert forgotten(one_broker) == [0]
    one_broker.advance(300_000)
    one_broker.serve()
    answer(one_broker)
    assert wanted(one_broker) == {}
    # What lies in front of the damage, and the damage itself, are for the collector to find.
    assert buffered(one_broker) == [(O0, 0)]
    one_broker.seek(O0, 3)
    answer(one_broker)
    assert wanted(one_broker) == {0: 3}


# --- leaders and followers --------------------------------------------------------------------------------------


def move_leader(scenario: Scenario, *leaders: int) -> None:
    scenario.topics["orders"] = leaders
    scenario.advance(1_000)
    scenario.managers.metadata.request_update()
    scenario.turn()
    scenario.answer(MetadataRequest, scenario.metadata(epoch=6))


def test_a_partition_follows_its_leader(scenario: Scenario) -> None:
    scenario.start_fetching(O0, offset=5)
    move_leader(scenario, 3, 2)
    assert fetched_from(scenario) == [1, 3]
    answer(scenario)
    assert wanted(scenario) == {0: 5}
    assert scenario.request(FetchRequest).topics[0].partitions[0].current_leader_epoch == 6
    # Broker 1 leads nothing any more: there is nothing to ask it.
    assert fetched_from(scenario) == [3]


def test_a_partition_without_a_leader_waits_for_one(scenario: Scenario) -> None:
    scenario.topics["orders"] = (-1, 2)
    scenario.assign(O0)
    scenario.seek(O0, 5)
    scenario.serve_once()
    assert not scenario.pending(FetchRequest)
    scenario.topics["orders"] = (1, 2)
    scenario.advance(1_000)
    scenario.serve()
    assert fetched_from(scenario) == [1]


def follow(scenario: Scenario, replica: int = 3) -> None:
    scenario.start_fetching(O0)
    answer(scenario, data(0, preferred_read_replica=replica))


def test_following_ends_while_records_come(make_scenario: MakeScenario) -> None:
    """The follower may never leave a pause in which the leader would be asked again."""
    scenario = make_scenario(metadata_max_age_ms=10_000)
    follow(scenario)
    answer(scenario, data(0, batch(0)))
    assert fetched_from(scenario) == [3]
    scenario.now_ms += 10_000
    answer(scenario, data(0, batch(1)))
    assert fetched_from(scenario) == [1]


def test_the_follower_that_the_leader_names_is_fetched_from(scenario: Scenario) -> None:
    follow(scenario)  # KIP-392
    assert fetched_from(scenario) == [3]


def test_a_follower_whose_id_is_0_is_one(scenario: Scenario) -> None:
    scenario.start_fetching(O0)
    scenario.managers.metadata.request_update()
    scenario.advance(1_000)
    known = scenario.metadata()
    known.brokers = [*known.brokers, MetadataResponseBroker(node_id=0, host="broker-0", port=9092)]
    scenario.answer(MetadataRequest, known)
    answer(scenario, data(0, preferred_read_replica=0))
    assert fetched_from(scenario) == [0]


def test_an_unknown_follower_is_not_and_the_leader_is_left_alone_for_a_moment(scenario: Scenario) -> None:
    """It may name it again, at once and without records, as often as it is asked: that was a loop without a pause."""
    follow(scenario, replica=99)
    assert fetched_from(scenario) == []
    scenario.advance(100)
    assert fetched_from(scenario) == [1]
    assert scenario.pending(MetadataRequest)


def test_following_ends_when_it_has_lasted_as_long_as_metadata(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(metadata_max_age_ms=10_000)
    follow(scenario)
    scenario.advance(10_000)
    scenario.serve()
    assert fetched_from(scenario) == [3, 1]


def test_out_of_range_at_a_follower_only_ends_the_following(scenario: Scenario) -> None:
    follow(scenario)
    refuse(scenario, ErrorCode.OFFSET_OUT_OF_RANGE)
    scenario.advance(100)
    assert fetched_from(scenario) == [1]
    assert scenario.partition(O0).has_position


def test_a_follower_that_cannot_be_reached_is_given_up(scenario: Scenario) -> None:
    """Metadata still names it, so the partition was asked for there, in vain, for five minutes."""
    follow(scenario)
    scenario.fail(FetchRequest)
    scenario.serve()
    scenario.advance(100)
    assert fetched_from(scenario) == [1]


# --- a broker that does not wait ------------------------------------------------------------------------------


def test_a_broker_that_answers_nothing_at_once_each_time_is_not_asked_as_fast_as_it_answers(
    one_broker: Scenario,
) -> None:
    """It was asked to wait for data; it was asked 2,000 times a second."""
    count = 0
    for _ in range(100):
        while one_broker.pending(FetchRequest):
            answer(one_broker)
            count += 1
            assert count < 150, "a spin"
        one_broker.advance(100)
    assert 100 <= count <= 115


def test_ten_empty_answers_at_once_are_no_reason_to_wait_and_the_eleventh_is(one_broker: Scenario) -> None:
    for _ in range(10):
        answer(one_broker)
        assert one_broker.pending(FetchRequest)
    answer(one_broker)
    assert not one_broker.pending(FetchRequest)
    one_broker.advance(100)


def test_a_tenth_of_the_wait_is_not_at_once(one_broker: Scenario) -> None:
    for _ in range(20):
        one_broker.advance(50)
        answer(one_broker)
        assert one_broker.pending(FetchRequest)


def test_empty_answers_at_once_count_in_a_row_only(one_broker: Scenario) -> None:
    for _ in range(3):
        for _ in range(10):
            answer(one_broker)
        one_broker.advance(500)
        answer(one_broker)
        assert one_broker.pending(FetchRequest)


def test_empty_answers_after_the_wait_hold_up_no_fetch(one_broker: Scenario) -> None:
    for _ in range(30):
        one_broker.advance(500)
        answer(one_broker)
        assert one_broker.pending(FetchRequest)


def test_records_end_the_back_off_of_empty_answers(one_broker: Scenario) -> None:
    for _ in range(10):
        answer(one_broker)
    answer(one_broker, data(0, batch(0, 1)))
    for _ in range(10):
        answer(one_broker)
        assert one_broker.pending(FetchRequest)


# --- partitions that go -----------------------------------------------------------------------------------------


def test_the_lag_of_a_partition_that_is_given_up_is_forgotten(one_broker: Scenario) -> None:
    """An hour later it came back, and reported the lag of before."""
    consumed = one_broker.metrics.consumed
    answer(one_broker, data(0), data(1))
    assert all("records-lag" in dict(consumed.partition_values(tp, 0.0)) for tp in (O0, O1))
    one_broker.assign(O1)
    one_broker.assign(O0, O1)
    assert "records-lag" not in dict(consumed.partition_values(O0, 0.0))
    assert "records-lag" in dict(consumed.partition_values(O1, 0.0))


# --- a broker that keeps a partition standing still -------------------------------------------------------------


@pytest.fixture
def one_partition(scenario: Scenario) -> Scenario:
    """Nothing but `orders-0` is fetched."""
    scenario.start_fetching(O0)
    return scenario


def answer_part_of_a_batch(scenario: Scenario) -> None:
    answer(scenario, data(0, batch(0, 3)[:40]))
    scenario.advance(100)


def errors_to_raise(scenario: Scenario) -> list[KafkaError]:
    return [event.error for event in scenario.events if isinstance(event, ErrorRaised)]


def test_a_single_answer_without_a_whole_batch_is_asked_for_again_without_an_error(one_partition: Scenario) -> None:
    answer_part_of_a_batch(one_partition)
    assert wanted(one_partition) == {0: 0}
    assert errors_to_raise(one_partition) == []
    answer(one_partition, data(0, batch(0, 3)))
    assert one_partition.subscription.partitions[O0].error is None
    assert buffered(one_partition) == [(O0, 0)]


def test_answers_without_a_whole_batch_again_and_again_are_an_error(one_partition: Scenario) -> None:
    for _ in range(3):
        answer_part_of_a_batch(one_partition)
    error = one_partition.take_error(CorruptRecordError)
    assert "orders-0 at offset 0: the broker's answer holds records, but no whole batch" in str(error)
    assert one_partition.subscription.partitions[O0].error is error


def test_after_a_seek_answers_without_a_whole_batch_are_counted_anew(one_partition: Scenario) -> None:
    for _ in range(2):
        answer_part_of_a_batch(one_partition)
    one_partition.seek(O0, 0)
    answer_part_of_a_batch(one_partition)
    assert errors_to_raise(one_partition) == []


def refuse_the_fetch(scenario: Scenario, code: ErrorCode) -> None:
    scenario.answer(FetchRequest, FetchResponse(error_code=code))
    scenario.advance(1_000)


def error_of_fetches(scenario: Scenario) -> KafkaError | None:
    return scenario.managers.main.fetch.status(scenario.subscription.partitions[O0]).error


def test_a_refusal_behind_a_lost_connection_is_told_too(
    one_partition: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    one_partition.fail(FetchRequest, DisconnectError("broker 1 closed the connection"))
    one_partition.advance(1_000)
    refuse_the_fetch(one_partition, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert "fetching from broker 1: UNKNOWN_SERVER_ERROR" in caplog.text


def test_a_fetch_that_is_refused_as_a_whole_is_told_once(
    one_partition: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        refuse_the_fetch(one_partition, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert "fetching from broker 1: UNKNOWN_SERVER_ERROR" in str(error_of_fetches(one_partition))
    assert [record.levelname for record in caplog.records if "fetching from broker 1" in record.message] == ["WARNING"]


def test_a_session_that_the_broker_has_forgotten_is_not_told(one_partition: Scenario) -> None:
    refuse_the_fetch(one_partition, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert error_of_fetches(one_partition) is None


def test_sessions_that_fail_one_after_the_other_are_told(one_partition: Scenario) -> None:
    for _ in range(2):
        refuse_the_fetch(one_partition, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert "INVALID_FETCH_SESSION_EPOCH" in str(error_of_fetches(one_partition))
    answer(one_partition)
    assert error_of_fetches(one_partition) is None
