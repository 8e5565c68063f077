"""Fetch sessions (KIP-227): a full fetch opens one, later fetches have only changes, and every error of the client is
refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.conformance.batches import RecordToWrite, encode_batch
from kwire.conformance.expectations import expect, expect_equal, expect_error, expect_ok
from kwire.conformance.reading import at, expect_records, fetch_request, fetch_topic, records_of, the_partition
from kwire.conformance.registry import check
from kwire.conformance.writing import append
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse, ForgottenTopic
from kwire.protocol.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker, SuiteTopic
    from kwire.conformance.client import ClientConnection
    from kwire.protocol.messages.fetch import FetchTopic

SESSIONS = "7+"
OPEN, CLOSE = 0, -1
"""Session epochs with a special meaning."""

NO_SUCH_SESSION = 0x7FFFFFF0
RECORDS = (RecordToWrite(b"new"),)


class CheckedSession:
    """The client's side of a session, on one connection."""

    def __init__(self, connection: ClientConnection, version: int, *topics: FetchTopic) -> None:
        self._connection = connection
        self._version = version
        answer = self.ask(0, OPEN, *topics)
        expect_ok(answer.error_code, "the full fetch")
        expect(answer.session_id > 0, f"the full fetch opened no session: its id is {answer.session_id}")
        self.id = answer.session_id
        self.first = answer

    def ask(
        self, session_id: int, epoch: int, *topics: FetchTopic, forgotten: ForgottenTopic | None = None
    ) -> FetchResponse:
        request = fetch_request(*topics)
        request.session_id, request.session_epoch = session_id, epoch
        request.forgotten_topics_data = [] if forgotten is None else [forgotten]
        return self._connection.ask(request, self._version)

    def next(self, epoch: int, *topics: FetchTopic, forgotten: ForgottenTopic | None = None) -> FetchResponse:
        answer = self.ask(self.id, epoch, *topics, forgotten=forgotten)
        expect_ok(answer.error_code, f"the incremental fetch with epoch {epoch}")
        expect_equal(answer.session_id, self.id, "the session id")
        return answer


def both_partitions(topic: SuiteTopic) -> FetchTopic:
    return fetch_topic(topic, at(0, partition=0), at(0, partition=1))


def partitions_in(answer: FetchResponse) -> list[int]:
    return [found.partition_index for topic in answer.responses for found in topic.partitions]


@check(FetchRequest, versions=SESSIONS, needs=[ProduceRequest])
def tells_only_what_changed(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic(2)
    with broker.connect() as connection:
        session = CheckedSession(connection, version, both_partitions(topic))
        expect_equal(sorted(partitions_in(session.first)), [0, 1], "the partitions of the full fetch")
        expect_equal(partitions_in(session.next(1)), [], "the partitions of a fetch without news")
        expect_ok(append(broker, topic, encode_batch(*RECORDS)).error_code, "Produce")
        found = the_partition(session.next(2))
        expect_equal(found.partition_index, 0, "the partition with news")
        expect_records(records_of(found), RECORDS)
        expect_equal(partitions_in(session.next(3, fetch_topic(topic, at(1)))), [], "the partitions after moving on")


@check(FetchRequest, versions=SESSIONS, needs=[ProduceRequest])
def forgets_partitions(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic(2)
    with broker.connect() as connection:
        session = CheckedSession(connection, version, both_partitions(topic))
        expect_ok(append(broker, topic, encode_batch(*RECORDS)).error_code, "Produce")
        forgotten = ForgottenTopic(topic=topic.name, topic_id=topic.id, partitions=[0])
        expect_equal(partitions_in(session.next(1, forgotten=forgotten)), [], "the partitions after forgetting")
        expect_equal(
            partitions_in(session.next(2, fetch_topic(topic, at(0)))), [0], "the partitions after adding again"
        )


@check(FetchRequest, versions=SESSIONS)
def refuses_a_wrong_epoch(broker: JudgedBroker, version: int) -> None:
    with broker.connect() as connection:
        session = CheckedSession(connection, version, both_partitions(broker.empty_topic()))
        code = session.ask(session.id, 5).error_code
    expect_error(code, ErrorCode.INVALID_FETCH_SESSION_EPOCH, what="a session epoch out of turn")


@check(FetchRequest, versions=SESSIONS)
def refuses_a_session_there_is_not(broker: JudgedBroker, version: int) -> None:
    with broker.connect() as connection:
        session = CheckedSession(connection, version, both_partitions(broker.empty_topic()))
        code = session.ask(NO_SUCH_SESSION, 1).error_code
    expect_error(code, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, what="an unknown session id")


@check(FetchRequest, versions=SESSIONS)
def closes_a_session(broker: JudgedBroker, version: int) -> None:
    with broker.connect() as connection:
        session = CheckedSession(connection, version, both_partitions(broker.empty_topic()))
        closed = session.ask(session.id, CLOSE)
        expect_ok(closed.error_code, "the closing fetch")
        expect_equal(closed.session_id, 0, "the session id after closing")
        code = session.ask(session.id, 1).error_code
    expect_error(code, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, what="a closed session")


@check(FetchRequest, versions=SESSIONS)
def opens_none_unless_asked(broker: JudgedBroker, version: int) -> None:
    with broker.connect() as connection:
        answer = connection.ask(fetch_request(fetch_topic(broker.empty_topic(), at(0))), version)
    expect_ok(answer.error_code, "a fetch without a session")
    expect_equal(answer.session_id, 0, "the session id")
