"""KIP-227: what a session's requests name, and how it survives errors. Proven against a model of the broker's half."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.epochs import AssignmentEpoch
from kwire.fetching.session import FetchSession, FetchSpec
from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode

A, B, C = (TopicPartition("orders", number) for number in range(3))
ID, OTHER_ID = UUID(int=1), UUID(int=2)


def spec(offset: int = 0, topic_id: UUID = ID) -> FetchSpec:
    return FetchSpec(topic_id, offset, 5, AssignmentEpoch(1), 1_000)


def started(*partitions: TopicPartition, session_id: int = 9) -> FetchSession:
    session = FetchSession()
    for tp in partitions:
        session.want(tp, spec())
    session.next_request()
    session.answered(ErrorCode.NONE, session_id)
    return session


def test_the_first_request_names_everything_wanted() -> None:
    session = FetchSession()
    session.want(A, spec())
    session.want(B, spec())
    session.unwant(B)
    assert session.next_request() == (0, 0, {A: spec()}, {})


def test_later_requests_name_what_was_added_and_changed_and_forgotten() -> None:
    session = started(A, B)
    session.want(A, spec(offset=10))
    session.unwant(B)
    session.want(C, spec())
    assert session.next_request() == (9, 1, {A: spec(offset=10), C: spec()}, {B: ID})
    session.answered(ErrorCode.NONE, 9)
    assert session.next_request() == (9, 2, {}, {})


def test_changes_are_named_in_the_order_in_which_they_came() -> None:
    """A broker with more than fits answers those in front first; a set would have another order in each process."""
    partitions = [TopicPartition(f"orders{number * 7 % 40}", number) for number in range(40)]
    session = started(*partitions[:20])
    for tp in partitions:
        session.want(tp, spec(offset=10))
    assert list(session.next_request().specs) == partitions
    session.answered(ErrorCode.NONE, 9)
    for tp in reversed(partitions):
        session.unwant(tp)
    assert list(session.next_request().forgotten) == partitions[::-1]


@pytest.mark.parametrize("session_id", [0, 9])
def test_what_has_the_lowest_turn_is_named_first(session_id: int) -> None:
    session = started(A, B, session_id=session_id)
    for tp, turn in ((A, 3), (B, 2), (C, 1)):
        session.want(tp, spec(offset=10)._replace(turn=turn))
    assert list(session.next_request().specs) == [C, B, A]


def test_what_came_and_went_between_two_requests_is_not_mentioned() -> None:
    session = started(A)
    session.want(B, spec())
    session.unwant(B)
    session.unwant(C)
    assert session.next_request() == (9, 1, {}, {})


def test_what_went_and_came_back_is_named_again() -> None:
    session = started(A)
    session.unwant(A)
    session.want(A, spec())
    assert session.next_request() == (9, 1, {A: spec()}, {})


def test_a_recreated_topic_is_forgotten_and_added() -> None:
    session = started(A)
    session.want(A, spec(topic_id=OTHER_ID))
    assert session.next_request() == (9, 1, {A: spec(topic_id=OTHER_ID)}, {A: ID})


def test_a_broker_without_room_for_sessions_gets_full_requests() -> None:
    session = started(A, session_id=0)
    assert session.next_request() == (0, 0, {A: spec()}, {})
    session.answered(ErrorCode.NONE, 0)
    assert session.closing_request() is None


def test_an_unknown_session_is_begun_anew() -> None:
    session = started(A)
    session.next_request()
    session.answered(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert session.next_request() == (0, 0, {A: spec()}, {})


@pytest.mark.parametrize("code", [ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_after_another_error_the_old_session_is_closed_by_the_new_one(code: ErrorCode) -> None:
    session = started(A)
    session.next_request()
    session.answered(code, 0)
    assert session.next_request() == (9, 0, {A: spec()}, {})


def test_after_a_lost_answer_everything_is_named_again() -> None:
    session = started(A, B)
    session.unwant(B)
    session.next_request()
    session.failed()
    assert session.next_request() == (9, 0, {A: spec()}, {})
    session.answered(ErrorCode.NONE, 10)
    session.want(B, spec())
    assert session.next_request() == (10, 1, {B: spec()}, {})


def test_the_epoch_wraps_to_one() -> None:
    session = started(A)
    session._epoch = 2**31 - 1
    session.next_request()
    session.answered(ErrorCode.NONE, 9)
    assert session.next_request().session_epoch == 1


def test_a_session_is_closed_by_its_id_and_the_final_epoch() -> None:
    assert FetchSession().closing_request() is None
    assert started(A).closing_request() == (9, -1, {}, {})


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["want", "unwant", "request", "lost", "unknown"]),
        st.sampled_from([A, B, C]),
        st.integers(0, 3),
        st.sampled_from([ID, OTHER_ID]),
    ),
    max_size=20,
)


@given(STEPS)
def test_the_broker_has_what_is_wanted_after_every_request(steps: list[tuple[str, TopicPartition, int, UUID]]) -> None:
    """A broker keeps partitions by topic id and number; what it has after a request is what was wanted then."""
    session, broker = FetchSession(), dict[tuple[UUID, int], int]()
    for step, tp, offset, topic_id in steps:
        if step == "want":
            session.want(tp, spec(offset, topic_id))
        elif step == "unwant":
            session.unwant(tp)
        else:
            request = session.next_request()
            if step == "lost":
                session.failed()
                continue
            if step == "unknown" and request.session_epoch:
                session.answered(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
                continue
            if request.session_epoch == 0:
                broker.clear()
            for gone, gone_id in request.forgotten.items():
                del broker[gone_id, gone.partition]
            broker |= {(s.topic_id, t.partition): s.offset for t, s in request.specs.items()}
            session.answered(ErrorCode.NONE, 9)
            assert broker == {(s.topic_id, t.partition): s.offset for t, s in session.wanted.items()}
