"""Python source under construction, with the place in the message that each line is about.

The decoder and the encoder write their code into a `FunctionBody`. Speed forbids the code itself to keep track of which
field it is at, so the line number of a failure tells: `place_at` maps it back. The two compile steps alone use it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType


@dataclass(frozen=True, slots=True)
class Place:
    """One field that a line of code handles.

    `path` names it from the message down, `expression` is where the code has its value, `kind` says in words what it
    has to be, and `fmt` is the struct format of a field of fixed size.
    """

    path: str
    fmt: str = ""
    kind: str = ""
    expression: str = ""


def path_of(owner: str, name: str) -> str:
    """The path of a field. `owner` is that of the structure which has it, and empty for the message itself."""
    return f"{owner}.{name}" if owner else name


class FunctionBody:
    """Lines of one function body; `names` are the constants it refers to."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.names: dict[str, object] = {}
        self._lines: list[str] = []
        self._places: list[tuple[Place, ...]] = []
        self._depth = 0
        self._counter = 0

    def add(self, code: str, *places: Place) -> None:
        """Append one line."""
        self._lines.append("    " * self._depth + code)
        self._places.append(places)

    @contextmanager
    def block(self, head: str, *places: Place) -> Iterator[None]:
        """Append a line that opens a block; what is added inside the `with` stands in it."""
        self.add(head, *places)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A variable name not used so far."""
        self._counter += 1
        return f"{stem}{self._counter}"

    def constant(self, stem: str, value: object) -> str:
        """A name that the code can use for `value`."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(stem.replace("?", "t"))  # "?" is struct's bool, but no letter
        self.names[name] = value
        return name

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def function(self, name: str) -> object:
        """Run the source and take out one of the functions that it defines."""
        # Only names and numbers of kwire's own declarations ever get into the text.
        exec(compile(self.text, f"<{self.title}>", "exec"), self.names)
        return self.names[name]

    def place_at(self, traceback: TracebackType | None) -> tuple[Place, ...]:
        """The fields of the line where an exception left this source's function."""
        return () if traceback is None else self._places[traceback.tb_lineno - 1]
