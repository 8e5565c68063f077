"""Client telemetry (KIP-714): the subscription, and the metrics that clients have pushed. Brokers offer the two APIs
only if a test wants metrics, as Kafka's brokers do only with a plug-in that receives them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from kwire.model import ZERO_UUID
from kwire.protocol.compression import decompress
from kwire.protocol.deflation import CODECS
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.protocol.messages.push_telemetry import PushTelemetryRequest

TELEMETRY_KEYS = frozenset({GetTelemetrySubscriptionsRequest.api_key, PushTelemetryRequest.api_key})
DEFAULT_INTERVAL_MS = 300_000
DEFAULT_CODECS = (4, 3, 1, 2)  # zstd, lz4, gzip, snappy: the preference of Kafka's brokers
DEFAULT_MAX_BYTES = 1_048_576


class PushedMetrics(NamedTuple):
    """The metrics that a client has pushed once.

    Attributes:
        codec: The codec that they were compressed with.
        payload: OpenTelemetry's MetricsData, decompressed.
    """

    client_id: str
    client_instance_id: UUID
    is_last: bool
    codec: int
    payload: bytes


@dataclass(slots=True)
class MetricsSubscription:
    """The metrics that every client is to push."""

    prefixes: Sequence[str]
    interval_ms: int
    codecs: Sequence[int]
    as_deltas: bool
    max_bytes: int
    pushed: list[PushedMetrics] = field(default_factory=list)
    _pushed_at_ms: dict[UUID, float] = field(default_factory=dict)

    @property
    def id(self) -> int:
        """The id of the subscription; another subscription has another id."""
        wishes = (tuple(self.prefixes), self.interval_ms, tuple(self.codecs), self.as_deltas, self.max_bytes)
        return zlib.crc32(repr(wishes).encode()) & 0x7FFFFFFF

    def take(self, request: PushTelemetryRequest, client_id: str, now_ms: float) -> ErrorCode:
        """Keep the metrics that were pushed, or answer an error; the checks are in Kafka's order."""
        if request.client_instance_id == ZERO_UUID:
            return ErrorCode.INVALID_REQUEST
        if request.subscription_id != self.id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        before_ms = self._pushed_at_ms.get(request.client_instance_id)
        if before_ms is not None and now_ms - before_ms < self.interval_ms and not request.terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if request.compression_type not in CODECS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(request.metrics) > self.max_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        self._pushed_at_ms[request.client_instance_id] = now_ms
        payload = bytes(decompress(request.compression_type, bytes(request.metrics)))
        instance, codec = request.client_instance_id, request.compression_type
        self.pushed.append(PushedMetrics(client_id, instance, request.terminating, codec, payload))
        return ErrorCode.NONE
