"""Who gets which partition: pure functions, found by the names that groups agree on.

`resolve` and `rebalance_protocol` are called once by each consumer, with its `partition_assignment_strategy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import cast

from kwire.assignors.base import Assignor, MemberSubscription, Plan, RebalanceProtocol
from kwire.assignors.cooperative_sticky import CooperativeStickyAssignor
from kwire.assignors.plans import check_plan
from kwire.assignors.range import RangeAssignor
from kwire.assignors.roundrobin import RoundRobinAssignor
from kwire.assignors.sticky import StickyAssignor
from kwire.config.strategy import NamedAssignor
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
ASSIGNORS: Mapping[str, Assignor] = MappingProxyType({assignor.name: assignor for assignor in _ALL})


def resolve(strategy: Iterable[str | NamedAssignor]) -> tuple[Assignor, ...]:
    """The assignors of these names, in order of preference; assignors of the user's own stay what they are.

    Raises:
        ConfigError: there is none of that name, or they share no rebalance protocol.
    """
    found = tuple(map(_find, strategy))
    rebalance_protocol(found)
    return found


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


def _find(one: str | NamedAssignor) -> Assignor:
    if not isinstance(one, str):
        return _own(one)
    try:
        return ASSIGNORS[one]
    except KeyError:
        known = ", ".join(map(repr, ASSIGNORS))
        raise ConfigError(f"there is no assignor {one!r}; valid for partition_assignment_strategy: {known}") from None


def _own(one: NamedAssignor) -> Assignor:
    missing = [name for name in ("protocols", "subscription_user_data", "assign") if not hasattr(one, name)]
    if missing:
        raise ConfigError(f"{one!r} is no assignor: it has no {', '.join(missing)}; derive it from kwire's Assignor")
    return cast("Assignor", one)
