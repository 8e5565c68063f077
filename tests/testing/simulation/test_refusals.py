"""Refusals as faults draw them: each says what a broker may say, to a part of what was asked, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kwire.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kwire.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kwire.protocol.schema import Message
from kwire.testing.cluster.control import Action, RequestControl
from kwire.testing.simulation.refusals import REFUSALS, RequestRefusal

COUNT = 40
QUESTIONS = {
    FetchRequest: FetchRequest(
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=n) for n in range(COUNT)])]
    ),
    OffsetCommitRequest: OffsetCommitRequest(
        topics=[
            OffsetCommitRequestTopic(
                name="t", partitions=[OffsetCommitRequestPartition(partition_index=n) for n in range(COUNT)]
            )
        ]
    ),
}


def answers() -> Iterator[Message]:
    """What brokers say when all is well, of every kind that is spoilt."""
    numbers = range(COUNT)
    many = [OffsetFetchResponsePartitions(partition_index=n, committed_offset=5) for n in numbers]
    yield OffsetFetchResponse(groups=[OffsetFetchResponseGroup(topics=[OffsetFetchResponseTopics(partitions=many)])])
    one = [OffsetFetchResponsePartition(partition_index=n, committed_offset=5) for n in numbers]
    yield OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=one)])
    listed = [ListOffsetsPartitionResponse(partition_index=n, offset=5) for n in numbers]
    yield ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=listed)])
    ends = [EpochEndOffset(partition=n, leader_epoch=1, end_offset=5) for n in numbers]
    yield OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=ends)])
    led = [MetadataResponsePartition(partition_index=n, leader_id=1) for n in numbers]
    yield MetadataResponse(topics=[MetadataResponseTopic(name=f"t{n}", partitions=list(led)) for n in numbers])
    yield FindCoordinatorResponse(coordinators=[Coordinator(key=f"g{n}", node_id=1) for n in numbers])
    yield FindCoordinatorResponse(node_id=1)


def codes(message: object) -> set[int]:
    """All error codes in an answer, at whatever depth."""
    found = {message.error_code} if hasattr(message, "error_code") else set()
    for name in ("groups", "topics", "responses", "partitions", "coordinators"):
        for part in getattr(message, name, ()):
            found |= codes(part)
    return found


@pytest.mark.parametrize(
    "refusal", REFUSALS, ids=lambda refusal: f"{refusal.request.__name__}-{refusal.codes[-1].name}"
)
def test_a_refusal_says_what_it_may(refusal: RequestRefusal) -> None:
    """With every code that it has, over many answers, and with no other."""
    said: set[int] = set()
    for code in refusal.codes:
        if refusal.answer is not None:
            asked = QUESTIONS.get(refusal.request, refusal.request())
            said |= codes(refusal.answer(asked, code))
            continue
        assert refusal.spoil is not None
        for answer in answers():
            if type(answer) is refusal.request.response_type:
                refusal.spoil(answer, partial(ErrorCode, code))
                said |= codes(answer)
    assert set(refusal.codes) <= said <= {ErrorCode.NONE, *refusal.codes}


@pytest.mark.parametrize("refusal", [each for each in REFUSALS if each.spoil], ids=lambda each: each.request.__name__)
def test_a_part_is_refused_and_the_rest_is_as_it_was(refusal: RequestRefusal) -> None:
    control, rng = RequestControl(), random.Random(1)
    rule = refusal.begin(control, rng, share=0.5)
    assert rule.action is Action.EDIT
    assert rule.edit is not None
    said: set[int] = set()
    for answer in [each for _ in range(20) for each in answers() if type(each) is refusal.request.response_type]:
        rule.edit(answer)
        said |= codes(answer)
    assert said & set(refusal.codes)
    assert ErrorCode.NONE in said


def test_some_requests_are_refused_in_place_of_being_done() -> None:
    refusal = next(each for each in REFUSALS if each.request is FetchRequest)
    control, request = RequestControl(), FetchRequest()
    rule = refusal.begin(control, random.Random(1), share=0.5)
    decided = [control.decide(request, None) for _ in range(100)]  # type: ignore[arg-type]  # nobody looks at the call
    assert 20 < decided.count(rule) < 80
    assert rule.answer is not None
    assert isinstance(rule.answer(request, None), FetchResponse)  # type: ignore[arg-type]  # as above
    rule.remove()
    assert control.decide(request, None) is None  # type: ignore[arg-type]  # as above
