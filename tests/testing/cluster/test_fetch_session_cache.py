"""Fetch sessions from the broker's side (KIP-227): what is told, what is noticed, who has to make room."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData
from kwire.testing.cluster.fetch_sessions import FetchContext, FetchedPartition, FetchSessionCache
from kwire.testing.cluster.settings import BrokerSettings

TOPIC = UUID(int=1)
BY_NAME, BY_ID = 12, 18


def request(
    *indexes: int, session: int = 0, epoch: int = 0, forget: tuple[int, ...] = (), offset: int = 0
) -> FetchRequest:
    topics = [
        FetchTopic(topic_id=TOPIC, partitions=[FetchPartition(partition=i, fetch_offset=offset) for i in indexes])
    ]
    return FetchRequest(
        session_id=session,
        session_epoch=epoch,
        topics=topics if indexes else [],
        forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC, partitions=list(forget))] if forget else [],
    )


def cache(slots: int = 10) -> FetchSessionCache:
    return FetchSessionCache(BrokerSettings.of({"max.incremental.fetch.session.cache.slots": slots}), Random(0))


def result(index: int, **fields: object) -> tuple[FetchedPartition, PartitionData]:
    data = PartitionData(partition_index=index, high_watermark=0, log_start_offset=0, records=b"")
    for name, value in fields.items():
        setattr(data, name, value)
    return FetchedPartition("", TOPIC, index), data


def told(context: FetchContext, *results: tuple[FetchedPartition, PartitionData]) -> list[int]:
    return [place.partition for place, _ in context.told(results)]


def opened(sessions: FetchSessionCache, *indexes: int, now_ms: float = 0.0) -> int:
    context = sessions.context(request(*indexes), BY_ID, now_ms)
    assert told(context, *(result(index) for index in indexes)) == list(indexes)
    assert context.session_id > 0
    return context.session_id


def test_an_opening_fetch_tells_all_and_the_next_only_news() -> None:
    sessions = cache()
    session = opened(sessions, 0, 1)
    context = sessions.context(request(session=session, epoch=1), BY_ID, 0.0)
    assert [place.partition for place in context.partitions] == [0, 1]
    assert told(context, result(0), result(1)) == []


@pytest.mark.parametrize(
    "news",
    [
        {"records": b"r"},
        {"high_watermark": 1},
        {"log_start_offset": 1},
        {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER},
        {"preferred_read_replica": 2},
    ],
    ids=lambda news: next(iter(news)),
)
def test_each_kind_of_news_is_told(news: dict[str, object]) -> None:
    sessions = cache()
    session = opened(sessions, 0, 1)
    context = sessions.context(request(session=session, epoch=1), BY_ID, 0.0)
    assert told(context, result(0), result(1, **news)) == [1]


def test_a_mark_is_told_once_and_the_end_of_an_error_too() -> None:
    sessions = cache()
    session = opened(sessions, 0)
    steps = [
        ({"high_watermark": 5}, [0]),
        ({"high_watermark": 5}, []),
        ({"high_watermark": -1, "error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}, [0]),
        ({"high_watermark": 5}, [0]),
        ({"high_watermark": 5}, []),
    ]
    for epoch, (fields, wanted) in enumerate(steps, start=1):
        context = sessions.context(request(session=session, epoch=epoch), BY_ID, 0.0)
        assert told(context, result(0, **fields)) == wanted


def test_partitions_with_records_go_to_the_end_of_the_order() -> None:
    """KIP-74: the first one's batch is whole, so each has to be the first at times."""
    sessions = cache()
    session = opened(sessions, 0, 1, 2)
    context = sessions.context(request(session=session, epoch=1), BY_ID, 0.0)
    context.told([result(0, records=b"r"), result(1), result(2, records=b"r")])
    context = sessions.context(request(session=session, epoch=2), BY_ID, 0.0)
    assert [place.partition for place in context.partitions] == [1, 0, 2]


def test_a_session_adds_moves_and_forgets() -> None:
    sessions = cache()
    session = opened(sessions, 0, 1)
    context = sessions.context(request(1, 2, session=session, epoch=1, forget=(0,), offset=9), BY_ID, 0.0)
    assert [(place.partition, one.fetch_offset) for place, one in context.partitions.items()] == [(1, 9), (2, 9)]
    assert told(context, result(1), result(2)) == [2], "a new partition is told whatever its marks"


def test_a_session_that_forgot_everything_ends() -> None:
    sessions = cache()
    session = opened(sessions, 0)
    context = sessions.context(request(session=session, epoch=1, forget=(0,)), BY_ID, 0.0)
    assert (context.error, context.session_id) == (ErrorCode.NONE, 0)
    assert len(sessions) == 0


@pytest.mark.parametrize(
    ("epoch", "version", "error"),
    [
        (2, BY_ID, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (1, BY_NAME, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_slips_are_noticed_and_the_session_lives_on(epoch: int, version: int, error: ErrorCode) -> None:
    sessions = cache()
    session = opened(sessions, 0)
    assert sessions.context(request(session=session, epoch=epoch), version, 0.0).error is error
    assert sessions.context(request(session=session + 1, epoch=1), BY_ID, 0.0).error is (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )
    assert sessions.context(request(session=session, epoch=1), BY_ID, 0.0).error is ErrorCode.NONE


def test_closing_reads_and_forgets() -> None:
    sessions = cache()
    session = opened(sessions, 0)
    context = sessions.context(request(0, session=session, epoch=-1), BY_ID, 0.0)
    assert (context.session_id, len(context.partitions), len(sessions)) == (0, 1, 0)


def test_opening_anew_replaces_the_old_session() -> None:
    sessions = cache()
    session = opened(sessions, 0)
    context = sessions.context(request(0, session=session, epoch=0), BY_ID, 0.0)
    assert context.session_id not in (0, session)
    assert len(sessions) == 1


def test_a_full_cache_opens_none_until_one_has_rested() -> None:
    sessions = cache(slots=1)
    first = opened(sessions, 0)
    assert sessions.context(request(0), BY_ID, 120_000.0).session_id == 0
    second = sessions.context(request(0), BY_ID, 120_001.0).session_id
    assert second not in (0, first)
    assert sessions.context(request(session=first, epoch=1), BY_ID, 0.0).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache(slots=0).context(request(0), BY_ID, 1e9).session_id == 0


def test_epochs_begin_again_at_one() -> None:
    sessions = cache()
    session = opened(sessions, 0)
    sessions._sessions[session].epoch = 0x7FFFFFFF
    assert sessions.context(request(session=session, epoch=0x7FFFFFFF), BY_ID, 0.0).error is ErrorCode.NONE
    assert sessions.context(request(session=session, epoch=1), BY_ID, 0.0).error is ErrorCode.NONE
