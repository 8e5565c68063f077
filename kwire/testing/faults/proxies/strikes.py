"""One answer, struck: bits flipped, another length announced, cut short, made an error. Pure: bytes in, bytes out.

A record batch is found by its checksum and not by decoding the answer, so this works for every version of every API;
errors are in places of their own in each of them, so an answer that cannot be decoded is made none. Called by
`orders`, with whole frames.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from fastcrc.crc32 import iscsi as crc32c

from kwire.errors import KafkaError
from kwire.protocol.compiler import decode_message, decode_prefix, encode_message
from kwire.protocol.messages.headers import ResponseHeader
from kwire.protocol.registry import request_class
from kwire.protocol.schema import Structure
from kwire.testing.faults.proxies.tamperings import AnnounceLength, BitPlace, CutAnswer, FlipBit, Injector, UnknownCode

LENGTH_BYTES = 4
ANSWER_HEADER = range(4, 8)  # the correlation id, behind the frame's length
# A record batch of magic 2 (KIP-98): where its fields begin.
BATCH_LENGTH_AT = 8
LENGTH_COUNTS_FROM = 12
MAGIC_AT = 16
CRC_AT = 17
CRC_COVERS_FROM = 21
RECORDS_AT = 61
MAGIC = b"\x02"
UNKNOWN_CODE = 4242  # what no Kafka says


class Asked(NamedTuple):
    """The request that an answer is for."""

    api_key: int
    version: int


@dataclass(frozen=True, slots=True)
class Struck:
    """What is to be sent instead, and whether the connection ends behind it."""

    data: bytes
    is_last: bool = False


def strike(tampering: Injector, frame: bytes, asked: Asked | None = None) -> Struck | None:
    """Carry it out on a whole frame; None if the frame lacks what is to be struck."""
    match tampering:
        case FlipBit():
            places = bytes_of(tampering.place, frame)
            return None if not places else Struck(flip_bit(frame, places, tampering.seed))
        case AnnounceLength():
            return Struck(tampering.length_bytes.to_bytes(LENGTH_BYTES, signed=True) + frame[LENGTH_BYTES:])
        case CutAnswer():
            return Struck(frame[: tampering.after_bytes], is_last=True)
        case UnknownCode():
            return None if asked is None else make_error(asked, frame)
        case _:
            assert_never(tampering)


def bytes_of(place: BitPlace, frame: bytes) -> range:
    """Which bytes of a frame the place means; none if it has no record batch."""
    if place is BitPlace.HEADER:
        return ANSWER_HEADER
    batch = find_batch(frame)
    if batch is None:
        return range(0)
    match place:
        case BitPlace.CRC:
            return range(batch.start + CRC_AT, batch.start + CRC_COVERS_FROM)
        case BitPlace.BATCH_HEADER:
            return range(batch.start + CRC_COVERS_FROM, batch.start + RECORDS_AT)
        case BitPlace.PAYLOAD:
            return range(batch.start + RECORDS_AT, batch.stop)
        case _:
            assert_never(place)


def flip_bit(frame: bytes, places: range, seed: int) -> bytes:
    """The frame with one bit of these bytes flipped."""
    chance = random.Random(seed)
    flipped = bytearray(frame)
    flipped[chance.choice(places)] ^= 1 << chance.randrange(8)
    return bytes(flipped)


def make_error(asked: Asked, frame: bytes) -> Struck | None:
    """The answer with another code wherever it has one; None if it has none, or its version is unknown here."""
    try:
        response = request_class(asked.api_key).response_type
        header_version = response.header_version(asked.version)
        header, header_bytes = decode_prefix(ResponseHeader, header_version, memoryview(frame)[LENGTH_BYTES:])
        answer = decode_message(response, asked.version, memoryview(frame)[LENGTH_BYTES + header_bytes :])
        coded = list(coded_in(answer))
        for each in coded:
            setattr(each, "error_code", UNKNOWN_CODE)  # noqa: B010  many have one, and share no base for it
        payload = encode_message(header, header_version) + encode_message(answer, asked.version)
    except KafkaError:
        return None
    return Struck(len(payload).to_bytes(LENGTH_BYTES, signed=True) + payload) if coded else None


def coded_in(answer: object) -> Iterator[Structure]:
    """Everything in an answer that has an error code of its own."""
    if isinstance(answer, list):
        for each in answer:
            yield from coded_in(each)
    elif isinstance(answer, Structure):
        names = answer.to_dict()  # of an answer, what its version has
        if "error_code" in names:
            yield answer
        for name in names:
            yield from coded_in(getattr(answer, name))


def find_batch(frame: bytes) -> range | None:
    """Where the first sound record batch lies. Its checksum makes sure that it is one, whatever is around it."""
    at = frame.find(MAGIC, ANSWER_HEADER.stop + MAGIC_AT)
    while at >= 0:
        start = at - MAGIC_AT
        length_at = start + BATCH_LENGTH_AT
        stop = start + LENGTH_COUNTS_FROM + int.from_bytes(frame[length_at : length_at + LENGTH_BYTES], signed=True)
        if start + RECORDS_AT <= stop <= len(frame) and _is_sound(frame, start, stop):
            return range(start, stop)
        at = frame.find(MAGIC, at + 1)
    return None


def _is_sound(frame: bytes, start: int, stop: int) -> bool:
    crc = int.from_bytes(frame[start + CRC_AT : start + CRC_COVERS_FROM])
    return crc == crc32c(frame[start + CRC_COVERS_FROM : stop])
