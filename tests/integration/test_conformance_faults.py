"""A suite that only ever passes proves nothing: faults are planted between it and a real Kafka, for it to find.

A proxy hands every byte on but for the answers that a fault is about. Each fault has to turn exactly the checks of that
API and version red, for the right reason, and leave the others green.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import google_crc32c
import pytest

from kwire.conformance.client import BrokerAddress
from kwire.conformance.report import CaseStatus
from kwire.conformance.runner import RunOptions, run
from kwire.protocol.compiler import decode_message, decode_prefix, encode_message
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse
from kwire.protocol.messages.headers import RequestHeader, ResponseHeader
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kwire.protocol.schema import Message, Request
    from tests.integration.kafkas import SharedKafka

    Rewrite = Callable[[bytes], bytes | None]

pytestmark = pytest.mark.only("kafka", reason="what is tested is the judge")

TIMEOUT_S = 5.0
LENGTH_BYTES = 4
BATCH_CRC_AT, BATCH_ATTRIBUTES_AT = 17, 21


class Asked(NamedTuple):
    """A request that went through the proxy and has no answer yet."""

    api_key: int
    version: int


@dataclass(frozen=True, slots=True)
class Fault:
    """What to do to the answers of one API in one version (None: in all). A rewrite to None cuts the connection."""

    request: type[Request[Message]]
    version: int | None
    rewrite: Rewrite = field(default=lambda frame: frame)
    swap: bool = False

    def hits(self, asked: Asked) -> bool:
        return asked.api_key == self.request.api_key and self.version in (None, asked.version)


class Link:
    """One connection through the proxy: a thread for each direction."""

    def __init__(self, client: socket.socket, upstream: BrokerAddress, fault: Fault) -> None:
        self._client = client
        self._broker = socket.create_connection(upstream, TIMEOUT_S)
        self._broker.settimeout(None)
        self._fault = fault
        self._asked: deque[Asked] = deque()
        self._held: bytes | None = None
        self._threads = [threading.Thread(target=self._run, args=(pump,)) for pump in (self._there, self._back)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(TIMEOUT_S)
            assert not thread.is_alive()

    def _run(self, pump: Callable[[], None]) -> None:
        with suppress(OSError):  # either side has closed, and so does the other now
            pump()
        for end in (self._client, self._broker):
            with closing(end):
                shut(end)

    def _there(self) -> None:
        """Requests; what is none is handed on as it is, for the broker to refuse."""
        while (data := read_frame(self._client)) is not None:
            if (asked := understood(data)) is not None:
                self._asked.append(asked)
            self._broker.sendall(data)
            if asked is None and not is_silent_produce(data):
                while rest := self._client.recv(1 << 16):
                    self._broker.sendall(rest)
                return

    def _back(self) -> None:
        while (frame := read_frame(self._broker)) is not None:
            asked = self._asked.popleft() if self._asked else Asked(-1, -1)
            body = self._fault.rewrite(frame[LENGTH_BYTES:]) if self._fault.hits(asked) else frame[LENGTH_BYTES:]
            if body is None:
                return
            data = len(body).to_bytes(LENGTH_BYTES, "big") + body
            if self._fault.swap and self._fault.hits(asked) and self._asked and self._held is None:
                self._held = data
                continue
            self._client.sendall(data + (self._held or b""))
            self._held = None


def shut(end: socket.socket) -> None:
    with suppress(OSError):  # closed already
        end.shutdown(socket.SHUT_RDWR)


def read_frame(source: socket.socket) -> bytes | None:
    """A frame with its length; whatever there is, if that is no frame; None at the end."""
    head = read_exactly(source, LENGTH_BYTES)
    size_bytes = int.from_bytes(head, "big", signed=True)
    if len(head) < LENGTH_BYTES or not 0 < size_bytes < 1 << 24:
        return head or None
    return head + read_exactly(source, size_bytes)


def read_exactly(source: socket.socket, size_bytes: int) -> bytes:
    found = b""
    while len(found) < size_bytes and (part := source.recv(size_bytes - len(found))):
        found += part
    return found


def understood(data: bytes) -> Asked | None:
    """Which request this is; None if it is none that will be answered."""
    key, version = (int.from_bytes(data[at : at + 2], "big", signed=True) for at in (4, 6))
    if len(data) < 8 or is_silent_produce(data):
        return None
    return Asked(key, version)


def is_silent_produce(data: bytes) -> bool:
    """Whether it is a Produce with `acks=0`, which has no answer."""
    if data[4:6] != b"\0\0" or len(data) < 8:
        return False
    version = int.from_bytes(data[6:8], "big")
    if version not in ProduceRequest.versions:
        return False
    _, length = decode_prefix(RequestHeader, ProduceRequest.header_version(version), data[4:])
    return decode_message(ProduceRequest, version, data[4 + length :]).acks == 0


@contextmanager
def proxy(upstream: BrokerAddress, fault: Fault) -> Iterator[BrokerAddress]:
    """Between the suite and the broker, until the end of the `with`."""
    links: list[Link] = []

    def accept() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return  # closed: that is all
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            links.append(Link(client, upstream, fault))

    server = socket.create_server(("127.0.0.1", 0), backlog=128)
    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield BrokerAddress(*server.getsockname())
    finally:
        shut(server)
        server.close()
        acceptor.join(TIMEOUT_S)
        for link in links:
            link.join()


# --- faults ------------------------------------------------------------------------------------------------------


def rewritten(request: type[Request[Message]], version: int, change: Callable[[Message], None]) -> Fault:
    """A fault that decodes the answer, changes it, and encodes it again."""

    def rewrite(frame: bytes) -> bytes:
        response = request.response_type
        _, length = decode_prefix(ResponseHeader, response.header_version(version), frame)
        message = decode_message(response, version, frame[length:])
        change(message)
        return frame[:length] + encode_message(message, version)

    return Fault(request, version, rewrite)


def wrong_correlation_id(frame: bytes) -> bytes:
    return (int.from_bytes(frame[:4], "big") + 1).to_bytes(4, "big") + frame[4:]


def forgives_strangers(message: Message) -> None:
    assert isinstance(message, HeartbeatResponse)
    message.error_code = ErrorCode.NONE


def one_further(message: Message) -> None:
    assert isinstance(message, ProduceResponse)
    for topic in message.responses:
        for partition in topic.partition_responses:
            partition.base_offset += 1


def from_the_other_end(message: Message) -> None:
    assert isinstance(message, ListOffsetsResponse)
    for topic in message.topics:
        for partition in topic.partitions:
            partition.offset = 0


def forgets_the_session(message: Message) -> None:
    assert isinstance(message, FetchResponse)
    message.session_id = 0


def changes_a_record(*, mend_checksum: bool) -> Callable[[Message], None]:
    def change(message: Message) -> None:
        assert isinstance(message, FetchResponse)
        for topic in message.responses:
            for partition in topic.partitions:
                partition.records = changed(bytes(partition.records or b""), mend_checksum=mend_checksum)

    return change


def changed(records: bytes, *, mend_checksum: bool) -> bytes:
    """The last byte of the first value is another one: the records of the suite's first batch are not compressed."""
    data = bytearray(records)
    at = data.find(b"value")
    if at < 0:
        return records
    data[at + 4] ^= 1
    if mend_checksum:
        end = 12 + int.from_bytes(data[8:12], "big")
        crc = google_crc32c.value(bytes(data[BATCH_ATTRIBUTES_AT:end]))
        data[BATCH_CRC_AT : BATCH_CRC_AT + 4] = crc.to_bytes(4, "big")
    return bytes(data)


