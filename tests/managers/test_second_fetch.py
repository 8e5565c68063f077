"""Fetching over two connections: a broker sends one half of a lag while the other half is read."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kwire.errors import AuthenticationError, DisconnectError
from kwire.events import BufferDrained, Reply, SetHold
from kwire.fetching.idle_partitions import MANY_PARTITIONS
from kwire.holds import Hold
from kwire.managers.fetch_connection import FIRST_ANSWER_BYTES
from kwire.managers.second_fetch import RETRY_AFTER_MS, WAITS_IN_A_ROW
from kwire.managers.unsent import AnyUnsentRequest, Channel
from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kwire.testing.cluster.fetch_sessions import FetchSessionCache
from kwire.testing.cluster.settings import BrokerSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.errors import KafkaError
    from tests.managers.scenario import Scenario
    from tests.record_batches import batch
else:
    from record_batches import batch

FOUR = [TopicPartition("orders", number) for number in range(4)]
FIRST_HALF, SECOND_HALF = {FOUR[0], FOUR[2]}, {FOUR[1], FOUR[3]}
END = 1_000
NODE_ID = 1
NAMES_VERSION = 12


class Broker:
    """It leads `orders`, or most of it.

    Each answer has one record of every partition that it is asked for and that has any left.

    Args:
        end: Where the logs end.
        value: Of each record.
    """

    def __init__(
        self, scenario: Scenario, leaders: tuple[int, ...] = (NODE_ID,) * 4, end: int = END, value: bytes = b"v"
    ) -> None:
        self.scenario = scenario
        self.node_id = NODE_ID
        self._value = value
        self.ends = {TopicPartition("orders", number): end for number in range(len(leaders))}
        self.collected: dict[TopicPartition, list[int]] = {tp: [] for tp in self.ends}
        self._sessions = FetchSessionCache(BrokerSettings.of({}), Random(0))
        scenario.topics["orders"] = leaders
        scenario.start_fetching(*self.ends)

    # --- what is asked --------------------------------------------------------------------------------------

    @property
    def open_fetches(self) -> dict[Channel, AnyUnsentRequest]:
        fetches = [each for each in self.scenario.pending(FetchRequest) if _node_id(each) == self.node_id]
        found = {each.destination.channel: each for each in fetches}
        assert len(found) == len(fetches)
        return found

    def open_fetch(self, channel: Channel) -> AnyUnsentRequest:
        return self.open_fetches[channel]

    @property
    def channels(self) -> set[Channel]:
        """Of the open fetches."""
        return set(self.open_fetches)

    def named(self, channel: Channel) -> dict[TopicPartition, int]:
        """What the open fetch names, by offset."""
        request = self.open_fetch(channel).request
        assert isinstance(request, FetchRequest)
        return {TopicPartition(t.topic, p.partition): p.fetch_offset for t in request.topics for p in t.partitions}

    def forgotten(self, channel: Channel) -> set[TopicPartition]:
        request = self.open_fetch(channel).request
        assert isinstance(request, FetchRequest)
        return {
            TopicPartition(each.topic, number) for each in request.forgotten_topics_data for number in each.partitions
        }

    # --- what comes -----------------------------------------------------------------------------------------

    def answer(
        self,
        channel: Channel = Channel.FETCH,
        *,
        error: ErrorCode = ErrorCode.NONE,
        replica: int = -1,
        only: TopicPartition | None = None,
    ) -> None:
        """With a record of each partition, or with this error for each.

        Args:
            only: The one whose record there is room for.
            replica: From where they are to be fetched (KIP-392).
        """
        unsent = self.open_fetch(channel)
        assert isinstance(unsent.request, FetchRequest)
        context = self._sessions.context(unsent.request, NAMES_VERSION, self.scenario.now_ms)
        found = []
        for place, wanted in context.partitions.items():
            tp = TopicPartition(place.name, place.partition)
            end, offset = self.ends[tp], wanted.fetch_offset
            has_record = offset < end and not error and only in (None, tp)
            records = batch(offset, values={offset: self._value}) if has_record else None
            data = PartitionData(
                partition_index=place.partition,
                records=records,
                high_watermark=end,
                error_code=error,
                preferred_read_replica=replica,
            )
            found.append((place, data))
        told = [data for _, data in context.told(found)]
        if not told:
            self.scenario.now_ms += unsent.request.max_wait_ms
        topics = [FetchableTopicResponse(topic="orders", partitions=told)] if told else []
        self.scenario.unanswered.remove(unsent)
        answer = FetchResponse(error_code=context.error, session_id=context.session_id, responses=topics)
        unsent.on_answer(answer, self.scenario.now_ms)
        self.scenario.turn()

    def fail(self, channel: Channel, error: KafkaError | None = None) -> None:
        unsent = self.open_fetch(channel)
        self.scenario.unanswered.remove(unsent)
        unsent.on_failure(error or DisconnectError("the broker hung up"), self.scenario.now_ms)
        self.scenario.turn()
        self.scenario.serve()

    def collect(self) -> None:
        """The application takes what there is, and waits for more."""
        buffer = self.scenario.buffer
        while (fetch := buffer.front(self.scenario.subscription.view.withheld)) is not None:
            partition = self.scenario.subscription.partitions.get(fetch.topic_partition)
            if partition is not None and partition.epoch == fetch.epoch:
                self.collected[fetch.topic_partition].append(fetch.fetch_offset)
            buffer.release(fetch)
        if (refusal := buffer.drained()) is not None:
            buffer.drain_told(refusal)
            self.scenario.post(BufferDrained())

    def answer_and_collect(self, channel: Channel = Channel.FETCH, times: int = 1) -> None:
        for _ in range(times):
            self.answer(channel)
            self.collect()

    def open_second(self) -> None:
        """Up to the fetch of nothing."""
        self.answer_and_collect(times=WAITS_IN_A_ROW)
        assert self.channels == {Channel.FETCH, Channel.SECOND_FETCH}

    def split(self) -> None:
        """Up to the first fetches of both halves."""
        self.open_second()
        self.answer(Channel.SECOND_FETCH)
        self.answer_and_collect()
        assert self.named(Channel.SECOND_FETCH).keys() == SECOND_HALF


def _node_id(unsent: AnyUnsentRequest) -> int | None:
    node = unsent.destination.node
    return None if node is None else node.id


@pytest.fixture
def broker(scenario: Scenario) -> Broker:
    return Broker(scenario)


@pytest.fixture
def split(broker: Broker) -> Broker:
    """Each half of the partitions is fetched over a connection of its own."""
    broker.split()
    return broker


# --- when a second connection is opened ---------------------------------------------------------------------------


def test_when_the_application_waits_a_fetch_of_nothing_opens_it_and_then_half_of_the_lag_moves(broker: Broker) -> None:
    broker.open_second()
    opening = broker.open_fetch(Channel.SECOND_FETCH).request
    assert isinstance(opening, FetchRequest)
    assert (opening.topics, opening.max_wait_ms) == ([], 0)
    assert broker.named(Channel.FETCH).keys() == set(FOUR), "nothing depends on it"
    broker.answer(Channel.SECOND_FETCH)
    assert broker.channels == {Channel.FETCH}, "what is in flight is not asked for twice"
    broker.answer_and_collect()
    offset = WAITS_IN_A_ROW + 1
    assert broker.named(Channel.FETCH) == dict.fromkeys(FIRST_HALF, offset)
    assert broker.forgotten(Channel.FETCH) == SECOND_HALF
    assert broker.named(Channel.SECOND_FETCH) == dict.fromkeys(SECOND_HALF, offset)


def test_both_halves_go_on_by_themselves(split: Broker) -> None:
    split.answer_and_collect(Channel.SECOND_FETCH, times=5)
    split.answer_and_collect(times=2)
    read = WAITS_IN_A_ROW + 1
    assert split.collected == {tp: list(range(read + (2 if tp in FIRST_HALF else 5))) for tp in FOUR}


def test_an_application_that_does_not_wait_needs_none(broker: Broker) -> None:
    for _ in range(5 * WAITS_IN_A_ROW):
        broker.answer()  # and it is still busy with what came before
    broker.collect()
    assert broker.channels == {Channel.FETCH}


def test_an_application_that_waits_now_and_then_needs_none(broker: Broker) -> None:
    for _ in range(5):
        broker.answer_and_collect(times=WAITS_IN_A_ROW - 2)
        broker.answer()
        broker.answer_and_collect()  # now it was not done with the one before
    assert broker.channels == {Channel.FETCH}


def test_one_partition_cannot_be_shared(make_scenario: Callable[[], Scenario]) -> None:
    broker = Broker(make_scenario(), leaders=(NODE_ID,))
    broker.answer_and_collect(times=5 * WAITS_IN_A_ROW)
    assert broker.channels == {Channel.FETCH}


def test_one_partition_with_a_lag_among_others_that_are_read_is_not_shared(scenario: Scenario) -> None:
    broker = Broker(scenario)
    broker.ends.update(dict.fromkeys(FOUR[1:], 1))
    broker.answer_and_collect(times=5 * WAITS_IN_A_ROW)
    assert broker.channels == {Channel.FETCH}


def test_what_keeps_coming_and_leaves_no_lag_needs_none(make_scenario: Callable[[], Scenario]) -> None:
    broker = Broker(make_scenario(), end=0)
    for end in range(1, 5 * WAITS_IN_A_ROW):
        broker.ends = dict.fromkeys(FOUR, end)
        broker.answer_and_collect()
    assert broker.channels == {Channel.FETCH}


def test_an_answer_without_room_for_all_needs_none_as_partitions_take_turns(broker: Broker) -> None:
    """Each is served once before any is served twice."""
    for number in range(5 * WAITS_IN_A_ROW):
        broker.answer(only=FOUR[number % 4])
        broker.collect()
    assert broker.channels == {Channel.FETCH}


def test_several_brokers_send_at_the_same_time_anyway(scenario: Scenario) -> None:
    broker = Broker(scenario, leaders=(NODE_ID, NODE_ID, NODE_ID, 2))
    broker.answer_and_collect(times=5 * WAITS_IN_A_ROW)
    assert broker.channels == {Channel.FETCH}


def test_idle_partitions_of_many_have_a_connection_already(make_scenario: Callable[[], Scenario]) -> None:
    broker = Broker(make_scenario(), leaders=(NODE_ID,) * (MANY_PARTITIONS + 1))
    for _ in range(5 * WAITS_IN_A_ROW):
        for channel in broker.channels:
            broker.answer_and_collect(channel)
    assert Channel.SECOND_FETCH not in broker.channels


def test_what_was_not_needed_for_a_while_is_opened_again_before_anything_depends_on_it(broker: Broker) -> None:
    """It may have been closed meanwhile, for nothing went over it."""
    broker.open_second()
    broker.answer()
    broker.answer(Channel.SECOND_FETCH)
    broker.answer_and_collect()  # the application was busy
    broker.answer_and_collect(times=WAITS_IN_A_ROW)
    assert broker.named(Channel.SECOND_FETCH) == {}
    assert broker.named(Channel.FETCH).keys() == set(FOUR)


def test_as_much_is_asked_for_over_it_as_over_the_usual_one(make_scenario: Callable[[], Scenario]) -> None:
    broker = Broker(make_scenario(), value=bytes(100_000))
    broker.split()
    requests = broker.scenario.requests(FetchRequest)
    assert [request.max_bytes for request in requests] == [4 * FIRST_ANSWER_BYTES] * 2


def test_the_next_broker_that_is_asked_alone_gets_one_as_well(split: Broker) -> None:
    scenario = split.scenario
    scenario.topics["orders"] = (2,) * 4
    scenario.managers.metadata.request_update()
    scenario.advance(1_000)
    scenario.answer(MetadataRequest, scenario.metadata(epoch=6))
    scenario.assign()
    scenario.unanswered.clear()
    split.node_id = 2
    scenario.start_fetching(*FOUR)
    split.split()


# --- when it cannot be had ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [DisconnectError("too many connections"), AuthenticationError("not any more")])
def test_a_broker_that_allows_no_more_connections_loses_and_delays_nothing(broker: Broker, error: KafkaError) -> None:
    broker.open_second()
    broker.answer_and_collect()
    broker.fail(Channel.SECOND_FETCH, error)
    broker.answer_and_collect(times=WAITS_IN_A_ROW)
    assert broker.channels == {Channel.FETCH}
    assert broker.scenario.errors == []
    assert broker.collected == {tp: list(range(2 * WAITS_IN_A_ROW + 1)) for tp in FOUR}


def test_it_is_asked_again_after_a_while(broker: Broker) -> None:
    broker.open_second()
    broker.fail(Channel.SECOND_FETCH)
    broker.scenario.advance(RETRY_AFTER_MS - 1)
    broker.answer_and_collect()
    assert broker.channels == {Channel.FETCH}
    broker.scenario.advance(1)
    broker.answer_and_collect()
    assert broker.channels == {Channel.FETCH, Channel.SECOND_FETCH}


def test_a_connection_that_is_never_made_holds_nothing_up(broker: Broker) -> None:
    broker.open_second()
    broker.answer_and_collect(times=20)
    assert broker.channels == {Channel.FETCH, Channel.SECOND_FETCH}
    assert broker.collected == {tp: list(range(WAITS_IN_A_ROW + 20)) for tp in FOUR}


def test_when_it_breaks_its_partitions_go_back_at_once(split: Broker) -> None:
    split.fail(Channel.SECOND_FETCH)
    assert split.channels == {Channel.FETCH}
    split.answer_and_collect()
    assert split.named(Channel.FETCH).keys() == set(FOUR)
    split.answer_and_collect(times=2 * WAITS_IN_A_ROW)
    assert split.channels == {Channel.FETCH}, "not tried again so soon"


def test_a_broker_that_is_gone_is_fetched_from_as_before_when_it_is_back(split: Broker) -> None:
    split.fail(Channel.FETCH)
    split.fail(Channel.SECOND_FETCH)
    split.scenario.advance(2_000)
    assert split.channels == {Channel.FETCH}
    assert split.named(Channel.FETCH).keys() == set(FOUR)


# --- when it is needed no more ------------------------------------------------------------------------------------


def test_what_is_read_to_its_end_goes_back_though_its_fetch_still_waits(scenario: Scenario) -> None:
    """Otherwise an idle consumer would send twice as many fetches, over two connections."""
    broker = Broker(scenario, end=WAITS_IN_A_ROW + 3)
    broker.split()
    broker.answer_and_collect()
    broker.answer_and_collect(Channel.SECOND_FETCH, times=2)
    assert broker.named(Channel.SECOND_FETCH).keys() == SECOND_HALF, "its fetch waits for more"
    broker.answer_and_collect()
    assert broker.named(Channel.FETCH) == dict.fromkeys(FOUR, WAITS_IN_A_ROW + 3)
    broker.answer(Channel.SECOND_FETCH)
    assert broker.channels == {Channel.FETCH}


def test_whichever_fetch_brings_news_first_is_taken_and_the_other_one_is_not(scenario: Scenario) -> None:
    end = WAITS_IN_A_ROW + 3
    broker = Broker(scenario, end=end)
    broker.split()
    broker.answer_and_collect(times=1)
    broker.answer_and_collect(Channel.SECOND_FETCH, times=2)
    broker.answer_and_collect()
    broker.ends = dict.fromkeys(FOUR, end + 1)
    broker.answer_and_collect(Channel.SECOND_FETCH)
    assert {tp: offsets[-1] for tp, offsets in broker.collected.items() if tp in SECOND_HALF} == dict.fromkeys(
        SECOND_HALF, end
    )
    broker.answer_and_collect()
    assert broker.collected == {tp: list(range(end + 1)) for tp in FOUR}


def test_an_application_that_has_fallen_behind_needs_it_no_more(make_scenario: Callable[..., Scenario]) -> None:
    broker = Broker(make_scenario(fetch_buffer_bytes=400))
    broker.split()
    broker.collect()
    for channel in (Channel.SECOND_FETCH, Channel.FETCH) * 3:
        if channel in broker.channels:
            broker.answer(channel)
    broker.scenario.turn()
    assert broker.channels == set(), "there is no room"
    broker.collect()
    assert broker.named(Channel.FETCH).keys() == set(FOUR)
    assert broker.channels == {Channel.FETCH}


def test_an_application_that_has_fallen_behind_is_sent_nothing_twice(make_scenario: Callable[..., Scenario]) -> None:
    broker = Broker(make_scenario(fetch_buffer_bytes=1_000))
    broker.split()
    for channel in (Channel.SECOND_FETCH, Channel.FETCH, Channel.FETCH, Channel.SECOND_FETCH, Channel.FETCH):
        broker.answer(channel)
    assert broker.channels == {Channel.FETCH, Channel.SECOND_FETCH}
    assert broker.named(Channel.FETCH).keys() == FIRST_HALF


def test_what_is_left_is_shared_anew_when_the_moved_half_is_paused(split: Broker) -> None:
    broker = split
    broker.scenario.post(SetHold(frozenset(SECOND_HALF), Hold.USER_PAUSED, is_held=True, reply=Reply()))
    broker.answer_and_collect(times=2 * WAITS_IN_A_ROW)
    assert broker.named(Channel.FETCH).keys() == FIRST_HALF, "a fetch is in flight over the second one"
    broker.answer_and_collect(Channel.SECOND_FETCH)
    broker.answer_and_collect()
    assert broker.named(Channel.FETCH).keys() == {FOUR[0]}
    assert broker.named(Channel.SECOND_FETCH).keys() == {FOUR[2]}


@pytest.mark.parametrize("wait", ["seek", "pause"])
def test_a_partition_that_was_sought_or_resumed_is_fetched_as_usual(split: Broker, wait: str) -> None:
    moved = FOUR[1]
    if wait == "seek":
        split.scenario.seek(moved, 500)
    else:
        split.scenario.post(SetHold(frozenset({moved}), Hold.USER_PAUSED, is_held=True, reply=Reply()))
        split.scenario.post(SetHold(frozenset({moved}), Hold.USER_PAUSED, is_held=False, reply=Reply()))
    split.answer_and_collect(Channel.SECOND_FETCH)
    assert split.forgotten(Channel.SECOND_FETCH) == {moved}
    split.answer_and_collect()
    assert split.named(Channel.FETCH).keys() == {*FIRST_HALF, moved}


def test_a_partition_that_another_broker_leads_now_is_fetched_from_that_one(split: Broker) -> None:
    scenario = split.scenario
    scenario.topics["orders"] = (NODE_ID, 2, NODE_ID, NODE_ID)
    split.answer(Channel.SECOND_FETCH, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    scenario.advance(1_000)
    scenario.answer(MetadataRequest, scenario.metadata(epoch=6))
    for validating in scenario.pending(OffsetForLeaderEpochRequest):
        assert isinstance(validating.request, OffsetForLeaderEpochRequest)
        numbers = [each.partition for each in validating.request.topics[0].partitions]
        ends = [EpochEndOffset(partition=number, leader_epoch=5, end_offset=END) for number in numbers]
        topic = OffsetForLeaderTopicResult(topic="orders", partitions=ends)
        scenario.answer(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse(topics=[topic]))
    (from_other,) = [each for each in scenario.pending(FetchRequest) if _node_id(each) == 2]
    assert from_other.destination.channel is Channel.FETCH


def test_a_partition_that_a_follower_is_to_send_is_fetched_from_that_one(split: Broker) -> None:
    split.answer(Channel.SECOND_FETCH, replica=2)
    (from_follower,) = [each for each in split.scenario.pending(FetchRequest) if _node_id(each) == 2]
    assert from_follower.destination.channel is Channel.FETCH


def test_when_the_consumer_is_closed_both_sessions_are(split: Broker) -> None:
    split.answer(Channel.SECOND_FETCH)
    farewell = split.scenario.managers.main.fetch.poll_on_close()
    assert len(farewell) == 2
    assert {each.destination.channel for each in farewell} == {Channel.CONTROL}


# --- whatever happens ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_every_record_is_read_once_and_in_order(make_scenario: Callable[[], Scenario], seed: int) -> None:
    random = Random(seed)
    broker = Broker(make_scenario(), end=40)
    scenario = broker.scenario
    has_split = False

    def any_channel() -> Channel:
        return random.choice(sorted(broker.channels, key=lambda each: each.name))

    def fail() -> None:
        broker.fail(any_channel())
        scenario.advance(RETRY_AFTER_MS)

    def write() -> None:
        broker.ends[random.choice(FOUR)] += random.randint(1, 30)

    def pause() -> None:
        tp = frozenset({random.choice(FOUR)})
        scenario.post(SetHold(tp, Hold.USER_PAUSED, is_held=True, reply=Reply()))
        scenario.post(SetHold(tp, Hold.USER_PAUSED, is_held=False, reply=Reply()))

    weights = {lambda: broker.answer(any_channel()): 8, broker.collect: 8, fail: 0.2, write: 1, pause: 0.3}
    for happens in random.choices(list(weights), list(weights.values()), k=300):
        happens()
        has_split |= Channel.SECOND_FETCH in broker.channels
    for _ in range(1_000):
        broker.collect()
        for channel in broker.channels:
            broker.answer(channel)
    broker.collect()
    assert broker.collected == {tp: list(range(end)) for tp, end in broker.ends.items()}
    assert has_split
