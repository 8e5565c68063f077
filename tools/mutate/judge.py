"""Judges mutants in a process that has the tests loaded: for each it forks, changes the code there, and runs tests.

The process is one run of pytest, whose loop is this. First it runs the tests as they are and notes which lines each of
them runs, and how long it takes. Then each mutant has a child of its own (`planting.py` changes the code there), which
runs the tests that come by its lines, those that have found a mutant of that function first; some hundreds at most.
The first that fails ends it. A child that takes much more processor time than the tests are known to take is stopped.
What a class or a function's defaults are made of works when the module is imported, so it has a process of its own
(`fresh.py`); and so has what writes the code of the protocol's messages, which is done once, and kept.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

import coverage
import pytest

from tools.mutate.child import BROKEN, SURVIVED, Verdict, run_child, watch_test
from tools.mutate.fresh import judge_fresh
from tools.mutate.importers import importers_of
from tools.mutate.mutant import TOP, Mutant
from tools.mutate.planting import Planting

OPTIONS = ("-p", "no:randomly", "-p", "no:cacheprovider", "--capture=no", "-qq", "--no-header")
FAST = "not slow and not exhaustive and not integration"
START_S = 0.01
MAX_TESTS = 250  # with more, a survivor takes as long as fifty that are killed, and few of them are found late
WORK_ONCE = frozenset(
    f"protocol/{name}" for name in ("compiler", "decoder", "encoder", "layout", "registry", "schema", "source")
)
OnVerdict = Callable[[Mutant, Verdict], object]


class Judge:
    """A plugin of pytest.

    Args:
        on_verdict: hears of each mutant's end.
    """

    def __init__(self, mutants: Sequence[Mutant], on_verdict: OnVerdict) -> None:
        self._mutants = mutants
        self._on_verdict = on_verdict
        self._importers = {mutant.file: importers_of(mutant.file) for mutant in mutants}
        self._items: dict[str, pytest.Item] = {}
        self._took_s: dict[str, float] = {}
        self._failed: list[str] = []
        self._tests: dict[str, dict[int, list[str]]] = {}
        self._finders = Counter[tuple[str, str]]()
        self._told: dict[str, dict[str, float]] = {}
        self._caches: list[functools._lru_cache_wrapper[object]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        self._run_as_they_are()
        for test in set(self._failed):
            print(f"fails without any mutant, and judges none: {test}", file=sys.stderr)
            del self._items[test]
        self._failed.clear()
        planting = Planting({mutant.file for mutant in self._mutants})
        self._caches = [each for each in gc.get_objects() if isinstance(each, functools._lru_cache_wrapper)]
        gc.collect()
        gc.freeze()
        for mutant in self._mutants:
            if mutant.compiled() is not None:
                verdict = self._judge(mutant, planting)
                self._finders[mutant.outer, verdict.test] += 1
                self._on_verdict(mutant, verdict)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took_s[report.nodeid] = self._took_s.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self._failed.append(report.nodeid)

    def _run_as_they_are(self) -> None:
        importers = {importer for each in self._importers.values() for importer in each}
        files = [str(TOP / file) for file in sorted(importers | set(self._importers))]
        lines = coverage.Coverage(data_file=None, include=files, config_file=False)
        lines.start()
        try:
            for item in self._items.values():
                lines.switch_context(item.nodeid)
                _run(item, None)
        finally:
            lines.stop()
        data = lines.get_data()
        self._tests = {file: data.contexts_by_lineno(file) for file in files}

    def _judge(self, mutant: Mutant, planting: Planting) -> Verdict:
        tests = self._tests_of(mutant)
        if not tests:
            return Verdict(SURVIVED, "no test runs it")
        if mutant.is_bound or mutant.module in WORK_ONCE or not planting.fits(mutant):
            return judge_fresh(mutant, tests)

        def judged() -> str:
            try:
                planting.plant(mutant)
            except Exception:  # noqa: BLE001  what the changed module raises when it is imported
                return BROKEN
            self._forget_answers(mutant)
            return self._first_failure([self._items[test] for test in tests])

        return run_child(judged, waiting_s=30.0 + 10 * sum(self._took_s[test] for test in tests))

    def _forget_answers(self, mutant: Mutant) -> None:
        """Those that its module has kept from before it was changed."""
        name = mutant.file.removesuffix(".py").replace("/", ".")
        for cache in self._caches:
            if cache.__module__ == name:
                cache.cache_clear()

    def _tests_of(self, mutant: Mutant) -> list[str]:
        """Those that run its lines; at a module's own level, its functions, or a module that imports it."""
        if mutant.outer and mutant.module not in WORK_ONCE:
            tests = self._at(mutant.file, range(mutant.lines[0], mutant.lines[1] + 1))
        else:
            tests = {test for file in (mutant.file, *self._importers[mutant.file]) for test in self._at(file)}
            tests |= {test for test in self._items if test.startswith(f"tests/{mutant.module.partition('/')[0]}/")}
        return self._best_first(mutant, tests)[:MAX_TESTS]

    def _best_first(self, mutant: Mutant, tests: Iterable[str]) -> list[str]:
        """Those that have found a mutant of the function; of tables, their own; then those that tell most of the module
        for their time: what few tests run is what a test is about."""
        telling = self._telling(mutant.file)
        return sorted(
            tests,
            key=lambda test: (
                -self._finders[mutant.outer, test],
                bool(mutant.outer) or not test.startswith("tests/states/"),
                -telling[test] / (self._took_s[test] + START_S),
                test,
            ),
        )

    def _telling(self, file: str) -> dict[str, float]:
        """How much of a module each test runs; a line counts the less the more tests run it."""
        if file not in self._told:
            told: defaultdict[str, float] = defaultdict(float)
            for each in (file,) if self._tests[str(TOP / file)] else self._importers[file]:
                for found in self._tests[str(TOP / each)].values():
                    for test in found:
                        told[test] += 1 / len(found)
            self._told[file] = told
        return self._told[file]

    def _at(self, file: str, lines: Iterable[int] | None = None) -> set[str]:
        by_line = self._tests[str(TOP / file)]
        wanted = by_line if lines is None else lines
        return {test for line in wanted for test in by_line.get(line, ()) if test in self._items}

    def _first_failure(self, items: Sequence[pytest.Item]) -> str:
        for item, following in zip(items, [*items[1:], None], strict=True):
            watch_test(self._took_s[item.nodeid])
            _run(item, following)
            if self._failed:
                return self._failed[0]
        return SURVIVED


def _run(item: pytest.Item, following: pytest.Item | None) -> None:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def judge(mutants: Sequence[Mutant], judges: Sequence[str], on_verdict: OnVerdict) -> int:
    """Judges mutants, in this process, which becomes a run of pytest.

    Args:
        judges: files and folders of tests.

    Returns:
        The exit code of that run.
    """
    silent, told = os.open(os.devnull, os.O_WRONLY), os.dup(1)
    os.dup2(silent, 1)
    try:
        return int(pytest.main([*OPTIONS, "-m", FAST, *judges], plugins=[Judge(mutants, on_verdict)]))
    finally:
        os.dup2(told, 1)
