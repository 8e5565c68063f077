"""One connection: answers come in the order of the requests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kwire.conformance.expectations import expect_equal
from kwire.conformance.registry import check
from kwire.protocol.framing import Framing
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker

MANY = 20
PAUSE_S = 0.002


@check(MetadataRequest)
def answers_in_order(broker: JudgedBroker, version: int) -> None:
    """Requests of two kinds, all sent before the first answer is read."""
    topics = MetadataRequest(topics=[], allow_auto_topic_creation=True)
    expected: list[type[object]] = []
    with broker.connect() as connection:
        for _ in range(MANY):
            connection.send(topics, version)
            connection.send(ApiVersionsRequest(), 0)
            expected += [MetadataRequest.response_type, ApiVersionsRequest.response_type]
        expect_equal([type(connection.receive()) for _ in expected], expected, "the answers, in order,")


@check(FetchRequest, once=True)
def does_not_overtake_a_slow_request(broker: JudgedBroker, version: int) -> None:
    """A Fetch that waits delays later requests on the same connection, and on no other."""
    with broker.connect() as connection:
        connection.send(FetchRequest(max_wait_ms=200, min_bytes=1), version)
        connection.send(ApiVersionsRequest(), 0)
        broker.ask(ApiVersionsRequest(), 0)
        found = [type(connection.receive()), type(connection.receive())]
    expect_equal(found, [FetchRequest.response_type, ApiVersionsRequest.response_type], "the answers, in order,")


@check(ApiVersionsRequest, once=True)
def takes_a_request_byte_by_byte(broker: JudgedBroker, _version: int) -> None:
    request = Framing("kwire-conformance").send(ApiVersionsRequest(), 0)
    with broker.connect() as connection:
        for at in range(len(request) - 1):
            connection.send_bytes(request[at : at + 1])
            time.sleep(PAUSE_S)
        connection.send_bytes(request[-1:])
        connection.read_frame()
