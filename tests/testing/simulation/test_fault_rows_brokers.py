"""Fault rows of brokers: leaders, coordinators, followers, releases (S)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kwire.errors import KafkaTimeoutError, UnsupportedVersionError
from kwire.model import OffsetAndMetadata
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.testing.cluster.releases import release_named
from kwire.testing.cluster.request_context import RequestContext
from kwire.testing.simulation.script import BytesConsumer, Script

if TYPE_CHECKING:
    from tests.testing.simulation.row_world import (
        FETCHES_PER_SECOND,
        GROUP,
        T0,
        TOPIC,
        both_protocols,
        gather,
        poll_until,
        reading,
        scripted,
        send_to_each,
    )
else:
    from row_world import (
        FETCHES_PER_SECOND,
        GROUP,
        T0,
        TOPIC,
        both_protocols,
        gather,
        poll_until,
        reading,
        scripted,
        send_to_each,
    )


def fetches_by_broker(script: Script) -> Counter[int]:
    """Counts from now on."""
    asked: Counter[int] = Counter()
    script.cluster.control.on(FetchRequest).observe(lambda _request, call: asked.update([call.broker.node_id]))
    return asked


# --- brokers come and go --------------------------------------------------------------------------------------


@both_protocols
@scripted()
def test_row_01_the_process_of_a_leader_is_killed(script: Script, protocol: str) -> None:
    """Here a new leader is elected at once; with real brokers the controller's patience comes on top."""
    consumer, heard = reading(script, 3, group_protocol=protocol)
    for _ in range(3):
        leader = script.cluster.leader(TOPIC, 0)
        script.cluster.kill_broker(leader)
        script.recovers(2_000, partial(script.read, consumer, send_to_each(script)))
        script.cluster.start_broker(leader)
    assert heard.kinds() == ["assigned"]


@both_protocols
@scripted()
def test_row_02_brokers_are_restarted_one_after_the_other_five_times(script: Script, protocol: str) -> None:
    consumer, heard = reading(script, 3, group_protocol=protocol)
    for node_id in list(script.cluster.brokers) * 5:
        script.cluster.kill_broker(node_id)
        script.recovers(2_000, partial(script.read, consumer, send_to_each(script)))
        script.cluster.start_broker(node_id)
        script.recovers(2_000, partial(script.read, consumer, send_to_each(script)))
    assert heard.kinds() == ["assigned"]


def lead_around(script: Script, within_ms: float) -> None:
    """Ten moves of a leader, over all brokers; no session of fetches is left behind at any of them."""
    consumer, _ = reading(script)
    for _ in range(10):
        script.cluster.move_leader(TOPIC, 0, (script.cluster.leader(TOPIC, 0) + 1) % 3)
        script.recovers(within_ms, partial(script.read, consumer, script.send(TOPIC)))
    assert all(len(broker.fetch_sessions) <= 1 for broker in script.cluster.brokers.values())


@scripted()
def test_row_03_a_leader_moves_and_the_old_one_names_the_new(script: Script) -> None:
    """KIP-951. A round trip here is up to 1 ms; to a broker that was not dialled yet it takes three."""
    lead_around(script, within_ms=5)


@scripted(release="3.6")
def test_row_03_a_leader_moves_and_nobody_names_the_new(script: Script) -> None:
    lead_around(script, within_ms=1_000)


@scripted()
def test_row_04_metadata_goes_on_naming_an_old_leader_epoch(script: Script) -> None:
    consumer, _ = reading(script, metadata_max_age_ms=200)
    found = script.cluster.partition(*T0)
    assert found is not None
    old, old_epoch = found.leader, found.leader_epoch

    def be_behind(answer: MetadataResponse) -> None:
        for partition in (partition for topic in answer.topics for partition in topic.partitions):
            partition.leader_id, partition.leader_epoch = old, old_epoch

    behind = script.edit(MetadataRequest, be_behind)
    script.cluster.move_leader(TOPIC, 0, 1)
    script.recovers(1_000, partial(script.read, consumer, script.send(TOPIC)))
    asked = fetches_by_broker(script)
    for _ in range(10):
        script.sleep(1_000)
        script.recovers(5, partial(script.read, consumer, script.send(TOPIC)))
    assert behind.fired >= 10
    assert asked[old] == 0
    assert asked[1] <= 10 * FETCHES_PER_SECOND


# --- coordinators ---------------------------------------------------------------------------------------------


@both_protocols
@scripted(settings={"load_ms": 500})
def test_row_05_the_coordinator_moves_and_loads(script: Script, protocol: str) -> None:
    consumer, heard = reading(script, group_protocol=protocol)
    member_id = consumer.group_metadata().member_id
    for _ in range(3):
        script.cluster.move_coordinator(GROUP)
        script.recovers(500 + 2_000, consumer.commit_sync)
    script.sleep(12_000)  # longer than a session
    consumer.poll(0.1)
    assert consumer.group_metadata().member_id == member_id
    assert heard.kinds() == ["assigned"]
    assert script.cluster.committed(GROUP)[T0].offset == 1


