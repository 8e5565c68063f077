"""The handlers of requests: one module for each API.

Each module has one public `async def handle(request: XRequest, call: Call) -> XResponse`; an API is offered if its
module exists. A handler that answers None sends nothing (Produce with acks=0). Errors of the protocol are part of the
answer; an exception is a bug of the cluster, and the connection tells the test.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, cast, get_type_hints

from kwire.protocol.schema import Message, Request
from kwire.testing.cluster.releases import offered_versions
from kwire.testing.cluster.telemetry import TELEMETRY_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.protocol.registry import ApiRange
    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.releases import Release
    from kwire.testing.cluster.state import ClusterState

    Handler = Callable[[Request[Message], Call], Awaitable[Message | None]]


@cache
def handlers() -> Mapping[type[Request[Message]], Handler]:
    """All handlers by type of request; imported at the first call."""
    modules = sorted(info.name for info in iter_modules(__path__))
    handles = (import_module(f"{__name__}.{name}").handle for name in modules)
    return {_request_of(handle): cast("Handler", handle) for handle in handles}


@cache
def offered(release: Release) -> Mapping[int, ApiRange]:
    """The versions of each API that brokers of that release speak, by API key."""
    return offered_versions(release, handlers())


def offered_by(cluster: ClusterState) -> Mapping[int, ApiRange]:
    """The versions that a cluster offers: as with Kafka, telemetry only if metrics are wanted (KIP-714)."""
    ranges = offered(cluster.release)
    if cluster.metrics_subscription is not None:
        return ranges
    return {key: versions for key, versions in ranges.items() if key not in TELEMETRY_KEYS}


def _request_of(handle: Callable[..., object]) -> type[Request[Message]]:
    """The type of the first parameter."""
    name = next(iter(handle.__annotations__))
    module_names = handle.__globals__
    return cast("type[Request[Message]]", get_type_hints(handle, module_names, {"Call": object})[name])
