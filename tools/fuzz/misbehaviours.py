"""What the hostile peer does wrong: each kind is a rule for one API of an in-process cluster.

Kinds of four families: how bytes come (`WRITTEN`), what bytes come (`DAMAGED`), what an answer says (`SAID`), and what
records are in a Fetch (`RECORDS`). Everything random follows from the generator given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from kwire.protocol.compiler import decode_message, encode_message
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.layout import layout_of
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse, NodeEndpoint
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.protocol.primitives import VARINT
from kwire.protocol.schema import Field, Message, Request, Structure, fields_of
from kwire.testing.cluster.batches import ChecksummedFields, compress, framed, varint
from kwire.testing.cluster.call import ConnectionCutError
from tools.fuzz.mutations import mutate
from tools.fuzz.shapes import arrays_of, counted, with_array

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kwire.testing.cluster.control import RequestControl, Rule
    from kwire.testing.cluster.request_context import RequestContext

Api = type[Request[Message]]
Pieces = Iterable[tuple[float, bytes]]

TRICKLE_MS = 20
ELEMENTS = 50_000
CODES = (*(code.value for code in ErrorCode if code is not ErrorCode.NONE), 9_999, -2, -(2**15), 2**15 - 1)
EXTREMES = {
    kind: (-(2 ** (bits - 1)), -2, -1, 0, 1, 2 ** (bits - 1) - 1)
    for kind, bits in (("int8", 8), ("int16", 16), ("int32", 32), ("int64", 64))
}
NOWHERE = ("127.0.0.1", 1)
CODEC_ZSTD, CODEC_GZIP, CODEC_LZ4 = 4, 1, 3


class Kind(NamedTuple):
    """A misbehaviour: its name, how a rule is made for it, and the APIs it makes sense for; None for all.

    `is_a_lie` where the answer may be a good one, and be believed: such as that a member owns nothing.
    """

    name: str
    arm: Callable[[RequestControl, Api, int | None, Random], Rule]
    apis: tuple[Api, ...] | None = None
    is_a_lie: bool = False


# --- how bytes come ---------------------------------------------------------------------------------------------


def trickle_slowly(frame: bytes, rng: Random) -> Pieces:
    """The right answer, a byte at a time."""
    del rng
    return ((TRICKLE_MS, bytes([byte])) for byte in frame)


def trickle_for_ever(frame: bytes, rng: Random) -> Pieces:
    """An answer that never becomes whole, though it never stops coming."""
    yield 0, (rng.choice((10_000, 400_000))).to_bytes(4, "big") + frame[4:8]
    yield from repeat((TRICKLE_MS, b"\0"))


def stop_half_way(frame: bytes, rng: Random) -> Pieces:
    yield 0, frame[: rng.randrange(len(frame))]


def cut_half_way(frame: bytes, rng: Random) -> Pieces:
    yield 0, frame[: rng.randrange(len(frame))]
    raise ConnectionCutError("half an answer is enough")


def say_it_for_ever(frame: bytes, rng: Random) -> Pieces:
    del rng
    return repeat((0, frame))


def answer_twice(frame: bytes, rng: Random) -> Pieces:
    del rng
    yield 0, frame + frame


def send_noise(frame: bytes, rng: Random) -> Pieces:
    del frame
    return ((0, rng.randbytes(1 << 16)) for _ in repeat(None))


# --- what bytes come --------------------------------------------------------------------------------------------


def claim_a_length(frame: bytes, rng: Random) -> bytes:
    length = rng.choice((0, 3, 2**31 - 1, 2**31, 2**32 - 1, 600_000, 40 << 20, 99 << 20))
    return length.to_bytes(4, "big") + frame[4:]


def take_another_id(frame: bytes, rng: Random) -> bytes:
    return frame[:4] + rng.randbytes(4) + frame[8:]


def speak_http(frame: bytes, rng: Random) -> bytes:
    del frame, rng
    return b"HTTP/1.1 400 Bad Request\r\n\r\n"


def speak_tls(frame: bytes, rng: Random) -> bytes:
    del frame, rng
    return b"\x15\x03\x03\x00\x02\x02\x50"


def damage(frame: bytes, rng: Random) -> bytes:
    body, _ = mutate(frame[8:], frame[8:], rng)
    return (len(body) + 4).to_bytes(4, "big") + frame[4:8] + body


def append_much(frame: bytes, rng: Random) -> bytes:
    body = frame[4:] + rng.randbytes(rng.randrange(1, 200_000))
    return len(body).to_bytes(4, "big") + body


# --- bodies made for one version --------------------------------------------------------------------------------


def many_elements(frame: bytes, api: Api, version: int, rng: Random) -> bytes:
    """An array as large as it can be in few bytes."""
    layout = layout_of(api.response_type, version)
    arrays = list(arrays_of(layout))
    if not arrays:
        return many_tags(frame, api, version, rng)
    index, _ = rng.choice(arrays)
    return _frame_of(frame, api, version, with_array(layout, index, rng.randrange(1_000, ELEMENTS)))


def claimed_elements(frame: bytes, api: Api, version: int, rng: Random) -> bytes:
    """An array that says it has more elements than there are, or may be."""
    layout = layout_of(api.response_type, version)
    arrays = list(arrays_of(layout))
    if not arrays:
        return many_tags(frame, api, version, rng)
    index, array = rng.choice(arrays)
    body = with_array(layout, index, 0)
    claim = counted(array, rng.choice((1_000_001, 2**31 - 2, 5)))
    return _frame_of(frame, api, version, claim + body[len(claim) :] + bytes(rng.randrange(2_000_000)))


def many_tags(frame: bytes, api: Api, version: int, rng: Random) -> bytes:
    body = frame[8 + api.response_type.header_version(version) :]
    count = rng.choice((9_999, 10_001, 2**31))
    tags = b"".join(VARINT.build(100 + tag) + b"\0" for tag in range(min(count, 10_001)))
    return _frame_of(frame, api, version, body[:-1] + VARINT.build(count) + tags)


def _frame_of(frame: bytes, api: Api, version: int, body: bytes) -> bytes:
    header = frame[4:8] + b"\0" * api.response_type.header_version(version)
    return (len(header) + len(body)).to_bytes(4, "big") + header + body


# --- what an answer says ----------------------------------------------------------------------------------------


def fields_in(message: Structure, version: int) -> Iterator[tuple[Structure, Field]]:
    """All fields of a message and of the structures in it that this version has."""
    for item in fields_of(type(message)):
        if version not in item.versions:
            continue
        yield message, item
        value = getattr(message, item.name)
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Structure):
                yield from fields_in(inner, version)


def fail_with_a_code(answer: Message, rng: Random) -> None:
    code = rng.choice(CODES)
    for owner, item in list(fields_in(answer, answer._version or 0)):
        if item.name == "error_code":
            setattr(owner, item.name, code)


def throttle(answer: Message, rng: Random) -> None:
    if "throttle_time_ms" in answer._marks:
        setattr(answer, "throttle_time_ms", rng.choice((2**31 - 1, -(2**31), 100, 3_600_000)))  # noqa: B010


def say_odd_numbers(answer: Message, rng: Random) -> None:
    for owner, item in list(fields_in(answer, answer._version or 0)):
        if item.type.kind in EXTREMES and item.name != "error_code" and rng.random() < 0.2:
            setattr(owner, item.name, rng.choice(EXTREMES[item.type.kind]))


def say_nothing(answer: Message, rng: Random) -> None:
    """Empty arrays and texts, and null where that is allowed."""
    version = answer._version or 0
    for owner, item in list(fields_in(answer, version)):
        if rng.random() < 0.5:
            if version in item.nullable:
                setattr(owner, item.name, None)
            elif item.type.kind in ("array", "string", "bytes"):
                setattr(owner, item.name, type(getattr(owner, item.name))())


def say_it_twice(answer: Message, rng: Random) -> None:
    for owner, item in list(fields_in(answer, answer._version or 0)):
        value = getattr(owner, item.name)
        if isinstance(value, list) and rng.random() < 0.7:
            setattr(owner, item.name, value * rng.choice((2, 3, 50)))


def send_elsewhere(answer: Message, rng: Random) -> None:
    """To brokers that are not there, that have other numbers each time, or that are not the right ones."""
    shift = rng.choice((0, rng.randrange(1, 10_000)))
    if isinstance(answer, MetadataResponse):
        _move_brokers(answer, shift, rng)
    elif isinstance(answer, FindCoordinatorResponse):
        for found in answer.coordinators:
            found.node_id += shift
            if rng.random() < 0.5:
                found.host, found.port = NOWHERE
    elif isinstance(answer, FetchResponse):
        for topic in answer.responses:
            for partition in topic.partitions:
                partition.error_code = rng.choice((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH))
                partition.current_leader.leader_id = shift or rng.randrange(2)
                partition.current_leader.leader_epoch = rng.randrange(1, 1_000_000)
        host, port = NOWHERE
        if (answer._version or 0) >= 16 and shift:
            answer.node_endpoints = [NodeEndpoint(node_id=shift, host=host, port=port)]


def _move_brokers(answer: MetadataResponse, shift: int, rng: Random) -> None:
    for broker in answer.brokers:
        broker.node_id += shift
        if rng.random() < 0.3:
            broker.host, broker.port = NOWHERE
    for topic in answer.topics:
        for partition in topic.partitions:
            partition.leader_id += rng.choice((shift, shift, 1))


# --- records ----------------------------------------------------------------------------------------------------


def _batch(payload: bytes, count: int, codec: int) -> bytes:
    covered = ChecksummedFields(codec, max(0, count - 1), 0, 0, -1, -1, -1, count)
    return framed(covered, payload if not codec else compress(codec, payload))


def bomb(rng: Random) -> bytes:
    """Some hundred kilobytes at most, that say they are 160 MiB, or a record of more headers than one may have."""
    codec = rng.choice((CODEC_ZSTD, CODEC_GZIP, CODEC_LZ4))
    if rng.random() < 0.5:
        return _batch(bytes(160 << 20), 1, codec)
    headers = 1_500_000
    body = b"\0\0\0\x01\x01" + varint(headers) + b"\0\x01" * headers
    return _batch(varint(len(body)) + body, 1, codec)


def odd_counts(rng: Random) -> bytes:
    record = b"\x0c\0\0\0\x01\x01\0"
    return _batch(record * 10, rng.choice((0, 9, 11, 2**31 - 1, -1, -(2**31))), rng.choice((0, 3, 4)))


def damaged_batch(rng: Random) -> bytes:
    good = _batch(b"\x0c\0\0\0\x01\x01\0" * 10, 10, rng.choice((0, 1, 3, 4)))
    damaged, _ = mutate(good, good, rng)
    return damaged


def noise(rng: Random) -> bytes:
    return rng.randbytes(rng.randrange(1, 100_000))


# --- all of them ------------------------------------------------------------------------------------------------


def _written(write: Callable[[bytes, Random], Pieces]) -> Kind:
    def arm(control: RequestControl, api: Api, times: int | None, rng: Random) -> Rule:
        return control.on(api, times=times).write(lambda frame: write(frame, rng))

    return Kind(write.__name__, arm)


def _damaged(change: Callable[[bytes, Random], bytes]) -> Kind:
    def arm(control: RequestControl, api: Api, times: int | None, rng: Random) -> Rule:
        return control.on(api, times=times).write(lambda frame: [(0, change(frame, rng))])

    return Kind(change.__name__, arm, is_a_lie=change is damage)


def _crafted(make: Callable[[bytes, Api, int, Random], bytes]) -> Kind:
    def arm(control: RequestControl, api: Api, times: int | None, rng: Random) -> Rule:
        versions: list[int] = []

        def see_version(_: Request[Message], call: RequestContext) -> bool:
            versions.append(call.version)
            return True

        intent = control.on(api, times=times, where=see_version)
        return intent.write(lambda frame: [(0, make(frame, api, versions[-1], rng))])

    return Kind(make.__name__, arm, is_a_lie=True)


def _said(change: Callable[[Message, Random], None], apis: tuple[Api, ...] | None = None) -> Kind:
    def make(frame: bytes, api: Api, version: int, rng: Random) -> bytes:
        body = frame[8 + api.response_type.header_version(version) :]
        answer = decode_message(api.response_type, version, body)
        change(answer, rng)
        return _frame_of(frame, api, version, encode_message(answer, version))

    return Kind(change.__name__, _crafted(make).arm, apis, is_a_lie=True)


def _records(make: Callable[[Random], bytes]) -> Kind:
    def put(answer: Message, rng: Random) -> None:
        assert isinstance(answer, FetchResponse)
        for topic in answer.responses:
            for partition in topic.partitions:
                partition.records = make(rng)

    return Kind(make.__name__, _said(put).arm, (FetchRequest,))


def _never(control: RequestControl, api: Api, times: int | None, rng: Random) -> Rule:
    del rng
    return control.on(api, times=times).drop()


def _hang_up(control: RequestControl, api: Api, times: int | None, rng: Random) -> Rule:
    return control.on(api, times=times).cut(handled=rng.random() < 0.5)


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("never_answer", _never),
        Kind("hang_up", _hang_up),
        *map(_written, (trickle_slowly, trickle_for_ever, stop_half_way, cut_half_way)),
        *map(_written, (say_it_for_ever, answer_twice, send_noise)),
        *map(_damaged, (claim_a_length, take_another_id, speak_http, speak_tls, damage, append_much)),
        *map(_crafted, (many_elements, claimed_elements, many_tags)),
        *map(_said, (fail_with_a_code, throttle, say_odd_numbers, say_nothing, say_it_twice)),
        _said(send_elsewhere, (MetadataRequest, FindCoordinatorRequest, FetchRequest)),
        *map(_records, (bomb, odd_counts, damaged_batch, noise)),
    )
}
