"""In which version each broker is asked ApiVersions first; one that hangs up on a version is asked in an older one.

KIP-511 wants a broker to answer error 35 to a version that it does not know. Some close the connection instead: Azure
Event Hubs on version 4. A broker that is just going down, or a proxy in front of one, does the same, so a closed
connection proves nothing, and nothing is concluded from it for good:

* A connection that ends in front of the answer makes the next one to that address ask in the next older version of
  `VERSIONS`, and behind the oldest in the newest again. Each of them is a dial of its own, after the usual back-off.
* The answer lists the versions of ApiVersions itself. A broker that offers none newer than it was asked in goes on to
  be asked in that one. One that offers a newer one was merely down, or has been upgraded: it is asked in that next.
* A broker that hangs up on the very version that it offers is asked in the older one for `PINNED_MS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.clock import NEVER_MS
from kwire.network.outages import MAX_ADDRESSES
from kwire.protocol.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from kwire.model import Node

NEWEST = ApiVersionsRequest.max_version
VERSIONS = (NEWEST, 3, 0)
"""Version 4 is left out: where 5 fails, 3 says all that 4 does but for features that start at 0."""

PINNED_MS = 3_600_000.0


@dataclass(slots=True)
class _Fallback:
    """In which version a broker that has hung up is asked next. `is_trusted`: the broker has offered this version."""

    version: int
    is_trusted: bool = False
    pinned_until_ms: float = NEVER_MS


class ApiVersionsFallback:
    """Remembers by address, as a broker's id is not known before it has answered."""

    def __init__(self) -> None:
        self._fallbacks: dict[tuple[str, int], _Fallback] = {}

    def version_for(self, node: Node, now_ms: float) -> int:
        """The version to ask in on a new connection."""
        fallback = self._fallbacks.get(node.address)
        if fallback is not None and now_ms >= fallback.pinned_until_ms:
            del self._fallbacks[node.address]
            fallback = None
        return NEWEST if fallback is None else fallback.version

    def closed_by(self, node: Node, version: int) -> None:
        """A connection ended while it waited for the answer in that version. Several may have been under way: the
        first of them counts."""
        fallback = self._fallbacks.setdefault(node.address, _Fallback(NEWEST))
        if len(self._fallbacks) > MAX_ADDRESSES:
            del self._fallbacks[next(iter(self._fallbacks))]
        if fallback.version == version:
            fallback.version = next((older for older in VERSIONS if older < version), NEWEST)

    def answered(self, node: Node, version: int, offered: int, now_ms: float) -> None:
        """The broker answered in that version, and offers ApiVersions up to another one."""
        fallback = self._fallbacks.get(node.address)
        if fallback is None or fallback.version != version:
            return  # nothing to remember, or an older connection
        if version == NEWEST:
            del self._fallbacks[node.address]
        elif offered <= version:
            fallback.is_trusted, fallback.pinned_until_ms = False, NEVER_MS
        elif not fallback.is_trusted:
            fallback.version, fallback.is_trusted = min(offered, NEWEST), True
        elif fallback.pinned_until_ms == NEVER_MS:
            fallback.pinned_until_ms = now_ms + PINNED_MS
