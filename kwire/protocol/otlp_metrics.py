"""OpenTelemetry's `MetricsData`, as bytes: the few messages of its protobuf form that a consumer's metrics need.

Written here instead of by `opentelemetry-proto`: five kinds of nested messages with strings, doubles and times need
sixty lines. That package brings protobuf along, whose version applications often pin, and pushing metrics must not
depend on what is installed. Tests read these bytes with its classes. Field numbers are those of
opentelemetry/proto/metrics/v1/metrics.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from kwire.protocol.encoder import unsigned_varint

_VARINT, _FIXED64, _BYTES = 0, 1, 2


class Temporality(IntEnum):
    """From when on a total counts."""

    DELTA = 1
    """From the last push on."""
    CUMULATIVE = 2
    """From the beginning on."""


class Point(NamedTuple):
    """One number of one metric.

    Attributes:
        attributes: The labels: which topic or partition it is of, for one.
        started_ns: Of a total: since when it counts. Times are since the epoch.
        temporality: Of a total; None for a number that goes up and down.
    """

    name: str
    attributes: Mapping[str, str]
    value: float
    time_ns: int
    started_ns: int = 0
    temporality: Temporality | None = None


def metrics_data(resource: Mapping[str, str], scope: tuple[str, str], points: Iterable[Point]) -> bytes:
    """All points as metrics of one resource.

    Args:
        resource: What the points are of, all of them.
        scope: The name and version of what has counted them.
    """
    name, version = scope
    scope_metrics = _sub(1, _text(1, name) + _text(2, version)) + b"".join(_sub(2, _metric(each)) for each in points)
    return _sub(1, _sub(1, _attributes(1, resource)) + _sub(2, scope_metrics))


def _metric(point: Point) -> bytes:
    started = _fixed(2, struct.pack("<Q", point.started_ns)) if point.temporality is not None else b""
    time = _fixed(3, struct.pack("<Q", point.time_ns))
    number = _fixed(4, struct.pack("<d", point.value))
    data = _sub(1, _attributes(7, point.attributes) + started + time + number)
    if point.temporality is None:
        return _text(1, point.name) + _sub(5, data)  # a Gauge
    is_monotonic = 1
    return _text(1, point.name) + _sub(7, data + _number(2, point.temporality) + _number(3, is_monotonic))  # a Sum


def _attributes(field: int, words: Mapping[str, str]) -> bytes:
    """Pairs of a key and an `AnyValue`, which is a text here."""
    return b"".join(_sub(field, _text(1, key) + _sub(2, _text(1, value))) for key, value in words.items())


def _text(field: int, text: str) -> bytes:
    return _sub(field, text.encode())


def _sub(field: int, content: bytes) -> bytes:
    """A message within another, or a text: its length, then itself."""
    return _key(field, _BYTES) + unsigned_varint(len(content)) + content


def _fixed(field: int, eight_bytes: bytes) -> bytes:
    return _key(field, _FIXED64) + eight_bytes


def _number(field: int, value: int) -> bytes:
    return _key(field, _VARINT) + unsigned_varint(value)


def _key(field: int, kind: int) -> bytes:
    return unsigned_varint(field << 3 | kind)
