"""The processes that send: a ledger does not name its producers, so there are as many as its order asks for."""

from __future__ import annotations

FIRST_PRODUCER = 1_000_000


class Producers:
    """Producers, each with one `send` at a time, and each with growing offsets in a partition.

    Attributes:
        under_way: who sends which value.
    """

    def __init__(self) -> None:
        self.under_way: dict[str, int] = {}
        self._busy: set[int] = set()
        self._furthest: list[dict[int, int]] = [{}]  # of the first, which only ever fails, nothing

    def begin(self, value: str, key: int, offset: int) -> int:
        """Its producer from now on, until `end`."""
        process = self.free(key, offset)
        self.under_way[value] = process
        self._busy.add(process)
        return process

    def free(self, key: int, offset: int) -> int:
        """One that has nothing under way, and has sent nothing at or behind this offset."""
        for number, furthest in enumerate(self._furthest[1:], 1):
            if FIRST_PRODUCER + number not in self._busy and furthest.get(key, -1) < offset:
                return FIRST_PRODUCER + number
        self._furthest.append({})
        return FIRST_PRODUCER + len(self._furthest) - 1

    def end(self, process: int, key: int, offset: int) -> None:
        self._busy.discard(process)
        self._furthest[process - FIRST_PRODUCER][key] = offset
