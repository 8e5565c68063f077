"""Events of user code: where it has raised, and which records are given up because of that."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCodeRaised:
    """Code of the user's raised inside a call of a member: a deserializer, a listener, a callback, a signal handler.

    Args:
        place: which code.
        value: the record it was given; empty if it was given none.
    """

    at_ms: float
    member: str
    place: str
    error: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """This record need not be handled any more: a user has decided so, by a policy, or by seeking behind it.

    Args:
        how: "seek" or "skip".
        processor: the number of the member's processor, if one does it.
    """

    at_ms: float
    member: str
    value: str
    how: str
    processor: int = 0
