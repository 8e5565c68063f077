"""What a handler knows beside its request: the request's context, and the cluster. Made by `connection`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.testing.cluster.request_context import RequestContext

if TYPE_CHECKING:
    from kwire.testing.cluster.state import ClusterState


class ConnectionCutError(Exception):
    """Raised to have the connection closed instead of an answer sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(RequestContext):
    """One request's surroundings, as its handler sees them."""

    cluster: ClusterState
