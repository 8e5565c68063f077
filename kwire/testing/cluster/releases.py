"""Releases: the APIs and versions that the cluster offers, as Kafka 4.4.0 or as an older release.

The cluster offers the versions that the release has, kwire's messages can encode, and a handler answers. ApiVersions
lists it, and `requests` refuses everything else as Kafka does. An older release is emulated by its versions and
features only, not by other behaviour of its brokers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.errors import InvalidArgumentError
from kwire.protocol.registry import ApiRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kwire.protocol.schema import Message, Request


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A release of Apache Kafka.

    `max_versions` is the newest version of each stable API, by API key; `features` are (name, oldest, newest) of what
    the cluster supports, and has agreed on in the newest version (KIP-584).
    """

    name: str
    max_versions: Mapping[int, int]
    features: tuple[tuple[str, int, int], ...] = ()


# fmt: off
_V2_4 = {
    0: 8, 1: 11, 2: 5, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5, 16: 3, 17: 1, 18: 3, 19: 5, 20: 4,
    21: 1, 22: 2, 23: 3, 24: 1, 25: 1, 26: 1, 28: 2, 32: 2, 36: 1, 37: 1, 42: 2, 47: 0,
}
_V2_8 = _V2_4 | {
    0: 9, 1: 12, 2: 6, 3: 11, 9: 7, 11: 7, 14: 5, 16: 4, 19: 7, 20: 6, 21: 2, 22: 4, 23: 4, 24: 3, 25: 3, 26: 3, 28: 3,
    32: 4, 36: 2, 37: 3, 60: 0, 61: 0,
}
_V3_3 = _V2_8 | {1: 13, 2: 7, 3: 12, 9: 8, 10: 4, 11: 9, 13: 5, 65: 0, 66: 0}
_V3_6 = _V3_3 | {1: 15, 2: 8, 24: 4}
_V3_9 = _V3_6 | {
    0: 11, 1: 17, 2: 9, 8: 9, 9: 9, 10: 6, 16: 5, 18: 4, 22: 5, 24: 5, 25: 4, 26: 4, 28: 4, 60: 1, 66: 1,
    71: 0, 72: 0, 75: 0,
}
_V4_3 = _V3_9 | {
    0: 13, 1: 18, 2: 11, 3: 13, 8: 10, 9: 10, 15: 6, 26: 5, 28: 5, 60: 2, 66: 2, 68: 1, 69: 1,
}
_V4_4 = _V4_3 | {18: 5, 28: 6, 42: 3}
# fmt: on


def _features_of_4(metadata_version: int) -> tuple[tuple[str, int, int], ...]:
    return (
        ("group.version", 0, 1),
        ("kraft.version", 0, 1),
        ("metadata.version", 7, metadata_version),
        ("transaction.version", 0, 2),
    )


LATEST = Release("4.4", _V4_4, _features_of_4(33))

RELEASES: Mapping[str, Release] = {
    release.name: release
    for release in (
        Release("2.4", _V2_4),
        Release("2.8", _V2_8),
        Release("3.3", _V3_3, (("metadata.version", 1, 7),)),
        Release("3.6", _V3_6, (("metadata.version", 1, 14),)),
        Release("3.9", _V3_9, (("kraft.version", 0, 1), ("metadata.version", 1, 21))),
        Release("4.3", _V4_3, _features_of_4(30)),
        LATEST,
    )
}
"""All releases by name. 2.4 to 3.6 are their last patch releases, 3.9 is its first; preview APIs are left out, as by
default."""


def release_named(name: str) -> Release:
    """The release of this name; patch numbers are ignored, so "4.3.1" is "4.3".

    Raises:
        InvalidArgumentError: There is no release of this name.
    """
    found = RELEASES.get(".".join(name.split(".")[:2]))
    if found is None:
        raise InvalidArgumentError(f"the cluster cannot be Kafka {name!r}, but any of {', '.join(RELEASES)}")
    return found


def offered_versions(release: Release, requests: Iterable[type[Request[Message]]]) -> dict[int, ApiRange]:
    """The versions that both the release and these messages have, by API key, in order."""
    found: dict[int, ApiRange] = {}
    for request in sorted(requests, key=lambda each: each.api_key):
        newest = min(request.max_version, release.max_versions.get(request.api_key, -1))
        if newest >= request.min_version:
            found[request.api_key] = ApiRange(request.min_version, newest)
    return found
