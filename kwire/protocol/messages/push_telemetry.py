"""PushTelemetry (key 72): the metrics the broker asked for, in OpenTelemetry's format (KIP-714)."""

from __future__ import annotations

from kwire.model import ZERO_UUID
from kwire.protocol.schema import Bool, Bytes, Int8, Int16, Int32, Request, Response, Uuid


class PushTelemetryRequest(Request["PushTelemetryResponse"], key=72, versions="0", flexible="0+"):
    """The metrics, and the subscription they answer."""

    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: Bool = False
    compression_type: Int8 = 0
    metrics: Bytes = b""


class PushTelemetryResponse(Response, to=PushTelemetryRequest):
    """Whether they were taken."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
