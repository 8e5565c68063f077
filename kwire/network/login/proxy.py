"""The proxy between this machine and login servers, if the environment names one: HTTPS_PROXY, NO_PROXY, or what the
system's settings say. TLS goes through it, end to end: it sees the name of the server, and no credentials."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from kwire.config import Secret
from kwire.network.login.failures import TokenRequestError

_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where it is, and what it wants to be told."""

    host: str
    port: int
    headers: dict[str, Secret] = field(default_factory=dict)


def proxy_of(host: str) -> Proxy | None:
    """The proxy for that server.

    Raises:
        TokenRequestError: one is named that cannot be used.
    """
    named = getproxies().get("https")
    if named is None or host in _LOCAL or proxy_bypass(host):
        return None
    try:
        return _proxy_at(urlsplit(named if "://" in named else f"http://{named}"))
    except ValueError:
        raise TokenRequestError(
            "HTTPS_PROXY names no proxy that kwire can use: write http://host:port", is_certain=True
        ) from None


def _proxy_at(url: SplitResult) -> Proxy:
    if url.hostname is None or url.scheme != "http":
        raise ValueError
    port = url.port or 80
    if url.username is None:
        return Proxy(url.hostname, port)
    user = f"{unquote(url.username)}:{unquote(url.password or '')}"
    header = Secret(f"Basic {base64.b64encode(user.encode()).decode()}")
    return Proxy(url.hostname, port, {"Proxy-Authorization": header})
