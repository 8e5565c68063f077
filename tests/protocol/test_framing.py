"""Frames of one connection: in any slices, in order, of any size, and from hostile or foreign peers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.errors import InternalError, ProtocolError, UnsupportedVersionError
from kwire.protocol import decode_message, encode_message
from kwire.protocol.compiler import decode_prefix
from kwire.protocol.framing import (
    DEFAULT_MAX_FRAME_BYTES,
    MAX_LOGIN_ANSWER_BYTES,
    MAX_PLAIN_ANSWER_BYTES,
    SMALL_BUFFER_BYTES,
    Answer,
    Framing,
)
from kwire.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kwire.protocol.messages.headers import RequestHeader, ResponseHeader
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest

if TYPE_CHECKING:
    from kwire.protocol.schema import Message, Request, Response


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def answer_frame(correlation_id: int, response: Response, version: int, *, written_as: int | None = None) -> bytes:
    header = encode_message(ResponseHeader(correlation_id=correlation_id), response.header_version(version))
    return frame(header + encode_message(response, version if written_as is None else written_as))


def feed(framing: Framing, data: bytes, step_bytes: int = 1 << 30) -> list[Answer]:
    """Hand over bytes as a transport would, at most `step_bytes` at a time."""
    answers: list[Answer] = []
    while data:
        buffer = framing.writable_buffer()
        assert 1 <= framing.missing_bytes <= len(buffer)
        count = min(len(buffer), step_bytes, len(data))
        buffer[:count] = data[:count]
        answers += framing.received(count)
        data = data[count:]
    return answers


def fetch_response(records: bytes) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=records)])])


@pytest.mark.parametrize(("version", "header_version"), [(3, 1), (4, 2)])
def test_a_request_is_length_header_and_message(version: int, header_version: int) -> None:
    framing = Framing("me")
    request = HeartbeatRequest(group_id="g")
    framing.send(request, version)
    data = framing.send(request, version)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    header, length = decode_prefix(RequestHeader, header_version, data[4:])
    expected = RequestHeader(request_api_key=12, request_api_version=version, correlation_id=1, client_id="me")
    assert header == expected
    assert decode_message(HeartbeatRequest, version, data[4 + length :]) == request


def test_a_request_that_cannot_be_encoded_is_not_in_flight() -> None:
    framing = Framing(None)
    with pytest.raises(UnsupportedVersionError):
        framing.send(HeartbeatRequest(group_instance_id="i"), 0)
    assert framing.in_flight == 0


def test_a_request_larger_than_a_frame_can_say_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.protocol.framing.MAX_INT32", 30)  # two gigabytes are too many for a test
    framing = Framing("me")
    with pytest.raises(ProtocolError, match="HeartbeatRequest v0 takes 120 bytes, too many for a frame"):
        framing.send(HeartbeatRequest(group_id="g" * 100), 0)
    assert framing.in_flight == 0


@pytest.mark.parametrize("step_bytes", [1, 3, 7, 1 << 30])
def test_answers_come_in_order_however_the_bytes_are_cut(step_bytes: int) -> None:
    framing = Framing("me")
    requests = [HeartbeatRequest(generation_id=number) for number in range(5)]
    for request in requests:
        framing.send(request, 4)
    assert framing.in_flight == len(requests)
    data = b"".join(answer_frame(number, HeartbeatResponse(error_code=number), 4) for number in range(5))

    answers = feed(framing, data, step_bytes)
    assert answers == [Answer(request, 4, HeartbeatResponse(error_code=n)) for n, request in enumerate(requests)]
    assert [answer.request is request for answer, request in zip(answers, requests, strict=True)] == [True] * 5
    assert framing.in_flight == 0


def test_an_answer_comes_with_who_sent_its_request() -> None:
    framing = Framing("me")
    senders = ["first", None, "third"]
    for sender in senders:
        framing.send(HeartbeatRequest(), 4, sender)
    assert framing.senders == senders
    answers = feed(framing, b"".join(answer_frame(number, HeartbeatResponse(), 4) for number in range(2)))
    assert [answer.sender for answer in answers] == senders[:2]
    assert framing.senders == senders[2:]
    framing.give_up()
    assert framing.senders == []


@pytest.mark.parametrize("size_bytes", [SMALL_BUFFER_BYTES - 100, SMALL_BUFFER_BYTES, 5 * SMALL_BUFFER_BYTES])
@pytest.mark.parametrize("step_bytes", [1000, SMALL_BUFFER_BYTES - 1, 1 << 30])
def test_frames_of_every_size_pass_between_small_ones(size_bytes: int, step_bytes: int) -> None:
    framing = Framing("me")
    large = fetch_response(b"r" * size_bytes)
    for request in (HeartbeatRequest(), FetchRequest(), HeartbeatRequest()):
        framing.send(request, 4)
    small = HeartbeatResponse(error_code=27)
    data = answer_frame(0, small, 4) + answer_frame(1, large, 4) + answer_frame(2, small, 4)
    assert [answer.response for answer in feed(framing, data, step_bytes)] == [small, large, small]


def test_a_large_answer_is_received_into_its_own_buffer_and_never_copied() -> None:
    framing = Framing("me")
    framing.send(FetchRequest(), 4)
    data = answer_frame(0, fetch_response(b"r" * 3 * SMALL_BUFFER_BYTES), 4)
    feed(framing, data[:100])
    buffer = framing.writable_buffer()
    assert len(buffer) == len(data) - 100  # exactly the rest of the frame, so that no read reaches beyond it
    buffer[:] = data[100:]
    [answer] = framing.received(len(buffer))
    assert isinstance(answer.response, FetchResponse)
    records = answer.response.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert records.obj is buffer.obj


@pytest.mark.parametrize("size_bytes", [100, SMALL_BUFFER_BYTES])
def test_what_is_missing_is_the_rest_of_the_answer_once_its_length_is_there(size_bytes: int) -> None:
    framing = Framing("me")
    missing = [framing.missing_bytes]
    framing.send(FetchRequest(), 4)
    data = answer_frame(0, fetch_response(b"r" * size_bytes), 4)
    for begin, end in ((0, 3), (3, 10), (10, 90), (90, len(data))):
        feed(framing, data[begin:end], 1 << 30)
        missing.append(framing.missing_bytes)
    assert missing == [1, 1, len(data) - 10, len(data) - 90, 1]


def test_small_answers_survive_the_reuse_of_the_buffer() -> None:
    framing = Framing("me")
    answers = []
    for number in range(2):
        framing.send(FetchRequest(), 4)
        answers += feed(framing, answer_frame(number, fetch_response(b"abc"[number:] * 9), 4))
    responses = [answer.response for answer in answers]
    assert responses == [fetch_response(b"abc" * 9), fetch_response(b"bc" * 9)]


def test_correlation_ids_wrap_around() -> None:
    framing = Framing("me")
    framing._next_correlation_id = 0x7FFFFFFF
    for _ in range(2):
        framing.send(HeartbeatRequest(), 0)
    data = answer_frame(0x7FFFFFFF, HeartbeatResponse(), 0) + answer_frame(0, HeartbeatResponse(), 0)
    assert len(feed(framing, data)) == 2


@pytest.mark.parametrize("version", [0, 3, 4])
def test_an_api_versions_answer_always_has_the_old_header(version: int) -> None:
    framing = Framing("me")
    framing.send(ApiVersionsRequest(), version)
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=1, max_version=4)])
    data = answer_frame(0, response, version)
    assert data[4:8] == bytes(4)
    assert data[8:10] == bytes(2)  # the error code follows the correlation id at once
    [answer] = feed(framing, data)
    assert (answer.version, answer.response) == (version, response)


def test_an_api_versions_answer_with_error_35_is_read_in_version_0() -> None:
    """KIP-511: a broker that does not know the version asked for falls back to version 0."""
    framing = Framing("me")
    framing.send(ApiVersionsRequest(), 4)
    response = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, max_version=3)])
    [answer] = feed(framing, answer_frame(0, response, 4, written_as=0))
    assert (answer.version, answer.response) == (0, response)


# --- peers that break the rules -------------------------------------------------------------------------------


@pytest.mark.parametrize("size_bytes", [-1, -(2**31), 0, 3, DEFAULT_MAX_FRAME_BYTES + 1, 2**31 - 1])
def test_a_length_that_cannot_be_right_is_refused_at_once(size_bytes: int) -> None:
    framing = Framing("me")
    framing.send(HeartbeatRequest(), 0)
    with pytest.raises(ProtocolError, match=f"a frame of {size_bytes} bytes, but it must be 4 to {32 * 2**20} bytes"):
        feed(framing, size_bytes.to_bytes(4, "big", signed=True))
    with pytest.raises(ProtocolError, match="a frame of"):
        framing.writable_buffer()
    assert framing.in_flight == 1


def test_the_limit_can_be_raised_and_lowered() -> None:
    framing = Framing("me", max_frame_bytes=20)
    framing.send(HeartbeatRequest(), 0)
    with pytest.raises(ProtocolError, match=r"of 21 bytes, but it must be 4 to 20 bytes to answer HeartbeatRequest$"):
        feed(framing, frame(bytes(21)))


@pytest.mark.parametrize(
    ("request_", "limit_bytes"),
    [
        (ApiVersionsRequest(), MAX_LOGIN_ANSWER_BYTES),
        (SaslAuthenticateRequest(), MAX_LOGIN_ANSWER_BYTES),
        (MetadataRequest(topics=[]), MAX_PLAIN_ANSWER_BYTES),
        (FetchRequest(max_bytes=1), DEFAULT_MAX_FRAME_BYTES),
        (FetchRequest(max_bytes=DEFAULT_MAX_FRAME_BYTES), 3 * DEFAULT_MAX_FRAME_BYTES // 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_how_large_an_answer_may_be_follows_what_was_asked(request_: Request[Message], limit_bytes: int) -> None:
    framing = Framing("me")
    framing.send(request_, request_.max_version)
    assert feed(framing, limit_bytes.to_bytes(4, "big")) == []
    assert framing.missing_bytes == limit_bytes
    framing = Framing("me")
    framing.send(request_, request_.max_version)
    limits = f"it must be 4 to {limit_bytes} bytes to answer {type(request_).__name__}$"
    with pytest.raises(ProtocolError, match=limits):
        feed(framing, (limit_bytes + 1).to_bytes(4, "big"))


@pytest.mark.parametrize(
    ("first", "hint"),
    [
        (b"HTTP/1.1 400 Bad Request", "this port does not speak Kafka: it answers 'HTTP'"),
        (b"SSH-2.0-x", "this port does not speak Kafka: it answers 'SSH-'"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "it answers in TLS"),
        (b"\x16\x03\x01\x02\x00", "it answers in TLS"),
    ],
)
def test_a_peer_that_speaks_something_else_is_recognised(first: bytes, hint: str) -> None:
    framing = Framing("me")
    framing.send(ApiVersionsRequest(), 4)
    with pytest.raises(ProtocolError, match=hint):
        feed(framing, first)


def test_an_answer_out_of_order_is_refused() -> None:
    framing = Framing("me")
    framing.send(HeartbeatRequest(), 4)
    framing.send(HeartbeatRequest(), 4)
    with pytest.raises(ProtocolError, match=r"correlation id 1 came, but 0 \(HeartbeatRequest\) is next"):
        feed(framing, answer_frame(1, HeartbeatResponse(), 4))
    assert framing.in_flight == 2


def test_an_answer_that_nobody_waits_for_is_refused() -> None:
    framing = Framing("me")
    with pytest.raises(ProtocolError, match="an answer of 6 bytes came, but no request waits for one"):
        feed(framing, answer_frame(0, HeartbeatResponse(), 0))


def test_an_answer_with_bytes_left_over_is_refused_and_its_request_still_in_flight() -> None:
    framing = Framing("me")
    request = HeartbeatRequest()
    framing.send(request, 0)
    with pytest.raises(ProtocolError, match="HeartbeatResponse v0: 1 bytes left over"):
        feed(framing, frame(bytes(4 + 2 + 1)))
    assert framing.in_flight == 1


def test_good_answers_before_bad_bytes_are_delivered_first() -> None:
    """Otherwise the handlers of requests that were answered would never be called."""
    framing = Framing("me")
    for _ in range(2):
        framing.send(HeartbeatRequest(), 0)
    data = answer_frame(0, HeartbeatResponse(error_code=1), 0) + answer_frame(7, HeartbeatResponse(), 0)
    buffer = framing.writable_buffer()
    buffer[: len(data)] = data
    assert [answer.response for answer in framing.received(len(data))] == [HeartbeatResponse(error_code=1)]
    assert framing.in_flight == 1
    for call in (framing.writable_buffer, lambda: framing.received(0), lambda: framing.send(HeartbeatRequest(), 0)):
        with pytest.raises(ProtocolError, match="correlation id 7"):
            call()
    assert repr(framing) == "<Framing 'me': broken>"


def test_more_bytes_than_the_buffer_holds_are_a_bug_of_the_caller() -> None:
    framing = Framing("me")
    assert repr(framing) == "<Framing 'me': 0 in flight>"
    with pytest.raises(InternalError):
        framing.received(SMALL_BUFFER_BYTES + 1)
    with pytest.raises(InternalError):
        framing.received(-1)
