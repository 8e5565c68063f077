"""What a mutant is: one small change of a module's source, as somebody might have made it by mistake."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType

TOP = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One small mistake: bytes of a file, and what stands there instead.

    Args:
        file: relative to the clone, `kwire/managers/heartbeat.py`.
        function: the qualified name of the function it is in; empty at the level of a module or class, whose code runs
            when the module is imported.
        outer: the same of the outermost function: the one whose code is replaced.
        is_bound: whether it is part of a class or of a default argument, which are bound when the module is imported.
        lines: the first and last line of the statement; a test that runs one of them may notice.
        start, end: bytes of the source that are replaced.
        nth: its number among equal changes of equal lines of the function.
    """

    file: str
    function: str
    outer: str
    is_bound: bool
    kind: str
    lines: tuple[int, int]
    line: int
    start: int
    end: int
    old: str
    new: str
    text: str
    nth: int = 0

    @property
    def module(self) -> str:
        """`managers/heartbeat`."""
        return self.file.removeprefix("kwire/").removesuffix(".py")

    @property
    def key(self) -> str:
        """What names it as long as neither its line nor its function changes, wherever they stand."""
        return f"{self.module}: {self.function or '-'}: {self.text}: {self.kind}: {self.change}: {self.nth}"

    @property
    def change(self) -> str:
        return f"{_in_short(self.old)} -> {_in_short(self.new)}"

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]

    @lru_cache(maxsize=4)  # noqa: B019  a few
    def compiled(self) -> CodeType | None:
        """Its module, changed; None if Python cannot compile that."""
        try:
            return compile(self.applied((TOP / self.file).read_bytes()), str(TOP / self.file), "exec")
        except (SyntaxError, ValueError):
            return None

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function or '(module)'}: {self.kind}: {self.change}    | {self.text}"


def _in_short(text: str) -> str:
    return " ".join(text.split())
