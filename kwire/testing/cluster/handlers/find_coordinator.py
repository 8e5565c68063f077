"""FindCoordinator: the coordinator of a group or a transactional id; one key, or many at once (KIP-699)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kwire.testing.cluster.access import Operation, Resource
from kwire.testing.cluster.coordinators import KeyType

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call

MANY_FROM = 4
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
_MESSAGES = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
_RESOURCES = {
    KeyType.GROUP: (Resource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    KeyType.TRANSACTION: (Resource.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}


async def handle(request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    """The current coordinators; any broker knows them."""
    if call.version >= MANY_FROM:
        return FindCoordinatorResponse(
            coordinators=[_find(request.key_type, key, call) for key in request.coordinator_keys]
        )
    found = _find(request.key_type, request.key, call)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or _MESSAGES[ErrorCode.of(found.error_code)],
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(key_type: int, key: str, call: Call) -> Coordinator:
    if key_type not in (KeyType.GROUP, KeyType.TRANSACTION):
        return _nobody(key, ErrorCode.INVALID_REQUEST, MALFORMED)
    resource, forbidden = _RESOURCES[KeyType(key_type)]
    if not call.may(Operation.DESCRIBE, key, resource):
        return _nobody(key, forbidden, "")
    broker = call.cluster.coordinators.of(KeyType(key_type), key, call.cluster.now_ms())
    if broker is None:
        return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    return Coordinator(key=key, node_id=broker.node_id, host=broker.host, port=broker.port)


def _nobody(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message)
