"""Why an assigned partition stands still, beside its state: holds, and what each of them keeps back."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto
from typing import NamedTuple


class Hold(Enum):
    """A reason to fetch or deliver nothing of a partition. A partition may have several; each ends by itself."""

    USER_PAUSED = auto()
    """`pause()` was called, and `resume()` was not."""
    CALLBACK_PENDING = auto()
    """A rebalance callback has to run first, or the partition is being revoked."""
    BACKPRESSURE = auto()
    """The application has enough of what this cursor reads; another cursor may go on."""
    LAG_UNKNOWN = auto()
    """The position is known; how far it is behind the end of the log, which decides where to begin, is not."""
    LOG_TRUNCATED = auto()
    """Some of what is buffered is no longer in the log. How much is settled when the application comes back."""
    RANGE_CUT = auto()
    """Another cursor reads the rest of the range. Where this one ends is settled when the application comes back."""


class HoldFacts(NamedTuple):
    """What a hold does.

    Attributes:
        reason: Why nothing comes, in words for people.
        blocks_fetch: Whether nothing is fetched.
        blocks_delivery: Whether what is buffered waits.
        is_shown_as_paused: Whether `paused()` names the partition.
        ends_with_epoch: Whether a new assignment epoch (a seek, a reset) ends it.
    """

    reason: str
    blocks_fetch: bool
    blocks_delivery: bool
    is_shown_as_paused: bool = False
    ends_with_epoch: bool = False


HOLD_FACTS = {
    Hold.USER_PAUSED: HoldFacts("paused by the user", True, True, is_shown_as_paused=True),
    Hold.CALLBACK_PENDING: HoldFacts("waits for a rebalance callback, or is being revoked", True, True),
    Hold.BACKPRESSURE: HoldFacts("enough of it waits for the application", True, True),
    Hold.LAG_UNKNOWN: HoldFacts("its distance from the end of the log is looked up", True, False),
    Hold.LOG_TRUNCATED: HoldFacts("its log was truncated; some of it is buffered", False, True, ends_with_epoch=True),
    Hold.RANGE_CUT: HoldFacts("another cursor reads the rest of its range", False, True, ends_with_epoch=True),
}


def _with(fact: str) -> frozenset[Hold]:
    return frozenset(hold for hold, facts in HOLD_FACTS.items() if getattr(facts, fact))


BLOCKS_FETCH = _with("blocks_fetch")
BLOCKS_DELIVERY = _with("blocks_delivery")
SHOWN_AS_PAUSED = _with("is_shown_as_paused")
ENDS_WITH_EPOCH = _with("ends_with_epoch")


def reasons(holds: Collection[Hold]) -> list[str]:
    """The reasons of these holds, in words."""
    return [HOLD_FACTS[hold].reason for hold in Hold if hold in holds]
