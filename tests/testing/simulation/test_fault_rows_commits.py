"""Fault rows of commits, and of what they hear about the membership (S)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kwire.errors import BrokerError, CommitFailedError
from kwire.model import OffsetAndMetadata
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kwire.testing.cluster.control import Intent
from kwire.testing.simulation.script import Script

if TYPE_CHECKING:
    from tests.testing.simulation.row_world import (
        GROUP,
        T0,
        TOPIC,
        both_protocols,
        committed_by_another,
        reading,
        scripted,
    )
else:
    from row_world import GROUP, T0, TOPIC, both_protocols, committed_by_another, reading, scripted

# --- epochs and generations -----------------------------------------------------------------------------------


def refusal(code: ErrorCode) -> Callable[[OffsetCommitRequest], OffsetCommitResponse]:
    """Of each partition."""

    def refuse(request: OffsetCommitRequest) -> OffsetCommitResponse:
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return OffsetCommitResponse(topics=topics)

    return refuse


@scripted()
def test_row_31_a_commit_has_a_stale_member_epoch(script: Script) -> None:
    consumer, heard = reading(script, group_protocol="consumer")
    member_id = consumer.group_metadata().member_id
    rule = script.cluster.control.on(OffsetCommitRequest, times=2).answer(refusal(ErrorCode.STALE_MEMBER_EPOCH))
    script.recovers(2_000, consumer.commit_sync)
    assert rule.fired == 2
    assert script.cluster.committed(GROUP)[T0].offset == 1
    assert consumer.group_metadata().member_id == member_id
    assert heard.kinds() == ["assigned"]


@scripted()
def test_row_31_a_look_up_of_committed_offsets_has_a_stale_member_epoch(script: Script) -> None:
    """It never falls through to the reset policy."""
    sent = committed_by_another(script, "consumer")

    def be_stale(answer: OffsetFetchResponse) -> None:
        for group in answer.groups:
            group.error_code, group.topics = ErrorCode.STALE_MEMBER_EPOCH, []

    rule = script.edit(OffsetFetchRequest, be_stale, times=3)
    consumer = script.consumer(TOPIC, group_protocol="consumer", auto_offset_reset="latest")
    script.recovers(3_000, partial(script.read, consumer, sent))
    assert rule.fired == 3


@pytest.mark.parametrize(
    ("protocol", "code", "within_ms"),
    [
        ("classic", ErrorCode.ILLEGAL_GENERATION, 2_000),
        # The group has the former member until its session ends, and waits for it to join.
        ("classic", ErrorCode.UNKNOWN_MEMBER_ID, 12_000),
        ("consumer", ErrorCode.FENCED_MEMBER_EPOCH, 2_000),
        ("consumer", ErrorCode.UNKNOWN_MEMBER_ID, 2_000),
    ],
)
@scripted()
def test_row_32_a_commit_hears_that_the_membership_is_over(
    script: Script, protocol: str, code: ErrorCode, within_ms: int
) -> None:
    consumer, heard = reading(script, group_protocol=protocol)
    consumer.commit_sync()
    sent = script.send(TOPIC)
    script.sleep(100)  # it is buffered
    script.cluster.control.on(OffsetCommitRequest, times=1).answer(refusal(code))
    with pytest.raises(CommitFailedError):
        consumer.commit_sync()
    script.recovers(within_ms, partial(script.read, consumer, sent))
    assert heard.kinds() == ["assigned", "lost", "assigned"]
    consumer.commit_sync()
    assert script.cluster.committed(GROUP)[T0].offset == 2


# --- commits --------------------------------------------------------------------------------------------------


def on_commit(script: Script) -> Intent[OffsetCommitRequest]:
    """The next one."""
    return script.cluster.control.on(OffsetCommitRequest, times=1)


COMMIT_FAULTS: dict[str, tuple[Callable[[Intent[OffsetCommitRequest]], object], int]] = {
    "lost": (lambda commit: commit.drop(), 8_000 + 1_000),
    "answer lost": (lambda commit: commit.drop(handled=True), 8_000 + 1_000),
    "cut": (lambda commit: commit.cut(), 1_000),
    "cut when done": (lambda commit: commit.cut(handled=True), 1_000),
    "late": (lambda commit: commit.delay(9_000, handled=True), 8_000 + 1_000),
    "timed out": (lambda commit: commit.answer(refusal(ErrorCode.REQUEST_TIMED_OUT)), 1_000),
}


def offsets_on_the_wire(script: Script) -> list[int]:
    """Those of each commit of T0, as they arrive."""
    seen: list[int] = []
    script.cluster.control.on(OffsetCommitRequest).observe(
        lambda request, _call: seen.extend(
            each.committed_offset for topic in request.topics for each in topic.partitions
        )
    )
    return seen


@pytest.mark.parametrize("kind", COMMIT_FAULTS)
@both_protocols
@scripted()
def test_row_44_a_commit_is_lost_and_repeated(script: Script, protocol: str, kind: str) -> None:
    consumer, heard = reading(script, group_protocol=protocol)
    seen = offsets_on_the_wire(script)
    strike, within_ms = COMMIT_FAULTS[kind]
    strike(on_commit(script))
    script.recovers(within_ms, consumer.commit_sync)
    assert seen == [1, 1]
    assert script.cluster.committed(GROUP)[T0].offset == 1
    script.read(consumer, script.send(TOPIC))
    consumer.commit_sync()
    assert seen == [1, 1, 2]
    assert heard.kinds() == ["assigned"]


@both_protocols
@scripted()
def test_row_44_metadata_of_a_commit_is_too_large(script: Script, protocol: str) -> None:
    consumer, _ = reading(script, group_protocol=protocol)
    with pytest.raises(BrokerError) as caught:
        consumer.commit_sync({T0: OffsetAndMetadata(1, "x" * 5_000)})
    assert caught.value.name == "OFFSET_METADATA_TOO_LARGE"
    consumer.commit_sync({T0: OffsetAndMetadata(1, "x")})
    assert script.cluster.committed(GROUP)[T0].metadata == "x"


@pytest.mark.parametrize("is_done", [False, True])
@both_protocols
@scripted()
def test_row_44_the_coordinator_moves_between_a_commit_and_its_answer(
    script: Script, protocol: str, is_done: bool
) -> None:
    consumer, heard = reading(script, group_protocol=protocol)
    on_commit(script).delay(500, handled=is_done)

    def move() -> None:
        script.sleep(100)
        script.cluster.move_coordinator(GROUP)

    script.start(script.process(), move)
    script.recovers(500 + 2_000, consumer.commit_sync)
    assert script.cluster.committed(GROUP)[T0].offset == 1
    assert heard.kinds() == ["assigned"]


@pytest.mark.parametrize("is_done", [False, True])
@both_protocols
@scripted()
def test_row_44_commits_overlap(script: Script, protocol: str, is_done: bool) -> None:
    """The first one is slow; the others do not overtake it, on the wire or in what the application hears."""
    consumer, _ = reading(script, group_protocol=protocol)
    seen, told = offsets_on_the_wire(script), list[int]()
    on_commit(script).delay(700, handled=is_done)
    for _ in range(3):
        script.read(consumer, script.send(TOPIC))
        consumer.commit_async(callback=lambda offsets, _error: told.append(offsets[T0].offset))
    script.read(consumer, script.send(TOPIC))
    script.recovers(700 + 1_000, consumer.commit_sync)
    consumer.poll(0.1)
    assert is_rising(seen)
    assert told == [2, 3, 4]
    assert script.cluster.committed(GROUP)[T0].offset == 5


@pytest.mark.parametrize("slow", ["a commit", "a heartbeat"])
@both_protocols
@scripted()
def test_row_44_a_commit_behind_a_request_that_is_given_up_does_not_undo_later_ones(
    script: Script, protocol: str, slow: str
) -> None:
    """The broker looks at the next request of a connection when it has answered the one before, closed or not."""
    consumer, heard = reading(script, group_protocol=protocol)
    beat = HeartbeatRequest if protocol == "classic" else ConsumerGroupHeartbeatRequest
    kind = OffsetCommitRequest if slow == "a commit" else beat
    rule = script.cluster.control.on(kind, times=1).delay(9_000, handled=True)
    consumer.commit_async({T0: OffsetAndMetadata(1)})
    script.until(lambda: rule.fired)
    script.recovers(8_000 + 1_000, partial(consumer.commit_sync, {T0: OffsetAndMetadata(2)}))
    consumer.commit_sync({T0: OffsetAndMetadata(3)})
    script.sleep(5_000)
    assert script.cluster.committed(GROUP)[T0].offset == 3
    assert heard.kinds() == ["assigned"]


@both_protocols
@scripted()
def test_row_44_an_automatic_commit_is_due_while_another_is_repeated(script: Script, protocol: str) -> None:
    """It waits: overtaken, the repetition would undo it."""
    consumer, _ = reading(script, group_protocol=protocol, enable_auto_commit=True, auto_commit_interval_ms=300)
    script.read(consumer, [value for _ in range(4) for value in script.send(TOPIC)])
    consumer.poll(0.0)
    seen = offsets_on_the_wire(script)
    loading = refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    script.cluster.control.on(OffsetCommitRequest, times=3).answer(loading)
    script.recovers(2_000, partial(consumer.commit_sync, {T0: OffsetAndMetadata(2)}))
    script.sleep(1_000)
    assert is_rising(seen)
    assert {2, 5} == set(seen)
    assert script.cluster.committed(GROUP)[T0].offset == 5


def is_rising(numbers: Sequence[int]) -> bool:
    return list(numbers) == sorted(numbers)
