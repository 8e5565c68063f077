"""What both group protocols share: who this member is, and the timer of `max_poll_interval_ms` (KIP-62)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

NO_GENERATION = -1
NO_MEMBER_ID = ""


class GroupIdentity(NamedTuple):
    """What every request to the coordinator carries. Generation -1 and no member id: not a member (assign-only)."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None

    @property
    def is_member(self) -> bool:
        return self.generation_id != NO_GENERATION


Identify: TypeAlias = Callable[[], GroupIdentity]
"""Asks for the identity at the moment a request is made: the generation may have changed since it was wanted."""


class PollTimer:
    """Whether the application still polls. The last poll's time is read, not sent, so polling costs no hop."""

    def __init__(self, max_poll_interval_ms: float, polled_at_ms: Callable[[], float]) -> None:
        self._max_poll_interval_ms = max_poll_interval_ms
        self._polled_at_ms = polled_at_ms

    def expires_at_ms(self) -> float:
        return self._polled_at_ms() + self._max_poll_interval_ms

    def expired(self, now_ms: float) -> bool:
        return now_ms >= self.expires_at_ms()
