"""Every declared message against the bytes and the facts of Kafka's own classes (golden/README.md)."""

from __future__ import annotations

import gzip
import json
import random
from collections import defaultdict
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from construct import ConstructError

from kwire.errors import ProtocolError
from kwire.protocol import decode, encode
from kwire.protocol.compiler import decode_prefix
from kwire.protocol.layout import layout_of
from kwire.protocol.plain import to_json
from kwire.protocol.primitives import FIXED, Blob, Construct, FieldInPlace, Fields, Length, Maybe, Sequence, Text
from kwire.protocol.registry import message_class, message_classes
from kwire.protocol.schema import Request, Response, Structure, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(__file__).parent / "golden"


@cache
def golden_lines() -> dict[str, list[dict[str, Any]]]:
    lines = defaultdict(list)
    for text in gzip.decompress((GOLDEN / "messages.jsonl.gz").read_bytes()).decode().splitlines():
        line = json.loads(text)
        lines[line["message"]].append(line)
    return lines


@cache
def facts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress((GOLDEN / "schemas.json.gz").read_bytes()))
    return found


NAMES = sorted(fact["name"] for fact in facts()["messages"])


def fact_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(fact for fact in facts()["messages"] if fact["name"] == name)
    return found


def test_the_golden_files_cover_all_declared_messages_in_all_versions() -> None:
    declared = {(name, version) for name, cls in message_classes().items() for version in cls.versions}
    golden = {(name, line["version"]) for name, lines in golden_lines().items() for line in lines}
    assert declared == golden


@pytest.mark.parametrize("name", NAMES)
def test_encoding_gives_the_bytes_that_java_writes(name: str) -> None:
    for line in golden_lines()[name]:
        assert encode(name, line["version"], line["fields"]).hex() == line["hex"]


@pytest.mark.parametrize("name", NAMES)
def test_decoding_gives_the_fields_that_java_was_given(name: str) -> None:
    for line in golden_lines()[name]:
        message = decode(name, line["version"], bytes.fromhex(line["hex"]))
        assert to_json(message) == line["fields"]


@pytest.mark.parametrize("name", NAMES)
def test_what_was_decoded_encodes_to_the_same_bytes(name: str) -> None:
    for line in golden_lines()[name]:
        message = decode(name, line["version"], bytearray.fromhex(line["hex"]))
        assert encode(name, line["version"], message).hex() == line["hex"]


@pytest.mark.parametrize("name", NAMES)
def test_the_construct_layout_agrees_with_java(name: str) -> None:
    for line in golden_lines()[name][:: 1 if len(golden_lines()[name]) < 50 else 3]:
        layout = layout_of(message_class(name), line["version"])
        message = decode(name, line["version"], bytes.fromhex(line["hex"]))
        assert layout.parse(bytes.fromhex(line["hex"])) == message.to_dict()
        assert layout.build(message.to_dict()).hex() == line["hex"]


# --- damage ---------------------------------------------------------------------------------------------------


