"""What a handler knows beside its request: the request's context, and the cluster. Made by `connection`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.testing.cluster.access import Operation, Resource
from kwire.testing.cluster.request_context import RequestContext

if TYPE_CHECKING:
    from kwire.testing.cluster.state import ClusterState


class ConnectionCutError(Exception):
    """Raised to have the connection closed instead of an answer sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(RequestContext):
    """One request's context, as its handler sees it."""

    cluster: ClusterState

    def may(self, operation: Operation, name: str, resource: Resource = Resource.TOPIC) -> bool:
        """Whether the client may do this operation on a topic of this name, or on another resource; it need not
        exist."""
        return self.cluster.access.allows(self.principal, operation, resource, name)

    def group_error(self, group_id: str, operation: Operation = Operation.READ) -> ErrorCode:
        """The error for an operation on a group: no permission, which Kafka checks first, or another coordinator."""
        if not self.may(operation, group_id, Resource.GROUP):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        return self.cluster.group_error(group_id, self.broker)

    def transaction_error(self, transactional_id: str, operation: Operation = Operation.WRITE) -> ErrorCode:
        """As `group_error`, for a transactional id."""
        if not self.may(operation, transactional_id, Resource.TRANSACTIONAL_ID):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return self.cluster.transaction_error(transactional_id, self.broker)
