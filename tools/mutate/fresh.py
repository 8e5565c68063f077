"""Judges a mutant in a process of its own, which imports the changed module instead of the one on the disk.

    python -m tools.mutate.fresh FILE START END NEW TESTS

TESTS is a file with the names of the tests to run, in that order.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from tools.mutate.child import BROKEN, KILLED, SURVIVED, TIMEOUT, Verdict
from tools.mutate.mutant import TOP, Mutant

OPTIONS = ("-p", "no:randomly", "-p", "no:cacheprovider", "-qq", "-x", "--no-header", "--no-summary")
WAITING_S = 300.0
FOUND = "found by "


def judge_fresh(mutant: Mutant, tests: Sequence[str]) -> Verdict:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.write("\n".join(tests))
        listed.flush()
        command = [sys.executable, "-m", "tools.mutate.fresh", mutant.file, str(mutant.start), str(mutant.end)]
        try:
            ended = subprocess.run(
                [*command, mutant.new, listed.name],
                cwd=TOP,
                timeout=WAITING_S,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Verdict(TIMEOUT)
    if ended.returncode == 0:
        return Verdict(SURVIVED)
    found = [line.removeprefix(FOUND) for line in ended.stdout.splitlines() if line.startswith(FOUND)]
    return Verdict(KILLED, found[-1]) if found else Verdict(BROKEN)


class ChangedModule(MetaPathFinder):
    """Finds one module, with other source than that on the disk."""

    def __init__(self, path: Path, source: bytes) -> None:
        self._name = ".".join(path.relative_to(TOP).with_suffix("").parts)
        self._path = path
        self._source = source

    def find_spec(self, fullname: str, _path: object, _target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        return spec_from_file_location(fullname, self._path, loader=_Loader(fullname, str(self._path), self._source))


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, source: bytes) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, _fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec")


class Chosen:
    """A plugin of pytest: runs these tests, in this order, and says which one fails."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._places = {test: place for place, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._places), key=lambda item: self._places[item.nodeid]
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            print(f"\n{FOUND}{report.nodeid}", flush=True)


def main(file: str, start: str, end: str, new: str, listed: str) -> int:
    tests = Path(listed).read_text().splitlines()
    path = TOP / file
    source = path.read_bytes()
    sys.meta_path.insert(0, ChangedModule(path, source[: int(start)] + new.encode() + source[int(end) :]))
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    return int(pytest.main([*OPTIONS, *files], plugins=[Chosen(tests)]))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
