"""A request that is not sent yet, with the handlers of its answer: what managers give the network client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from kwire.clock import NEVER_MS
from kwire.errors import KafkaError
from kwire.model import Node
from kwire.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)


class Channel(Enum):
    """A broker answers one request of a connection at a time, so what must not wait has a connection of its own."""

    CONTROL = auto()
    """Metadata, offsets, coordinator look-ups."""
    COORDINATOR = auto()
    """Heartbeats and commits: never behind a fetch. Joins block it, and heartbeats pause for them."""
    FETCH = auto()
    """Long polls of up to `fetch_max_wait_ms`."""
    SECOND_FETCH = auto()
    """The same, for half of the partitions: one answer is sent while another is read, see `managers.second_fetch`."""
    IDLE_FETCH = auto()
    """The same, for partitions without new records: the others must not wait for them."""
    NEW_FETCH = auto()
    """The same, for partitions that were sought or resumed while a fetch of others waits for records."""
    CHILD_FETCH = auto()
    """Fetches of a backlog. There are records, so they are answered at once; behind a long poll they would wait."""

    # Each is one object. An enum's own hash is that of its name, which Python code looks up each time.
    __hash__ = object.__hash__


class Destination(NamedTuple):
    """A broker, or None for whichever is the least busy."""

    node: Node | None
    channel: Channel


ANY_NODE = Destination(None, Channel.CONTROL)


@dataclass(slots=True, kw_only=True, eq=False)
class UnsentRequest(Generic[R]):
    """A request on its way out. Exactly one of the two handlers is called, exactly once, in a later turn of the loop.

    Attributes:
        request: The message; fields that the negotiated version lacks are left out.
        for_version: Makes the message for a version, for the APIs that changed their shape. None: `request` as it is.
        on_answer: Called with the decoded answer and the time.
        on_failure: Called when there will be no answer: disconnected, timed out, version not offered.
        on_arrival: Called in front of `on_answer` with how long the answer took to come in, in ms: from the first read
            that brought some of it to the last.
        min_version, max_version: Narrow the negotiated version where the meaning of the request needs it.
        timeout_ms: From now until the answer; None for `request_timeout_ms`.
        only_behind_its_kind: Not sent while its connection waits for the answer to a request of another kind. Requests
            that are made later wait behind it. A broker reads a request when it has answered the one before.
    """

    request: Request[R]
    destination: Destination
    on_answer: Callable[[R, float], None]
    on_failure: Callable[[KafkaError, float], None]
    on_arrival: Callable[[float], None] | None = None
    for_version: Callable[[int], Request[R]] | None = None
    min_version: int | None = None
    max_version: int | None = None
    timeout_ms: float | None = None
    only_behind_its_kind: bool = False

    def __repr__(self) -> str:
        node = self.destination.node
        return f"<{type(self.request).__name__} to {node or 'any broker'}>"


AnyUnsentRequest: TypeAlias = UnsentRequest[Any]
"""A request whose kind of answer only its own handlers know."""


class PollResult(NamedTuple):
    """What a manager wants: requests to send, and when to be polled again if nothing happens before.

    The wait rule: `wake_at_ms` may be in the past only together with a request (KAFKA-20426 and its siblings were all
    managers that asked to be polled at once and had nothing to send).
    """

    requests: list[AnyUnsentRequest]
    wake_at_ms: float = NEVER_MS


NOTHING_TO_SEND = PollResult([], NEVER_MS)
