"""`bootstrap_servers`: host:port pairs, with IPv6 addresses in brackets."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address
from typing import NamedTuple

from kwire.config.parsers import BadValueError, Parser, split_list, without_duplicates

VALID = "host:port, or several of them with commas or as a list; an IPv6 address in brackets, as in [::1]:9092"

# As lenient as the Java client, which takes a listener's name in front and underscores in names.
_ENDPOINT = re.compile(
    r"(?:(?P<listener>\w+)://)?(?:\[(?P<ipv6>[^\]]*)\]|(?P<name>[\w.%-]+)):(?P<port>\d{1,5})", re.ASCII
)
MAX_PORT = 65_535


class Endpoint(NamedTuple):
    """Where to find a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def endpoints() -> Parser[tuple[Endpoint, ...]]:
    return Parser(_read, VALID)


def listeners(value: object) -> frozenset[str]:
    """The names of listeners that stand in front of servers, as in SSL://broker:9093. Nothing else is made of them."""
    items = split_list(value) if isinstance(value, (str, list, tuple)) else []
    found = (_ENDPOINT.fullmatch(item.strip()) for item in items if isinstance(item, str))
    return frozenset(each["listener"].upper() for each in found if each is not None and each["listener"])


def _read(value: object) -> tuple[Endpoint, ...]:
    items = [value] if isinstance(value, Endpoint) else split_list(value)
    if not items:
        raise BadValueError("no server")
    return without_duplicates(map(_read_one, items))


def _read_one(item: object) -> Endpoint:
    if isinstance(item, Endpoint):
        return item
    if not isinstance(item, str):
        raise BadValueError(f"{item!r} is not text")
    found = _ENDPOINT.fullmatch(item.strip())
    if found is None:
        raise BadValueError(_what_is_wrong(item.strip()))
    host = found["name"] if found["ipv6"] is None else _ipv6(found["ipv6"])
    return Endpoint(host, _port(found["port"], item))


def _ipv6(text: str) -> str:
    try:
        return str(IPv6Address(text))
    except AddressValueError as error:
        raise BadValueError(f"[{text}] is no IPv6 address: {error}") from None


def _port(text: str, item: str) -> int:
    if not 1 <= (port := int(text)) <= MAX_PORT:
        raise BadValueError(f"{item!r}: a port is 1 to {MAX_PORT}")
    return port


def _what_is_wrong(item: str) -> str:
    if "@" in item:
        raise BadValueError("a server's address holds no user: give sasl_username, sasl_password", may_be_secret=True)
    if ";" in item or len(item.split()) > 1:
        return f"{item!r}: write commas between servers"
    host, colon, port = item.rpartition(":")
    if item.endswith("]") or not colon:
        return f"{item!r} has no port; Kafka's usual one is 9092"
    if ":" in host and "[" not in host and "/" not in host:
        return f"{item!r} looks like an IPv6 address; put it in brackets"
    if not port.isdecimal():
        return f"{item!r}: the port {port!r} is not a number"
    return f"{item!r} is not host:port"
