"""One line of a wire corpus: a message's fields and the bytes that Kafka's own class wrote for them.

A line passes when encoding the fields gives the bytes, decoding the bytes gives the fields, and what was decoded
encodes to the bytes again; key, kind and header version have to be right as well, where the line tells them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.errors import KafkaError
from kwire.protocol import decode, encode
from kwire.protocol.plain import to_json
from kwire.protocol.registry import message_class
from kwire.protocol.schema import Request, Response
from tools.corpus.lines import CorpusError, Verdict, bytes_of, number_of, text_of

if TYPE_CHECKING:
    from kwire.protocol.schema import Message
    from tools.corpus.lines import Line


def judge(line: Line) -> Verdict:
    """Try one line.

    Raises:
        CorpusError: The line is not complete.
    """
    name, version = text_of(line, "message"), number_of(line, "version")
    fields, wanted = line.get("fields"), bytes_of(line)
    if not isinstance(fields, dict):
        raise CorpusError(f"'fields' should be an object, not {fields!r:.60}")
    try:
        cls = message_class(name)
        problem = (
            _wrong_facts(cls, line)
            or _wrong_bytes("encoding the fields", encode(name, version, fields), wanted)
            or _wrong_fields(decode(name, version, wanted), fields)
            or _wrong_bytes("encoding what was decoded", encode(name, version, decode(name, version, wanted)), wanted)
        )
    except KafkaError as error:
        problem = f"{type(error).__name__}: {error}"
    return Verdict(row=(_api(name), version), column=_column(name), problem=problem)


def _wrong_facts(cls: type[Message], line: Line) -> str:
    """The first fact of the line that kwire sees otherwise; a line need not tell them all."""
    version = number_of(line, "version")
    known: dict[str, object] = {"api_key": None, "header_version": None}
    if issubclass(cls, Request | Response):
        known = {"api_key": cls.api_key, "header_version": cls.header_version(version)}
        known["kind"] = "request" if issubclass(cls, Request) else "response"
    for fact, ours in known.items():
        if fact in line and line[fact] != ours:
            return f"{fact} is {line[fact]!r}, but kwire says {ours!r}"
    return ""


def _wrong_bytes(what: str, found: bytes, wanted: bytes) -> str:
    if found == wanted:
        return ""
    at = next((at for at, (ours, theirs) in enumerate(zip(found, wanted, strict=False)) if ours != theirs), None)
    at = min(len(found), len(wanted)) if at is None else at
    return f"{what} gives {len(found)} bytes, Kafka {len(wanted)}; they differ from byte {at} on"


def _wrong_fields(message: Message, wanted: Line) -> str:
    found = to_json(message)
    if found == wanted:
        return ""
    differing = [name for name in {*found, *wanted} if found.get(name) != wanted.get(name)]
    return f"decoding gives other fields: {', '.join(sorted(differing))}"


def _api(name: str) -> str:
    return name.removesuffix("Request").removesuffix("Response")


def _column(name: str) -> str:
    return "request" if name.endswith("Request") else "response" if name.endswith("Response") else "data"
