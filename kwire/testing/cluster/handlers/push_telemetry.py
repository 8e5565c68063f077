"""PushTelemetry: the metrics of a client (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call


async def handle(request: PushTelemetryRequest, call: Call) -> PushTelemetryResponse:
    """Whether they were taken."""
    wanted = call.cluster.metrics_subscription
    if wanted is None:
        return PushTelemetryResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return PushTelemetryResponse(error_code=wanted.take(request, call.client_id, call.cluster.now_ms()))
