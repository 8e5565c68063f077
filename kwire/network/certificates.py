"""What an X.509 certificate says of itself, for error messages: whose it is, who issued it, when it is valid.

Read from its DER form (RFC 5280), as far as that takes: Python's ssl shows only certificates that it trusts, and the
others are those that a message has to name.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import NamedTuple

_UTC_TIME = 0x17
_VERSION, _EXTENSIONS = 0xA0, 0xA3
_DNS_NAME, _IP_ADDRESS = 0x82, 0x87
_ALTERNATIVE_NAMES = bytes.fromhex("551d11")
_NAMES = {
    bytes.fromhex("550403"): "CN",
    bytes.fromhex("55040a"): "O",
    bytes.fromhex("55040b"): "OU",
    bytes.fromhex("550406"): "C",
    bytes.fromhex("550407"): "L",
    bytes.fromhex("550408"): "ST",
}
MAX_SHOWN_NAMES = 5


class _Element(NamedTuple):
    """A tag and what stands behind it."""

    tag: int
    content: bytes


def describe(certificate: bytes) -> str:
    """In one line: `CN=kafka-1, issued by CN=our CA, valid from 2026-01-01 to 2027-01-01, for kafka-1.example`."""
    try:
        return _describe(certificate)
    except (ValueError, IndexError, StopIteration, RuntimeError):  # the last one is a StopIteration in a generator
        return "one that cannot be read"


def _describe(certificate: bytes) -> str:
    (outer,) = _elements(certificate)
    fields = list(_elements(next(_elements(outer.content)).content))
    if fields[0].tag == _VERSION:
        fields = fields[1:]
    _serial, _algorithm, issuer, validity, subject, _key, *rest = fields
    begin, end = (_day(each) for each in _elements(validity.content))
    names = list(_alternative_names(rest))
    shown = ", ".join(names[:MAX_SHOWN_NAMES]) + (", ..." if len(names) > MAX_SHOWN_NAMES else "")
    return f"{_name(subject)}, issued by {_name(issuer)}, valid from {begin} to {end}" + (
        f", for {shown}" if names else ""
    )


def _elements(data: bytes) -> Iterator[_Element]:
    """The elements that stand one behind the other."""
    position = 0
    while position < len(data):
        tag, size = data[position], data[position + 1]
        position += 2
        if size & 0x80:
            digits = size & 0x7F
            size = int.from_bytes(data[position : position + digits], "big")
            position += digits
        if position + size > len(data):
            raise ValueError("it ends in the middle of an element")
        yield _Element(tag, data[position : position + size])
        position += size


def _name(element: _Element) -> str:
    """A distinguished name, the parts that people know."""
    parts = []
    for part in _elements(element.content):
        for pair in _elements(part.content):
            oid, value = _elements(pair.content)
            if oid.content in _NAMES:
                parts.append(f"{_NAMES[oid.content]}={_text(value.content)}")
    return ",".join(parts) or "nobody by name"


def _day(element: _Element) -> str:
    digits = element.content.decode("ascii")
    if element.tag == _UTC_TIME:
        digits = ("19" if digits[:2] >= "50" else "20") + digits
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}"


def _alternative_names(fields: list[_Element]) -> Iterator[str]:
    """The hosts that it is for."""
    for field in fields:
        if field.tag != _EXTENSIONS:
            continue
        for extension in _elements(next(_elements(field.content)).content):
            oid, *_critical, value = _elements(extension.content)
            if oid.content == _ALTERNATIVE_NAMES:
                yield from _hosts(next(_elements(value.content)).content)


def _hosts(names: bytes) -> Iterator[str]:
    for name in _elements(names):
        if name.tag == _DNS_NAME:
            yield _text(name.content)
        elif name.tag == _IP_ADDRESS:
            yield str(ip_address(name.content))


def _text(data: bytes) -> str:
    """What a stranger has written, fit for one line."""
    return "".join(c if c.isprintable() else "?" for c in data.decode("utf-8", errors="replace"))
