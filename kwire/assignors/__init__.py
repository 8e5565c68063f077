"""Who gets which partition: pure functions, found by the names that groups agree on.

`resolve` and `rebalance_protocol` are called once by each consumer, with its `partition_assignment_strategy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from kwire.assignors.base import Assignor, MemberSubscription, Plan, RebalanceProtocol
from kwire.assignors.cooperative_sticky import CooperativeStickyAssignor
from kwire.assignors.plans import check_plan
from kwire.assignors.range import RangeAssignor
from kwire.assignors.roundrobin import RoundRobinAssignor
from kwire.assignors.sticky import StickyAssignor
from kwire.config.strategy import SUPPORTED
from kwire.errors import ConfigError

__all__ = [
    "ASSIGNORS",
    "Assignor",
    "MemberSubscription",
    "Plan",
    "RebalanceProtocol",
    "CooperativeStickyAssignor",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "check_plan",
    "rebalance_protocol",
    "resolve",
]

_ALL = (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
# Those that a consumer can be configured with.
ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {assignor.name: assignor for assignor in _ALL if assignor.name in SUPPORTED}
)


def resolve(names: Iterable[str]) -> tuple[Assignor, ...]:
    """The assignors of these names, in order of preference.

    Raises:
        ConfigError: there is none of that name.
    """
    return tuple(map(_find, names))


def rebalance_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """The best protocol that all the assignors can work with: the group may agree on any of them (KIP-429).

    Raises:
        ConfigError: they have none in common.
    """
    common = set(RebalanceProtocol).intersection(*(assignor.protocols for assignor in assignors))
    if not common:
        names = ", ".join(f"{assignor.name} ({_names(assignor.protocols)})" for assignor in assignors)
        raise ConfigError(f"these assignors share no rebalance protocol, so no group can use them together: {names}")
    return max(common)


def _names(protocols: Iterable[RebalanceProtocol]) -> str:
    return ", ".join(protocol.name.lower() for protocol in protocols)


def _find(name: str) -> Assignor:
    try:
        return ASSIGNORS[name]
    except KeyError:
        known = ", ".join(map(repr, ASSIGNORS))
        raise ConfigError(f"there is no assignor {name!r}; valid for partition_assignment_strategy: {known}") from None