def promises(request: type[Request[Message]], max_version: int) -> Fault:
    """Offers a version that the broker does not have, in every version of ApiVersions."""

    def rewrite(frame: bytes) -> bytes:
        # An entry is three int16 in all versions; its key and first version tell it from everything around it.
        key = request.api_key.to_bytes(2, "big")
        for low in range(max_version):
            for high in range(low, max_version):
                entry = key + low.to_bytes(2, "big") + high.to_bytes(2, "big")
                if entry in frame[4:]:
                    return frame[:4] + frame[4:].replace(entry, entry[:4] + max_version.to_bytes(2, "big"), 1)
        return frame

    return Fault(ApiVersionsRequest, None, rewrite)


class Planted(NamedTuple):
    """A fault, what to run, and what has to be red: these checks, for this reason."""

    fault: Fault
    only: str
    red: set[str]
    reason: str


HEARTBEATS = {"takes heartbeats of members only", "knows no members of a group there is not"}
READING = {"returns the records as written"}
FAULTS = {
    "wrong correlation id": Planted(
        Fault(HeartbeatRequest, 2, wrong_correlation_id), "Heartbeat", HEARTBEATS, "correlation id"
    ),
    "extra trailing byte": Planted(
        Fault(HeartbeatRequest, 3, lambda frame: frame + b"\0"), "Heartbeat", HEARTBEATS, "1 bytes left over"
    ),
    "truncated answer": Planted(
        Fault(HeartbeatRequest, 1, lambda frame: frame[:-1]), "Heartbeat", HEARTBEATS, "HeartbeatResponse"
    ),
    "connection cut instead of an answer": Planted(
        Fault(HeartbeatRequest, 0, lambda frame: None), "Heartbeat", HEARTBEATS, "closed the connection"
    ),
    "wrong error code": Planted(
        rewritten(HeartbeatRequest, 3, forgives_strangers), "Heartbeat", HEARTBEATS, "answers NONE (0), but should"
    ),
    "swapped order": Planted(
        Fault(MetadataRequest, 5, swap=True), "*answer*in*order*", {"answers in order"}, "Kafka answers in order"
    ),
    "changed record byte": Planted(
        rewritten(FetchRequest, 11, changes_a_record(mend_checksum=False)),
        "returns the records*",
        READING,
        "wrong checksum",
    ),
    "changed record byte under a good checksum": Planted(
        rewritten(FetchRequest, 11, changes_a_record(mend_checksum=True)),
        "returns the records*",
        READING,
        "the value of",
    ),
    "wrong offset of what was produced": Planted(
        rewritten(ProduceRequest, 8, one_further),
        "Produce",
        {"appends records that come out the same", "keeps an idempotent producer in sequence"},
        "the base offset",
    ),
    "wrong offset of an end": Planted(
        rewritten(ListOffsetsRequest, 6, from_the_other_end),
        "ListOffsets",
        {"knows both ends", "finds offsets by time"},
        "but should be",
    ),
    "no fetch session": Planted(
        rewritten(FetchRequest, 9, forgets_the_session),
        "fetch_sessions",
        {
            "tells only what changed",
            "forgets partitions",
            "refuses a wrong epoch",
            "refuses a session there is not",
            "closes a session",
        },
        "opened no session",
    ),
    "a version offered but not spoken": Planted(
        promises(InitProducerIdRequest, InitProducerIdRequest.max_version),
        "InitProducerId",
        {
            "hands out ids of their own",
            "fences the one before",
            "fences who comes back too late",
            "refuses an empty transactional id",
        },
        "closed the connection",
    ),
}


