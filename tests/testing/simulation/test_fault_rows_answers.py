"""Fault rows of answers: omissions, repetitions, numbers and codes that cannot be (S)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kwire.errors import BrokerError, KafkaError, LogTruncationError
from kwire.protocol.consumer_protocol import decode_assignment, encode_assignment
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kwire.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.protocol.schema import Message, Request, Structure
from kwire.testing.simulation.script import Script

if TYPE_CHECKING:
    from tests.testing.simulation.row_world import (
        T0,
        TOPIC,
        both_protocols,
        committed_by_another,
        gather,
        poll_until,
        reading,
        scripted,
    )
else:
    from row_world import (
        T0,
        TOPIC,
        both_protocols,
        committed_by_another,
        gather,
        poll_until,
        reading,
        scripted,
    )

UNKNOWN_CODE = 9_999


# --- what is there twice, or not at all -----------------------------------------------------------------------


@scripted()
def test_row_20_a_fetch_answers_a_partition_twice(script: Script) -> None:
    consumer, _ = reading(script)

    def double(answer: FetchResponse) -> None:
        for topic in answer.responses:
            topic.partitions = topic.partitions * 2

    script.edit(FetchRequest, double)
    for _ in range(5):
        script.recovers(1_000, partial(script.read, consumer, script.send(TOPIC, 3)))


@scripted()
def test_row_20_fetches_are_answered_without_a_partition(script: Script) -> None:
    consumer, _ = reading(script)
    script.edit(FetchRequest, lambda answer: answer.responses.clear(), times=5)
    script.recovers(5 * 500 + 1_000, partial(script.read, consumer, script.send(TOPIC)))


def leave_out(answer: OffsetFetchResponse) -> None:
    for group in answer.groups:
        group.topics = []


def tell_twice(answer: OffsetFetchResponse) -> None:
    for group in answer.groups:
        group.topics = group.topics * 2


@pytest.mark.parametrize(("change", "times"), [(leave_out, 3), (tell_twice, None)])
@both_protocols
@scripted()
def test_row_20_committed_offsets_are_left_out_or_told_twice(
    script: Script, protocol: str, change: Callable[[OffsetFetchResponse], None], times: int | None
) -> None:
    """Never guessed: what is left out is asked for again, and not taken for an offset that nobody committed."""
    sent = committed_by_another(script, protocol)
    script.edit(OffsetFetchRequest, change, times=times)
    consumer = script.consumer(TOPIC, group_protocol=protocol, auto_offset_reset="latest")
    script.recovers(3_000, partial(script.read, consumer, sent))


def assign_twice(answer: ConsumerGroupHeartbeatResponse) -> None:
    for each in answer.assignment.topic_partitions if answer.assignment is not None else ():
        each.partitions = each.partitions * 2


def sync_twice(answer: SyncGroupResponse) -> None:
    if answer.assignment:
        assignment = decode_assignment(answer.assignment)
        for each in assignment.assigned_partitions:
            each.partitions = each.partitions * 2
        answer.assignment = encode_assignment(0, assignment)


@both_protocols
@scripted()
def test_row_20_a_partition_is_assigned_twice(script: Script, protocol: str) -> None:
    script.edit(SyncGroupRequest, sync_twice)
    script.edit(ConsumerGroupHeartbeatRequest, assign_twice)
    consumer, heard = reading(script, 2, group_protocol=protocol)
    script.read(consumer, script.send(TOPIC, 5))
    consumer.commit_sync()
    assert heard.kinds() == ["assigned"]


# --- offsets that cannot be -----------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-1, -5])
@pytest.mark.parametrize("policy", ["earliest", "latest"])
@scripted()
def test_row_21_the_ends_of_a_log_are_answered_with_a_negative_offset(script: Script, policy: str, offset: int) -> None:
    """Asked again: neither is the other end of the log as good, nor is it 0, nor is the partition forgotten."""
    script.cluster.create_topic(TOPIC, 1, 3)
    script.send(TOPIC, 3)
    script.cluster.delete_records(TOPIC, 0, 1)

    def forget(answer: ListOffsetsResponse) -> None:
        for each in (each for topic in answer.topics for each in topic.partitions):
            each.offset = offset

    script.edit(ListOffsetsRequest, forget, times=2)
    consumer = script.consumer(group_id=None, auto_offset_reset=policy)
    consumer.assign([T0])
    positions: list[int] = []
    script.recovers(1_000, lambda: positions.append(consumer.position(T0)))
    assert positions == [1 if policy == "earliest" else 3]


@pytest.mark.parametrize("undefined", [(-1, -1), (-7, 0), (3, -1)])
@scripted()
def test_row_21_the_end_of_an_epoch_is_undefined(script: Script, undefined: tuple[int, int]) -> None:
    """The leader knows nothing of the position's epoch: for the policy to decide, or for the application."""
    script.cluster.create_topic(TOPIC, 1, 3)
    consumer = script.consumer(group_id=None, auto_offset_reset="none")
    consumer.assign([T0])
    consumer.seek(T0, 0)
    script.read(consumer, script.send(TOPIC, 5))

    def forget(answer: OffsetForLeaderEpochResponse) -> None:
        for each in (each for topic in answer.topics for each in topic.partitions):
            each.end_offset, each.leader_epoch = undefined

    rule = script.edit(OffsetForLeaderEpochRequest, forget)
    script.cluster.move_leader(TOPIC, 0, 1)
    with pytest.raises(LogTruncationError) as caught:
        poll_until(script, consumer, lambda: False, within_ms=2_000)
    assert caught.value.offsets == {T0: 5}
    assert caught.value.divergent_offsets == {}
    rule.remove()
    consumer.seek(T0, 5)
    script.read(consumer, script.send(TOPIC))