@both_protocols
@scripted()
def test_row_05_a_farewell_meets_the_former_coordinator(script: Script, protocol: str) -> None:
    consumer, _ = reading(script, group_protocol=protocol)
    script.cluster.move_coordinator(GROUP)
    script.recovers(2_000, consumer.close)
    group = script.cluster.groups.get(GROUP)
    assert group is not None
    assert group.is_empty


def nobody_coordinates(script: Script) -> Callable[[], None]:
    """Until the function is called."""

    def lose(answer: FindCoordinatorResponse) -> None:
        for each in answer.coordinators:
            each.error_code, each.node_id, each.host = ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, ""

    on, moved = script.cluster.control.on, ErrorCode.NOT_COORDINATOR
    rules = (
        script.edit(FindCoordinatorRequest, lose),
        on(HeartbeatRequest).answer(HeartbeatResponse(error_code=moved)),
        on(ConsumerGroupHeartbeatRequest).answer(ConsumerGroupHeartbeatResponse(error_code=moved)),
    )

    def heal() -> None:
        assert rules[0].fired <= 60, "a look-up each second, and some to begin with"
        for rule in rules:
            rule.remove()

    return heal


@both_protocols
@scripted()
def test_row_06_no_coordinator_for_longer_than_the_session(script: Script, protocol: str) -> None:
    consumer, heard = reading(script, group_protocol=protocol)
    consumer.commit_sync()
    heal = nobody_coordinates(script)
    script.sleep(2_000)
    with pytest.raises(KafkaTimeoutError, match="coordinator"):
        consumer.commit_sync(timeout=5.0)
    for _ in range(30):
        consumer.poll(1.0)
    heal()
    script.recovers(5_000, lambda: poll_until(script, consumer, lambda: heard.kinds()[1:] == ["lost", "assigned"]))
    script.read(consumer, script.send(TOPIC), within_ms=1_000)
    consumer.commit_sync()


# --- followers ------------------------------------------------------------------------------------------------

in_racks = scripted(racks=("a", "b", "c"), settings={"replica_selector_is_rack_aware": True})
FOLLOWER = 1


def at_follower(_request: object, call: RequestContext) -> bool:
    return call.broker.node_id == FOLLOWER


def following(script: Script) -> BytesConsumer:
    """A consumer that reads from broker 1, the follower in its rack; broker 0 leads."""
    consumer, _ = reading(script, client_rack="b")
    asked = fetches_by_broker(script)
    script.read(consumer, script.send(TOPIC))
    assert set(asked) == {FOLLOWER}
    return consumer


@in_racks
def test_row_25_the_leader_names_a_replica_that_nobody_knows(script: Script) -> None:
    consumer, _ = reading(script)

    def name_a_stranger(answer: FetchResponse) -> None:
        for data in (data for topic in answer.responses for data in topic.partitions):
            data.preferred_read_replica, data.records = 77, None

    rule = script.edit(FetchRequest, name_a_stranger)
    asked = fetches_by_broker(script)
    sent = script.send(TOPIC)
    consumer.poll(5.0)
    rule.remove()
    script.recovers(1_000, partial(script.read, consumer, sent))
    assert asked.total() <= 5 * FETCHES_PER_SECOND


@in_racks
def test_row_25_the_follower_has_no_such_offset(script: Script) -> None:
    """It lags: back to the leader, and no reset."""
    consumer = following(script)
    resets = script.cluster.control.on(ListOffsetsRequest).observe()

    def lag(answer: FetchResponse) -> None:
        for data in (data for topic in answer.responses for data in topic.partitions):
            data.error_code, data.records = ErrorCode.OFFSET_OUT_OF_RANGE, None

    script.edit(FetchRequest, lag, times=3, where=at_follower)
    script.recovers(1_000, partial(script.read, consumer, script.send(TOPIC)))
    assert resets.fired == 0


@in_racks
def test_row_25_the_follower_dies(script: Script) -> None:
    consumer = following(script)
    script.cluster.kill_broker(FOLLOWER)
    script.recovers(1_000, partial(script.read, consumer, script.send(TOPIC)))


# --- releases -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["2.8", "2.4"])
@scripted()
def test_row_43_brokers_are_rolled_back_to_an_older_release(script: Script, release: str) -> None:
    consumer, heard = reading(script, 3)
    script.cluster.release = release_named(release)
    for node_id in script.cluster.brokers:
        script.cluster.kill_broker(node_id)
        script.recovers(2_000, partial(script.read, consumer, send_to_each(script)))
        script.cluster.start_broker(node_id)
    consumer.commit_sync({T0: OffsetAndMetadata(4)})
    assert heard.kinds() == ["assigned"]


@scripted(release="3.9")
def test_row_43_brokers_do_not_know_the_consumer_protocol(script: Script) -> None:
    """No falling back: the user has to choose the protocol. Each poll says so, without a loop."""
    script.cluster.create_topic(TOPIC, 1, 3)
    consumer = script.consumer(TOPIC, group_protocol="consumer")
    values, errors = gather(script, consumer, 3_000)
    assert not values
    assert errors
    assert {type(error) for error in errors} == {UnsupportedVersionError}
