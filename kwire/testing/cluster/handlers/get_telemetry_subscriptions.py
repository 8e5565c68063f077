"""GetTelemetrySubscriptions: what somebody wants of a client's metrics, and an id for it (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.model import ZERO_UUID
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call


async def handle(request: GetTelemetrySubscriptionsRequest, call: Call) -> GetTelemetrySubscriptionsResponse:
    """The subscription, which is the same for every client."""
    wanted = call.cluster.metrics_subscription
    if wanted is None:
        return GetTelemetrySubscriptionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    given = request.client_instance_id
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=call.cluster.new_uuid() if given == ZERO_UUID else given,
        subscription_id=wanted.id,
        accepted_compression_types=list(wanted.codecs),
        push_interval_ms=wanted.interval_ms,
        telemetry_max_bytes=wanted.max_bytes,
        delta_temporality=wanted.as_deltas,
        requested_metrics=list(wanted.prefixes),
    )