# --- fetch sessions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        UNKNOWN_CODE,
    ],
)
@scripted()
def test_row_26_fetch_sessions_that_the_broker_does_not_want(script: Script, code: int) -> None:
    """Full requests, with pauses that grow to a second."""
    consumer, _ = reading(script)
    asked: list[FetchRequest] = []
    script.cluster.control.on(FetchRequest).observe(lambda request, _call: asked.append(request))
    rule = script.cluster.control.on(FetchRequest).answer(FetchResponse(error_code=code))
    assert not consumer.poll(10.0)
    assert 5 <= len(asked) <= 20
    assert {request.session_epoch for request in asked[1:]} == {0}
    rule.remove()
    script.recovers(1_500, partial(script.read, consumer, script.send(TOPIC)))


# --- errors that nobody knows ---------------------------------------------------------------------------------


def break_codes(answer: object) -> None:
    """Put a code that no Kafka has wherever there is one."""
    if isinstance(answer, list):
        for each in answer:
            break_codes(each)
    elif isinstance(answer, Structure):
        for name in answer.to_dict():  # of an answer, what its version has
            if name == "error_code":
                setattr(answer, name, UNKNOWN_CODE)
            else:
                break_codes(getattr(answer, name))


KINDS: dict[str, tuple[str, type[Request[Message]]]] = {
    "metadata": ("classic", MetadataRequest),
    "fetch": ("classic", FetchRequest),
    "list-offsets": ("classic", ListOffsetsRequest),
    "find-coordinator": ("classic", FindCoordinatorRequest),
    "join-group": ("classic", JoinGroupRequest),
    "sync-group": ("classic", SyncGroupRequest),
    "heartbeat": ("classic", HeartbeatRequest),
    "consumer-group-heartbeat": ("consumer", ConsumerGroupHeartbeatRequest),
    "offset-fetch": ("consumer", OffsetFetchRequest),
    "offset-commit": ("consumer", OffsetCommitRequest),
}


@pytest.mark.parametrize("kind", KINDS)
@scripted()
def test_row_43_an_error_code_that_nobody_knows(script: Script, kind: str) -> None:
    """Tried again, or told as the error of a broker; and all is well when it is over."""
    protocol, request = KINDS[kind]
    rule = script.edit(request, break_codes, times=2)
    script.cluster.create_topic(TOPIC, 1, 3)
    consumer = script.consumer(group_protocol=protocol)
    sent, values, errors = script.send(TOPIC), list[bytes](), list[KafkaError]()
    for n in range(3):
        if n == 0 or request is ConsumerGroupHeartbeatRequest:  # a refused membership is over: subscribe begins anew
            consumer.subscribe([TOPIC])
        came, raised = gather(script, consumer, 10_000)
        values, errors = values + came, errors + raised
    assert values == sent
    if request is OffsetCommitRequest:
        for _ in range(2):
            with pytest.raises(BrokerError):
                consumer.commit_sync()
    consumer.commit_sync()
    assert rule.fired == 2
    assert all(isinstance(error, BrokerError) for error in errors), errors
