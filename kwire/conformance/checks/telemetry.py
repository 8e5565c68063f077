"""Client telemetry (KIP-714): brokers offer it where they have a receiver for it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from kwire.conformance.expectations import expect, expect_error, expect_ok
from kwire.conformance.registry import check
from kwire.model import ZERO_UUID
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.protocol.messages.push_telemetry import PushTelemetryRequest

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker


@check(GetTelemetrySubscriptionsRequest)
def gives_a_client_an_id(broker: JudgedBroker, version: int) -> None:
    answer = broker.ask(GetTelemetrySubscriptionsRequest(), version)
    expect_ok(answer.error_code, "GetTelemetrySubscriptions")
    expect(answer.client_instance_id != ZERO_UUID, "the client got no id")
    expect(answer.push_interval_ms > 0, f"the interval is {answer.push_interval_ms} ms")
    known = broker.ask(GetTelemetrySubscriptionsRequest(client_instance_id=uuid4()), version)
    expect_ok(known.error_code, "GetTelemetrySubscriptions with an id")


@check(PushTelemetryRequest, needs=[GetTelemetrySubscriptionsRequest])
def refuses_metrics_of_another_subscription(broker: JudgedBroker, version: int) -> None:
    subscription = broker.ask(GetTelemetrySubscriptionsRequest())
    expect_ok(subscription.error_code, "GetTelemetrySubscriptions")
    request = PushTelemetryRequest(
        client_instance_id=subscription.client_instance_id, subscription_id=subscription.subscription_id + 1
    )
    code = broker.ask(request, version).error_code
    expect_error(code, ErrorCode.UNKNOWN_SUBSCRIPTION_ID, what="metrics of another subscription")
