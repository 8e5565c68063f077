"""What the log says of an outage: its begin, its end, and nothing of the attempts between."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import pytest

from kwire.consumer_events import BrokerReachable, BrokerUnreachable, ConsumerEvent
from kwire.errors import DisconnectError, SaslAuthenticationError
from kwire.managers.unsent import Channel
from kwire.model import Node
from kwire.network.connection_failures import ConnectionFailures, ConnectionKey
from kwire.network.outages import QUIET_MS, OutageLog

NODE = Node(1, "kafka", 9092)
REFUSED = DisconnectError("broker kafka:9092 (id 1): Connection refused")


@dataclass
class Connection:
    """One that was dialled then."""

    dialled_at_ms: float = 0.0
    is_proven: bool = False
    node: Node = NODE
    has_expired: bool = False
    answered_at_ms: float = 0.0


def levels(caplog: pytest.LogCaptureFixture) -> list[int]:
    return [record.levelno for record in caplog.records if record.levelno >= logging.INFO]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> OutageLog:
    caplog.set_level(logging.DEBUG, "kwire.network")
    return OutageLog()


def test_a_warning_and_a_line_whatever_lies_between(log: OutageLog, caplog: pytest.LogCaptureFixture) -> None:
    for attempt in range(100):
        log.lost(Connection(attempt * 50.0), REFUSED, attempt * 50.0)
    log.over(Connection(5_000.0, is_proven=True), 5_000.0)
    log.over(Connection(5_000.0, is_proven=True), 5_001.0)
    assert levels(caplog) == [logging.WARNING, logging.INFO]
    assert "after 5.0 s and 100 failed attempts" in caplog.records[-1].getMessage()


def test_a_connection_from_before_does_not_end_it(log: OutageLog, caplog: pytest.LogCaptureFixture) -> None:
    """Of several to a broker that dies one is seen to break first: an end and a second begin stood in the log."""
    log.lost(Connection(90.0), REFUSED, 100.0)
    log.over(Connection(50.0, is_proven=True), 100.0)
    log.lost(Connection(101.0), REFUSED, 101.0)
    assert levels(caplog) == [logging.WARNING]


def test_a_lost_connection_is_no_outage_yet_and_told_now_and_then(
    log: OutageLog, caplog: pytest.LogCaptureFixture
) -> None:
    for at_ms in (0.0, 1.0, QUIET_MS - 1.0, QUIET_MS):
        log.lost(Connection(is_proven=True), REFUSED, at_ms)
    assert levels(caplog) == [logging.INFO, logging.INFO]


def test_a_broker_that_owes_an_answer_is_out_since_it_fell_silent(
    log: OutageLog, caplog: pytest.LogCaptureFixture
) -> None:
    """As a frozen one: nothing is refused, and the attempts that follow take their time."""
    overdue = DisconnectError("broker kafka:9092 (id 1): no answer in time; connection given up")
    for answered_at_ms in (2_000.0, 1_000.0):  # two connections to it
        expired = Connection(is_proven=True, has_expired=True, answered_at_ms=answered_at_ms)
        log.lost(expired, overdue, 32_000.0)
    log.lost(Connection(32_000.0), overdue, 62_000.0)
    log.over(Connection(62_000.0, is_proven=True), 102_000.0)
    assert levels(caplog) == [logging.WARNING, logging.INFO]
    assert "after 100.0 s and 3 failed attempts" in caplog.records[-1].getMessage()


def test_another_kind_of_trouble_is_news(log: OutageLog, caplog: pytest.LogCaptureFixture) -> None:
    refusal = SaslAuthenticationError("broker kafka:9092 (id 1): these credentials are unknown")
    for error in (REFUSED, refusal, refusal):
        log.lost(Connection(), error, 0.0)
    assert levels(caplog) == [logging.WARNING, logging.ERROR]


def test_a_broker_that_allows_no_more_connections_is_there(log: OutageLog, caplog: pytest.LogCaptureFixture) -> None:
    hung_up = DisconnectError("broker kafka:9092 (id 1): it hung up")
    for at_ms in (0.0, 1.0, QUIET_MS - 1.0, QUIET_MS):
        log.lost(Connection(), hung_up, at_ms, is_in_use=True)
    assert levels(caplog) == [logging.INFO, logging.INFO]
    assert "max.connections.per.ip" in caplog.text


def test_an_outage_is_told_of_though_it_began_as_a_connection_too_many(
    log: OutageLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.lost(Connection(), REFUSED, 0.0, is_in_use=True)
    log.lost(Connection(is_proven=True), REFUSED, 1.0)
    log.lost(Connection(), REFUSED, 2.0)
    assert levels(caplog) == [logging.INFO, logging.WARNING]


# --- a broker that moves ----------------------------------------------------------------------------------------

MOVED = Node(1, "kafka-new", 9092)


def test_the_outage_of_a_broker_ends_when_it_is_reached_at_a_new_address() -> None:
    """Nobody dials the former address again: the alarm stayed for good."""
    told: list[ConsumerEvent] = []
    log = OutageLog(told.append)
    log.lost(Connection(0.0), REFUSED, 100.0)
    log.over(Connection(2_000.0, is_proven=True, node=MOVED), 2_100.0)
    log.over(Connection(2_000.0, is_proven=True), 2_200.0)
    assert [
        (type(event), event.broker) for event in told if isinstance(event, BrokerUnreachable | BrokerReachable)
    ] == [
        (BrokerUnreachable, "kafka:9092"),
        (BrokerReachable, "kafka:9092"),
    ]


def test_it_ends_though_the_broker_was_dialled_as_a_bootstrap_server_when_it_began() -> None:
    told: list[ConsumerEvent] = []
    log = OutageLog(told.append)
    log.lost(Connection(0.0, node=replace(NODE, id=-1)), REFUSED, 100.0)
    log.lost(Connection(200.0), REFUSED, 300.0)
    log.over(Connection(2_000.0, is_proven=True, node=MOVED), 2_100.0)
    assert [type(event) for event in told] == [BrokerUnreachable, BrokerReachable]


def test_another_broker_that_is_of_use_ends_no_outage() -> None:
    told: list[ConsumerEvent] = []
    log = OutageLog(told.append)
    log.lost(Connection(0.0), REFUSED, 100.0)
    log.over(Connection(2_000.0, is_proven=True, node=Node(2, "kafka-new", 9092)), 2_100.0)
    assert not any(isinstance(event, BrokerReachable) for event in told)


def test_a_failure_at_a_former_address_is_over_when_the_broker_is_of_use_at_its_new_one() -> None:
    failures = ConnectionFailures()
    failures.failed(ConnectionKey(1, Channel.FETCH), NODE, REFUSED, 100.0, 0.0)
    failures.proven(ConnectionKey(1, Channel.CONTROL), MOVED, 50.0)
    assert failures.by_address(set()) == {}


def test_a_failure_of_another_channel_at_the_same_address_stays() -> None:
    failures = ConnectionFailures()
    failures.failed(ConnectionKey(1, Channel.FETCH), NODE, REFUSED, 100.0, 0.0)
    failures.proven(ConnectionKey(1, Channel.CONTROL), NODE, 50.0)
    assert list(failures.by_address(set())) == [NODE.address]