def judge(kafka: SharedKafka, fault: Fault, *only: str) -> list[tuple[str, int, str, CaseStatus, str]]:
    with proxy(BrokerAddress.parse(kafka.bootstrap_servers), fault) as address:
        report = run(str(address), RunOptions(timeout_s=TIMEOUT_S, only=only))
    return [(result.api, result.version, result.check, result.status, result.reason) for result in report.results]


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_where_it_is(kafka: SharedKafka, name: str) -> None:
    fault, only, red, reason = FAULTS[name]
    results = judge(kafka, fault, only)
    failed = {(api, version, check) for api, version, check, status, _ in results if status is CaseStatus.FAILED}
    is_promise = fault.request is ApiVersionsRequest
    api = only if is_promise else fault.request.__name__.removesuffix("Request")
    version = InitProducerIdRequest.max_version if is_promise else fault.version
    assert failed == {(api, version, check) for check in red}
    reasons = {why for _, _, _, status, why in results if status is CaseStatus.FAILED}
    assert all(reason in why for why in reasons), reasons
    assert any(status is CaseStatus.PASSED for _, _, _, status, _ in results)


def test_without_a_fault_the_proxy_changes_nothing(kafka: SharedKafka) -> None:
    results = judge(kafka, Fault(HeartbeatRequest, -1))
    assert [result for result in results if result[3] is CaseStatus.FAILED] == []
    assert len(results) > 100
