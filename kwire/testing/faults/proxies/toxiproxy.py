"""A typed client of toxiproxy's HTTP interface: its proxies and their toxics. Standard library only.

    toxiproxy = Toxiproxy("127.0.0.1", 8474)
    proxy = toxiproxy.create("broker-0", upstream="127.0.0.1:9092")
    slow = toxiproxy.add(proxy.name, Latency(latency_ms=100, jitter_ms=20))
    toxiproxy.remove(proxy.name, slow)

Used by `chain`; the server is started by `toxiproxy_server`.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, cast
from urllib.parse import quote

from kwire.testing.faults.proxies.toxics import Json, Toxic

TIMEOUT_S = 3.0  # it answers in milliseconds, or is stuck: see `chain.BrokerProxy`


class ToxiproxyError(Exception):
    """Toxiproxy refused, in its own words, or cannot be reached.

    Attributes:
        status: HTTP's; 0 if there was no answer.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message, status)
        self.status = status

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy as toxiproxy describes it; addresses are `host:port`."""

    name: str
    listen: str
    upstream: str
    is_enabled: bool
    toxics: tuple[str, ...]  # their names

    @classmethod
    def of(cls, described: Json) -> Self:
        """From toxiproxy's description."""
        assert isinstance(described, Mapping)
        toxics = cast("list[Mapping[str, str]]", described["toxics"] or [])
        return cls(
            name=str(described["name"]),
            listen=str(described["listen"]),
            upstream=str(described["upstream"]),
            is_enabled=bool(described["enabled"]),
            toxics=tuple(toxic["name"] for toxic in toxics),
        )


class Toxiproxy:
    """Where toxiproxy listens. Every call is an HTTP request of its own, so any thread may call.

    All calls raise ToxiproxyError.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port

    @property
    def address(self) -> tuple[str, int]:
        """The address of toxiproxy."""
        return self._host, self._port

    def version(self) -> str:
        """The version of the server."""
        described = self._ask("GET", "/version")
        assert isinstance(described, Mapping)
        return str(described["version"])

    # --- proxies ---------------------------------------------------------------------------------------------

    def create(self, name: str, *, upstream: str, listen: str = "127.0.0.1:0") -> Proxy:
        """A new proxy that clients can connect to; with port 0 it takes a free one."""
        wanted: Json = {"name": name, "listen": listen, "upstream": upstream, "enabled": True}
        return Proxy.of(self._ask("POST", "/proxies", wanted))

    def proxy(self, name: str) -> Proxy:
        """The current state of a proxy."""
        return Proxy.of(self._ask("GET", f"/proxies/{quote(name, safe='')}"))

    def proxies(self) -> tuple[Proxy, ...]:
        """All proxies, by name."""
        described = self._ask("GET", "/proxies")
        assert isinstance(described, Mapping)
        return tuple(Proxy.of(described[name]) for name in sorted(described))

    def enable(self, name: str) -> None:
        """Have the proxy listen again."""
        self._update(name, {"enabled": True})

    def disable(self, name: str) -> None:
        """Break off its connections and refuse new ones."""
        self._update(name, {"enabled": False})

    def lead_to(self, name: str, upstream: str) -> None:
        """Change the upstream server; connections to the old one are closed."""
        self._update(name, {"upstream": upstream})

    def delete(self, name: str) -> None:
        """Delete the proxy and its connections."""
        self._ask("DELETE", f"/proxies/{quote(name, safe='')}")

    def reset(self) -> None:
        """Enable all proxies, and remove all toxics."""
        self._ask("POST", "/reset")

    def _update(self, name: str, change: Json) -> None:
        self._ask("POST", f"/proxies/{quote(name, safe='')}", change)

    # --- toxics ----------------------------------------------------------------------------------------------

    def add(self, proxy: str, toxic: Toxic, name: str | None = None) -> str:
        """Have it work on old and new connections alike; its name, by default made of its type and stream."""
        described = self._ask("POST", self._toxics_of(proxy), {"name": name or "", **toxic.described()})
        assert isinstance(described, Mapping)
        return str(described["name"])

    def update(self, proxy: str, name: str, toxic: Toxic) -> None:
        """Change the attributes of a toxic of the same type; its stream stays."""
        wanted = toxic.described()
        self._ask("POST", self._toxics_of(proxy, name), {each: wanted[each] for each in ("toxicity", "attributes")})

    def remove(self, proxy: str, name: str) -> None:
        """Remove a toxic; bytes that it has held back are sent, unless it drops them."""
        self._ask("DELETE", self._toxics_of(proxy, name))

    def _toxics_of(self, proxy: str, toxic: str | None = None) -> str:
        path = f"/proxies/{quote(proxy, safe='')}/toxics"
        return path if toxic is None else f"{path}/{quote(toxic, safe='')}"

    # --- HTTP ------------------------------------------------------------------------------------------------

    def _ask(self, method: str, path: str, body: Json = None) -> Json:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ToxiproxyError(f"toxiproxy at {self._host}:{self._port} does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status >= http.client.BAD_REQUEST:
            raise ToxiproxyError(reason(text) or answer.reason, answer.status)
        return cast("Json", json.loads(text)) if text else None


def reason(text: bytes) -> str:
    """Toxiproxy's words in an answer that refuses."""
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text.decode(errors="replace").strip()
