"""A cell of the matrix of `scripts/prove losses`: its names, and the notes that its processes leave for the judge.

Notes are lines in one file, each written in one piece, so that any process or thread of the cell may write. What is to
happen once in a cell is a file that only one can create.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

PARTITIONS = 2
RECORDS = 200
PER_BATCH = 20
PER_PARTITION = RECORDS // PARTITIONS


class Place(NamedTuple):
    """Where a record is."""

    partition: int
    offset: int


TARGET = Place(0, 55)  # what the fault is about: in the middle of a batch, with good records in front and behind
ALL = frozenset(Place(partition, offset) for partition in range(PARTITIONS) for offset in range(PER_PARTITION))


@dataclass(frozen=True, slots=True)
class Cell:
    """One way, one fault, and a topic, a group and a directory of their own."""

    way: str
    fault: str
    servers: str
    topic: str
    directory: str

    @property
    def group(self) -> str:
        return self.topic

    @property
    def dead_topic(self) -> str:
        return f"{self.topic}-dead"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Cell:
        return cls(**json.loads(text))

    # --- what happens once --------------------------------------------------------------------------------------

    def path(self, *names: str) -> Path:
        return Path(self.directory, *names)

    def first(self, name: str) -> bool:
        """Whether this is the first to ask, in any process of the cell."""
        try:
            self.path(name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def has(self, name: str) -> bool:
        return self.path(name).exists()

    # --- notes --------------------------------------------------------------------------------------------------

    def note(self, kind: str, text: str) -> None:
        """Write a line: appended as a whole, whichever process does it."""
        file = os.open(self.path("notes"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, f"{kind} {text}\n".encode())
        finally:
            os.close(file)

    def delivered(self, partition: int, offset: int) -> None:
        self.note("delivered", f"{partition} {offset}")

    def handled(self, partition: int, offset: int) -> None:
        self.note("handled", f"{partition} {offset}")

    def told(self, error: BaseException) -> None:
        """What the user sees of an error: the first line."""
        lines = str(error).splitlines() or [""]
        self.note("told", f"{type(error).__name__}: {lines[0]}")

    def lines(self, kind: str) -> list[str]:
        path = self.path("notes")
        if not path.exists():
            return []
        lines = path.read_text(errors="replace").splitlines()
        return [line.removeprefix(f"{kind} ") for line in lines if line.startswith(f"{kind} ")]

    def places(self, kind: str) -> Counter[Place]:
        """How often each record was delivered, or handled."""
        return Counter(Place(*map(int, line.split())) for line in self.lines(kind))