def damaged(data: bytes, rng: random.Random) -> Iterator[bytes]:
    """Cut, extended and overwritten; values that matter to lengths and varints come up often."""
    if data:
        yield data[: rng.randrange(len(data))]
    for replacement in (b"\xff", b"\x80", b"\x7f", b"\x00", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", rng.randbytes(2)):
        at = rng.randrange(len(data) + 1)
        yield data[:at] + replacement + data[at + len(replacement) :]


@pytest.mark.parametrize("name", NAMES)
def test_damaged_bytes_are_refused_or_read_exactly_as_the_layout_reads_them(name: str) -> None:
    rng = random.Random(name)
    lines = golden_lines()[name]
    for line in rng.sample(lines, min(len(lines), 15)):
        for data in damaged(bytes.fromhex(line["hex"]), rng):
            cls, version = message_class(name), line["version"]
            stream = BytesIO(data)
            try:
                expected = layout_of(cls, version)._parse(stream, None, "")
            except ConstructError:
                with pytest.raises(ProtocolError, match=f"cannot decode {name} v{version}: "):
                    decode_prefix(cls, version, data)
                continue
            message, length = decode_prefix(cls, version, data)
            assert (message.to_dict(), length) == (expected, stream.tell())


@pytest.mark.parametrize("name", NAMES)
def test_every_truncation_is_refused(name: str) -> None:
    rng = random.Random(name)
    for line in rng.sample(golden_lines()[name], min(len(golden_lines()[name]), 6)):
        data = bytes.fromhex(line["hex"])
        for length in {*range(min(len(data), 40)), *(rng.randrange(len(data)) for _ in data[:40])}:
            with pytest.raises(ProtocolError):
                decode(name, line["version"], data[:length])


# --- facts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_keys_versions_and_headers_are_kafkas(name: str) -> None:
    fact, cls = fact_of(name), message_class(name)
    assert list(cls.versions) == [entry["version"] for entry in fact["versions"]]
    assert (cls.min_version, cls.max_version) == (fact["lowest_version"], fact["highest_version"])
    for version in cls.versions:
        flexible = fact["flexible_from"] is not None and version >= fact["flexible_from"]
        assert (version in cls.flexible) == flexible
    if issubclass(cls, Request | Response):
        assert cls.api_key == fact["api_key"]
        headers = [entry["header_version"] for entry in fact["versions"]]
        assert [cls.header_version(version) for version in cls.versions] == headers
    if issubclass(cls, Request):
        assert cls.response_type.__name__ == name.removesuffix("Request") + "Response"


@pytest.mark.parametrize("name", NAMES)
def test_fields_types_defaults_and_tags_are_kafkas(name: str) -> None:
    for entry in fact_of(name)["versions"]:
        assert described(layout_of(message_class(name), entry["version"])) == entry["fields"]


def described(layout: Fields) -> list[dict[str, Any]]:
    """A layout in the words of schemas.json."""
    members = [*layout.plain, *(layout.tagged or {}).values()]
    return [described_member(member) for member in members]


def described_member(member: FieldInPlace) -> dict[str, Any]:
    found = described_type(member.type)
    found["name"] = member.name
    found["nullable"] = "nullable" in found["type"] or isinstance(member.type, Maybe)
    found["default"] = json_default(member.default)
    if member.declared.tag is not None:
        found["tag"] = member.declared.tag
    return found


def described_type(wire: Construct) -> dict[str, Any]:
    match wire:
        case Fields():
            return {"type": "struct", "struct": wire.owner.__name__, "fields": described(wire)}
        case Maybe():
            return described_type(wire.inner)
        case Sequence():
            return {"type": prefixed(wire.length, "array"), "element": described_type(wire.element)}
        case Text():
            return {"type": prefixed(wire.length, "string")}
        case Blob():
            return {"type": prefixed(wire.length, "records" if wire.zero_copy else "bytes")}
        case _:
            return {"type": next((kind for kind, fixed in FIXED.items() if fixed is wire), "uuid")}


def prefixed(length: Length, kind: str) -> str:
    return ("compact_" if length.compact else "") + ("nullable_" if length.nullable else "") + kind


def json_default(value: object) -> object:
    if isinstance(value, bytes):
        return {"$b64": value.decode()}
    return value if isinstance(value, int | str | list | dict | None) else {"$uuid": str(value)}


@pytest.mark.parametrize("name", NAMES)
def test_ignorable_fields_are_kafkas(name: str) -> None:
    ignorable = set(facts()["ignorable"])
    versions = set(message_class(name).versions)

    def check(struct: type[Structure], path: str, versions: set[int]) -> None:
        for field in fields_of(struct):
            present = {version for version in versions if version in field.versions}
            if present < versions:  # a field that is never missing cannot be ignored
                assert field.ignorable == (f"{path}.{field.name}" in ignorable), f"{path}.{field.name}"
            nested = field.type.struct or (field.type.element and field.type.element.struct)
            if nested:
                check(nested, f"{path}.{field.name}", present)

    check(message_class(name), name, versions)
