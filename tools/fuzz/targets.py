"""What is fuzzed: every way by which bytes from a network get into kwire, with good bytes to start from.

The bytes are those of the golden files, which Kafka's own classes wrote. The same bytes always come to the same end.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.protocol import decode, encode_message
from kwire.protocol.consumer_protocol import decode_assignment, decode_subscription
from kwire.protocol.framing import Framing
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.headers import ResponseHeader
from kwire.protocol.records import read_records
from kwire.protocol.registry import message_class
from kwire.protocol.schema import Response
from tools.fuzz.sasl import answers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Decode = Callable[[bytes], object]

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "protocol"
MESSAGES = GOLDEN / "golden" / "messages.jsonl.gz"
SASL_TALKS = GOLDEN / "golden" / "sasl.jsonl"
RECORD_SETS = GOLDEN / "golden_records" / "record-sets.jsonl.gz"

LIMIT_BYTES = 1 << 20
"""What a batch may inflate to, and what a frame may claim to hold."""


@dataclass(frozen=True, slots=True)
class Seed:
    """Good bytes: what to call them, the bytes, and what decodes them (and whatever becomes of them)."""

    name: str
    data: bytes
    decode: Decode


@cache
def seeds() -> dict[str, Sequence[Seed]]:
    """All seeds by target."""
    messages = [json.loads(line) for line in _lines(MESSAGES)]
    record_sets = [json.loads(line) for line in _lines(RECORD_SETS)]
    return {
        "message": [_message(line["message"], line["version"], bytes.fromhex(line["hex"])) for line in messages],
        "frame": [
            _frame(line["message"], line["version"], bytes.fromhex(line["hex"]))
            for line in messages
            if line["message"].endswith("Response")
        ],
        "records": [_records(line["case"], bytes.fromhex(line["hex"])) for line in record_sets],
        "member data": [
            _member_data(line["message"], line["version"], bytes.fromhex(line["hex"]))
            for line in messages
            if line["message"].startswith("ConsumerProtocol")
        ],
        "sasl": [
            Seed(name, data, decode)
            for line in SASL_TALKS.read_text().splitlines()
            for name, data, decode in answers(json.loads(line))
        ],
    }


def _lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def _message(name: str, version: int, data: bytes) -> Seed:
    return Seed(f"{name} v{version}", data, lambda damaged: decode(name, version, damaged))


def _frame(name: str, version: int, body: bytes) -> Seed:
    """An answer as it comes over a connection, in two reads."""
    cls = message_class(name)
    if not issubclass(cls, Response):
        raise TypeError(f"{name} is no response")
    request = message_class(f"{name.removesuffix('Response')}Request")()
    if isinstance(request, FetchRequest):
        request.max_bytes = 0  # else as large an answer may come as is asked for
    header = encode_message(ResponseHeader(), cls.header_version(version))
    frame = (len(header) + len(body)).to_bytes(4, "big") + header + body

    def receive(damaged: bytes) -> None:
        framing = Framing("fuzz", max_frame_bytes=LIMIT_BYTES)
        framing.send(request, version)  # type: ignore[arg-type]  # registered as the request of this response
        for part in (damaged[:5], damaged[5:]):
            while part:
                target = framing.writable_buffer()
                size = min(len(part), len(target))
                target[:size] = part[:size]
                part = part[size:]
                framing.received(size)

    return Seed(f"frame of {name} v{version}", frame, receive)


def _records(case: str, data: bytes) -> Seed:
    """With and without checksums: damage gets further in without."""

    def read(damaged: bytes) -> object:
        return read_records(damaged, check_crcs=len(damaged) % 4 == 0, limit_bytes=LIMIT_BYTES)

    return Seed(case, data, read)


def _member_data(name: str, version: int, body: bytes) -> Seed:
    """What other members of a group, of any make, put into JoinGroup and SyncGroup."""
    read: Decode = decode_subscription if name.endswith("Subscription") else decode_assignment
    return Seed(f"{name} v{version}", version.to_bytes(2, "big") + body, read)
