"""The state of a group by its members' lines, and when a rebalance is over. Pure. Used by `group.py`.

A rebalance is over when every partition has one owner, all members that are there own the same number, and each
partition gave a record to its owner: after that owner got it last, and after the event that is being timed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple


class Line(NamedTuple):
    """A line of a member; see `member.py`."""

    kind: str
    at_ns: int
    partitions: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Line:
        kind, at_ns, partitions = text.removesuffix("\n").split(" ")
        return cls(kind, int(at_ns), tuple(int(number) for number in partitions.split(",") if number))


class Ledger:
    """Who owns which partitions of a group, since when, and which member has read from them since.

    Args:
        partitions: How many there are; a multiple of every size the group will have.
    """

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._owned: dict[str, set[int]] = {}
        self._assigned_ns: dict[tuple[str, int], int] = {}
        self._progress_ns: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        self._began_ns: int | None = None
        self._starter: tuple[str, str] | None = None

    # --- what happens ---------------------------------------------------------------------------------------

    def enter(self, member: str) -> None:
        self._owned[member] = set()

    def leave(self, member: str) -> None:
        del self._owned[member]

    def begin_at(self, at_ns: int) -> None:
        """Time an event that began then."""
        self._forget_progress()
        self._began_ns = at_ns

    def begin_with(self, member: str, kind: str) -> None:
        """Time an event that begins when that member says so."""
        self._forget_progress()
        self._starter = member, kind

    def _forget_progress(self) -> None:
        self._progress_ns.clear()
        self._began_ns = self._starter = None

    def hear(self, member: str, line: Line) -> None:
        if self._starter == (member, line.kind):
            self._began_ns = line.at_ns
        if member not in self._owned:
            return  # it is on its way out
        if line.kind == "assigned":
            self._owned[member].update(line.partitions)
            self._assigned_ns.update(dict.fromkeys(((member, number) for number in line.partitions), line.at_ns))
        elif line.kind == "revoked":
            self._owned[member].difference_update(line.partitions)
        elif line.kind == "progress":
            for number in line.partitions:
                self._progress_ns[member, number].append(line.at_ns)

    # --- what that comes to ---------------------------------------------------------------------------------

    @property
    def began_ns(self) -> int | None:
        """When the event that is timed began; None if it has not."""
        return self._began_ns

    @property
    def is_balanced(self) -> bool:
        owners = Counter(number for owned in self._owned.values() for number in owned)
        shares = {len(owned) for owned in self._owned.values()}
        return len(shares) == 1 and len(owners) == self._partitions and set(owners.values()) == {1}

    def took_ns(self) -> int | None:
        """How long the event took, once it is over."""
        began_ns = self._began_ns
        if began_ns is None or not self.is_balanced:
            return None
        firsts = [self._first_progress_ns(member, number, began_ns) for member, number in self._pairs()]
        known = [first for first in firsts if first is not None]
        return max(known) - began_ns if len(known) == len(firsts) else None

    def _first_progress_ns(self, member: str, number: int, began_ns: int) -> int | None:
        since_ns = max(began_ns, self._assigned_ns[member, number])
        return next((at_ns for at_ns in self._progress_ns[member, number] if at_ns >= since_ns), None)

    def last_assigned_ns(self) -> int:
        """When the newest of the present owners got its partitions."""
        return max(self._assigned_ns[pair] for pair in self._pairs())

    def describe(self) -> str:
        """For the message when it never ends."""
        began_ns = self._began_ns
        if began_ns is None:
            return "it has not begun"
        owned = ", ".join(f"{member} owns {sorted(numbers)}" for member, numbers in self._owned.items())
        silent = [n for m, n in self._pairs() if self._first_progress_ns(m, n, began_ns) is None]
        return f"{owned}; no progress of {silent}"

    def _pairs(self) -> list[tuple[str, int]]:
        return [(member, number) for member, owned in self._owned.items() for number in sorted(owned)]
