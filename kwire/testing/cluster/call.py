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
    """One request's surroundings, as its handler sees them."""

    cluster: ClusterState

    def may(self, operation: Operation, name: str, resource: Resource = Resource.TOPIC) -> bool:
        """Whether the client may do that with a topic of that name, or another resource, be there one or not."""
        return self.cluster.access.allows(self.principal, operation, resource, name)

    def group_error(self, group_id: str, operation: Operation = Operation.READ) -> ErrorCode:
        """Why the client may not do that with the group, at least not here: like Kafka, permission comes first."""
        if not self.may(operation, group_id, Resource.GROUP):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        return self.cluster.group_error(group_id, self.broker)

    def transaction_error(self, transactional_id: str, operation: Operation = Operation.WRITE) -> ErrorCode:
        """The same for a transactional id."""
        if not self.may(operation, transactional_id, Resource.TRANSACTIONAL_ID):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return self.cluster.transaction_error(transactional_id, self.broker)
