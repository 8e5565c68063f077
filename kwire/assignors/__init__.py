"""Who gets which partition: pure functions, found by the names that groups agree on.

`resolve` is called once by each consumer, with its `partition_assignment_strategy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from kwire.assignors.base import Assignor, MemberSubscription
from kwire.assignors.range import RangeAssignor
from kwire.errors import ConfigError

__all__ = ["ASSIGNORS", "Assignor", "MemberSubscription", "RangeAssignor", "resolve"]

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType({assignor.name: assignor for assignor in (RangeAssignor(),)})


def resolve(names: Iterable[str]) -> tuple[Assignor, ...]:
    """The assignors of these names, in order of preference.

    Raises:
        ConfigError: there is none of that name.
    """
    return tuple(map(_find, names))


def _find(name: str) -> Assignor:
    try:
        return ASSIGNORS[name]
    except KeyError:
        known = ", ".join(map(repr, ASSIGNORS))
        raise ConfigError(f"there is no assignor {name!r}; valid for partition_assignment_strategy: {known}") from None
