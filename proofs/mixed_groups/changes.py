"""Who joins, leaves and dies in a mixed group, and when: decided beforehand, from a seed.

`prove.py` carries the changes out. The order is a chain of reigns: a member that is alone leads the group
(classic protocol: it assigns for everybody) until it goes; the next reign is another client's. So each kind of client
leads for a while, joins a group led by each other kind, and sees leaders leave and die.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import count, cycle, islice
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proofs.mixed_groups.members import Kind

KILL_SHARE = 0.35  # of those that go
HASTE_SHARE = 0.2  # of the changes are not waited for: the next one meets a group that is still rebalancing


class Action(Enum):
    """What happens to a member."""

    JOIN = "join"
    LEAVE = "leave"  # SIGTERM: it closes in order
    KILL = "kill"  # SIGKILL: the group learns of it by the session timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One member comes or goes; `hasty` means that the next change does not wait until the group has settled."""

    action: Action
    member: str
    kind: Kind
    hasty: bool = False

    def __str__(self) -> str:
        return f"{self.action.value} {self.member}{' (hasty)' if self.hasty else ''}"


def changes(kinds: Sequence[Kind], wanted: int, seed: int) -> list[Change]:
    """`wanted` changes of a group that starts empty; the last of them is not hasty."""
    found = list(islice(_reigns(kinds, Random(seed)), wanted))
    last = found.pop()
    return [*found, Change(action=last.action, member=last.member, kind=last.kind)]


def _reigns(kinds: Sequence[Kind], chance: Random) -> Iterator[Change]:
    numbers = count()
    kings = cycle(chance.sample(list(kinds), len(kinds)))

    def join(kind: Kind, *, hasty: bool = False) -> Change:
        return Change(action=Action.JOIN, member=f"{kind.value}-{next(numbers)}", kind=kind, hasty=hasty)

    king = join(next(kings))
    yield king
    while True:
        heir_kind = next(kings)
        others = [kind for kind in kinds if kind not in (king.kind, heir_kind)]
        court = [join(kind, hasty=_hasty(chance)) for kind in (heir_kind, *others, chance.choice(kinds))]
        yield from court
        heir, *rest = court
        leaving = chance.sample(rest, len(rest))
        leaving.insert(chance.randint(1, len(leaving)), king)  # somebody goes while the king still leads
        for member in leaving:
            yield _going(member, chance)
        king = heir


def _going(member: Change, chance: Random) -> Change:
    action = Action.KILL if chance.random() < KILL_SHARE else Action.LEAVE
    return Change(action=action, member=member.member, kind=member.kind, hasty=_hasty(chance))


def _hasty(chance: Random) -> bool:
    return chance.random() < HASTE_SHARE
