"""Mutants that no test can tell from the code, each with the reason. They do not count.

Each entry names a function, a line of it by what stands there, and, where only one change of that line is meant, the
change. So it stays right when lines move; a test fails over one that fits no mutant any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tools.mutate.mutant import Mutant


class Argued(NamedTuple):
    """Args:
    place: `managers/heartbeat: HeartbeatManager.poll`; without a function, all of the module.
    text: a part of the line.
    change: the change, or a part of it; all, if empty.
    """

    place: str
    text: str
    change: str
    why: str

    def fits(self, mutant: Mutant) -> bool:
        module, _, function = self.place.partition(": ")
        return (
            mutant.module == module
            and function in ("", mutant.function)
            and self.text in mutant.text
            and self.change in f"{mutant.kind}: {mutant.change}"
        )


ARGUED: tuple[Argued, ...] = ()


def without_argued(mutants: Iterable[Mutant]) -> list[Mutant]:
    return [mutant for mutant in mutants if not any(each.fits(mutant) for each in ARGUED)]
