"""Bootstrap servers as other clients accept them: without a port, too."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PORT = 9092
# A listener's name may stand in front.
_WITHOUT_PORT = re.compile(r"(\w+://)?(\[[^\]]*\]|[^:\[\]]+)")


def with_ports(servers: object) -> object:
    """The servers, with Kafka's usual port where it is missing. Invalid ones stay as they are, for kwire to refuse."""
    if isinstance(servers, str):
        return [_with_port(each) for each in servers.split(",") if each.strip()]
    return [*map(_with_port, servers)] if isinstance(servers, Iterable) else servers


def _with_port(server: object) -> object:
    if isinstance(server, str) and _WITHOUT_PORT.fullmatch(server.strip()):
        return f"{server.strip()}:{_PORT}"
    return server
