"""GetTelemetrySubscriptions (key 71): which metrics the broker wants of this client (KIP-714)."""

from __future__ import annotations

from kwire.model import ZERO_UUID
from kwire.protocol.schema import Array, Bool, Int8, Int16, Int32, Request, Response, String, Uuid, field


class GetTelemetrySubscriptionsRequest(
    Request["GetTelemetrySubscriptionsResponse"], key=71, versions="0", flexible="0+"
):
    """Who is asking; the zero id asks for a new one."""

    client_instance_id: Uuid = ZERO_UUID


class GetTelemetrySubscriptionsResponse(Response, to=GetTelemetrySubscriptionsRequest):
    """The metrics, how often, and in which form."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: Array[Int8] = field(default=[])
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False
    requested_metrics: Array[String] = field(default=[])
