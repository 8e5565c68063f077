"""`scripts/corpus`: judges corpora line by line, and prints how many lines of each API and version pass.

    scripts/corpus wire-corpus.jsonl.gz record-corpus.jsonl.gz

Which kind a file is shows in its first line. Exit codes: 0 every line passes; 1 some do not, the first of which are
printed with what is wrong; 2 a file is no corpus, or has no lines.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from tools.corpus import records as corpus_records
from tools.corpus import wire as corpus_wire
from tools.corpus.lines import CorpusError, Verdict, read_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.corpus.lines import Line

PASSED, FAILED, NO_CORPUS = 0, 1, 2
COLUMNS = {"wire": ("request", "response", "data"), "records": ("read", "refused")}
JUDGES: dict[str, Callable[[Line], Verdict]] = {"wire": corpus_wire.judge, "records": corpus_records.judge}


class Tally:
    """Counts by row and column, and the first problems."""

    def __init__(self, kind: str, shown_problems: int) -> None:
        self.kind = kind
        self.problems: list[str] = []
        self._shown_problems = shown_problems
        self._all: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
        self._good: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)

    def add(self, number: int, verdict: Verdict) -> None:
        self._all[verdict.row][verdict.column] += 1
        self._good[verdict.row][verdict.column] += not verdict.problem
        if verdict.problem and len(self.problems) < self._shown_problems:
            name, version = verdict.row
            where = f"{name} v{version} {verdict.column}" if self.kind == "wire" else f"{name} {verdict.column}"
            self.problems.append(f"line {number}, {where}: {verdict.problem}")

    @property
    def total(self) -> int:
        return sum(counts.total() for counts in self._all.values())

    @property
    def passed(self) -> int:
        return sum(counts.total() for counts in self._good.values())

    def table(self) -> list[str]:
        """A line for each row: "N of N" in every column that has any."""
        columns = COLUMNS[self.kind]
        width = max(len(name) for name, _ in self._all) + 2
        heads = ["API" if self.kind == "wire" else "case", *(["version"] if self.kind == "wire" else []), *columns]
        lines = [f"{heads[0]:{width}}" + "".join(f"{head:>14}" for head in heads[1:])]
        for name, version in sorted(self._all):
            cells = [str(version)] if self.kind == "wire" else []
            cells += [self._cell((name, version), column) for column in columns]
            lines.append(f"{name:{width}}" + "".join(f"{cell:>14}" for cell in cells))
        return lines

    def _cell(self, row: tuple[str, int], column: str) -> str:
        count = self._all[row][column]
        return f"{self._good[row][column]} of {count}" if count else "-"


def judge(path: Path, shown_problems: int) -> Tally:
    """Judge every line of a file.

    Raises:
        CorpusError: It is no corpus.
    """
    tally: Tally | None = None
    for number, line in read_lines(path):
        tally = tally or Tally(kind_of(line, path), shown_problems)
        try:
            tally.add(number, JUDGES[tally.kind](line))
        except (CorpusError, KeyError, ValueError, TypeError) as error:
            raise CorpusError(f"{path}, line {number}: {type(error).__name__}: {error}") from error
    if tally is None:
        raise CorpusError(f"{path} has no lines")
    return tally


def kind_of(line: Line, path: Path) -> str:
    if "message" in line:
        return "wire"
    if "case" in line:
        return "records"
    raise CorpusError(f"{path}: the first line is neither a message nor a record set; its keys are {sorted(line)}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/corpus", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a wire or a record corpus")
    parser.add_argument("--problems", type=int, default=20, metavar="N", help="how many problems to print (20)")
    parser.add_argument("--quiet", action="store_true", help="print sums and problems only")
    chosen = parser.parse_args(arguments)
    code = PASSED
    for path in chosen.files:
        try:
            tally = judge(path, chosen.problems)
        except CorpusError as error:
            print(f"scripts/corpus: {error}", file=sys.stderr)
            return NO_CORPUS
        if not chosen.quiet:
            print("\n".join(tally.table()))
        for problem in tally.problems:
            print(f"WRONG {problem}")
        print(f"{path.name}: {tally.passed} of {tally.total} lines pass")
        code = max(code, PASSED if tally.passed == tally.total else FAILED)
    return code


if __name__ == "__main__":
    sys.exit(main())
