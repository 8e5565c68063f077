"""DescribeCluster: the brokers, also those that do not run if they are asked for (KIP-700, KIP-1073)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kwire.testing.cluster.handlers.metadata import EVERY_CLUSTER_OPERATION, NOT_ASKED_FOR

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call

BROKERS, CONTROLLERS = 1, 2


async def handle(request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    """A broker's answer: it is no controller (KIP-919)."""
    if request.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
            "CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        message = f"Unsupported endpoint type {request.endpoint_type}"
        return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=message)
    running = call.cluster.running()
    shown = list(call.cluster.brokers.values()) if request.include_fenced_brokers else running
    wants_operations = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=call.cluster.cluster_id,
        controller_id=running[0].node_id if running else -1,
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.node_id,
                host=broker.host,
                port=broker.port,
                rack=broker.rack,
                is_fenced=not broker.is_active,
            )
            for broker in shown
        ],
        cluster_authorized_operations=EVERY_CLUSTER_OPERATION if wants_operations else NOT_ASKED_FOR,
    )
