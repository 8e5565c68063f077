"""`scripts/mutate`: what it changes and what it leaves alone, and what its verdicts are worth."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tools.evidence import commit
from tools.mutate import cli as mutate_cli
from tools.mutate.child import KILLED, SURVIVED, TIMEOUT, Verdict
from tools.mutate.equivalents import ARGUED
from tools.mutate.fresh import ChangedModule
from tools.mutate.mutant import TOP, Mutant
from tools.mutate.places import mutants_of
from tools.mutate.report import by_package, evidence, score, survivors, table, write


@pytest.fixture
def changes_in(tmp_path: Path) -> Callable[[str], set[str]]:
    """What may become of a piece of source."""

    def changes_in(source: str) -> set[str]:
        path = tmp_path / "piece.py"
        path.write_text(source)
        return {f"{mutant.kind}: {mutant.change}" for mutant in mutants_of(path)}

    return changes_in


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("return a < b", {"returns None: a < b -> None", "bound: < -> <=", "opposite: < -> >="}),
        ("return (a + b) * c", {"returns None: (a + b) * c -> None", "arithmetic: + -> -", "arithmetic: * -> /"}),
        ("if not a: return 1", {"always: not a -> True", "never: not a -> False", "not: not -> ", "constant: 1 -> 2"}),
        ("f(a)", {"left out: f(a) -> pass"}),
        ("x = a and b", {"and/or: and -> or"}),
        ("x = min(a, b)", {"other end: min -> max"}),
        ("a.b = c", {"left out: a.b = c -> pass"}),
        ("x = True", {"constant: True -> False"}),
        ("x = 'one'", {"constant: 'one' -> 'oneX'"}),
        ("x = 'a text for people'", set()),
        ("log.info(a + b)", set()),
        ("x: int | None = a", set()),
        ("assert a is not None", set()),
        ("raise KeyError('gone')", {"left out: raise KeyError('gone') -> pass"}),
    ],
)
def test_what_becomes_of_a_line(line: str, changes: set[str], changes_in: Callable[[str], set[str]]) -> None:
    assert changes_in(f'def f(a, b, c):\n    """A docstring."""\n    {line}\n') == changes


def test_a_table_loses_rows_and_leads_elsewhere(changes_in: Callable[[str], set[str]]) -> None:
    source = (
        "class S(Enum):\n    A = auto()\n    B = auto()\n\nROWS = [Row(S.A), Row(S.B)]\nWHY = {(S.A, 1): 'a reason'}\n"
    )
    assert changes_in(source) == {
        "element left out: Row(S.A), -> ",
        "element left out: Row(S.B) -> ",
        "entry left out: (S.A, 1): 'a reason' -> ",
        "another member: S.A -> S.B",
        "another member: S.B -> S.A",
        "constant: 1 -> 2",
    }


PLANTED = """
class Box:
    def put(self, thing, size):
        self.thing = thing
        self.seen = True
        return size < 3
"""
TESTS = """
from planted import Box

def test_that_what_is_put_there_is_there():
    box = Box()
    assert box.put(7, 2)
    assert not box.put(7, 3)
    assert box.thing == 7
"""
JUDGING = """
import sys
from pathlib import Path
from tools.mutate.judge import judge
from tools.mutate.places import mutants_of

folder = Path(sys.argv[1])
told = sys.stderr
judge(
    [mutant for mutant in mutants_of(folder / "planted.py") if mutant.outer],
    [str(folder)],
    lambda mutant, verdict: print(f"{mutant.change}: {verdict.outcome}", file=told),
)
"""


@pytest.mark.slow
def test_a_line_whose_outcome_is_looked_at_is_told_from_one_that_is_only_run(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(PLANTED)
    (tmp_path / "test_planted.py").write_text(TESTS)
    ended = subprocess.run(
        [sys.executable, "-c", JUDGING, str(tmp_path)], cwd=TOP, check=False, stderr=subprocess.PIPE, text=True
    )
    assert set(ended.stderr.splitlines()) == {
        "self.thing = thing -> pass: killed",
        "self.seen = True -> pass: survived",
        "True -> False: survived",
        "size < 3 -> None: killed",
        "3 -> 4: killed",
        "< -> <=: killed",
        "< -> >=: killed",
    }


def test_a_module_can_be_imported_with_other_source(tmp_path: Path) -> None:
    path = TOP / "kwire" / "clock.py"
    finder = ChangedModule(path, b"CHANGED = True\n")
    assert finder.find_spec("kwire.model", None) is None
    spec = finder.find_spec("kwire.clock", None)
    assert spec is not None
    assert spec.loader is not None
    namespace: dict[str, object] = {}
    exec(spec.loader.get_code("kwire.clock"), namespace)  # type: ignore[attr-defined]  # a loader of source has it
    assert namespace["CHANGED"] is True


def mutant(*, file: str = "kwire/managers/heartbeat.py", function: str = "f", text: str = "a + b") -> Mutant:
    return Mutant(
        file=file,
        function=function,
        outer=function,
        is_bound=False,
        kind="arithmetic",
        lines=(3, 3),
        line=3,
        start=10,
        end=11,
        old="+",
        new="-",
        text=text,
    )


JUDGED = [
    (mutant(), Verdict(KILLED, "test_a")),
    (mutant(), Verdict(TIMEOUT)),
    (mutant(), Verdict(SURVIVED, "no test runs it")),
    (mutant(file="kwire/states/machine.py"), Verdict(KILLED, "test_b")),
]


def test_the_table_counts_by_module_and_by_package_and_names_what_survived() -> None:
    lines = [line.split() for line in table(JUDGED)]
    assert ["managers/heartbeat", "3", "1", "1", "1", "66.7%"] in lines
    assert ["states/", "in", "all", "1", "1", "0", "0", "100.0%"] in lines
    assert list(survivors(JUDGED)) == [
        "kwire/managers/heartbeat.py:3 f: arithmetic: + -> -    | a + b    (no test runs it)"
    ]
    assert score(by_package(JUDGED)["managers"]) == pytest.approx(2 / 3)


def test_figures_of_other_packages_and_of_before_stay(tmp_path: Path) -> None:
    path = tmp_path / "evidence" / "mutation.json"
    managers, states = JUDGED[:3], JUDGED[3:]
    write(managers[2:], 9, "before", path)
    write(managers[2:], 9, "after", path)
    write(states, 5, "after", path)
    write(managers, 9, "after", path)
    at = f"(of {commit()})"
    assert [f"{name}: {value}" for name, value in read_figures(path)] == [
        "mutants judged of managers, before: 1 of 9, by chance",
        f"kwire/managers/, before: 1 mutants, 0 killed: 0.0% {at}",
        "mutants judged of states, after: 1 of 5, by chance",
        f"kwire/states/, after: 1 mutants, 1 killed: 100.0% {at}",
        "mutants judged of managers, after: 3 of 9, by chance",
        f"kwire/managers/, after: 3 mutants, 2 killed: 66.7% {at}",
    ]
    assert [each["what"] for each in json.loads(path.read_text())["not_met"]] == ["85% of kwire/managers/"]
    assert set(asdict(evidence([], []))) == {
        *("title", "claim", "command", "date", "versions", "figures", "not_met", "page")
    }


def read_figures(path: Path) -> list[tuple[str, str]]:
    return [(each["what"], each["value"]) for each in json.loads(path.read_text())["figures"]]


def test_what_is_argued_is_still_there() -> None:
    packages = {each.place.partition("/")[0] for each in ARGUED}
    mutants = [
        each for package in packages for path in (TOP / "kwire" / package).glob("*.py") for each in mutants_of(path)
    ]
    assert [each for each in ARGUED if not any(each.fits(mutant) for mutant in mutants)] == []


def test_again_judges_only_what_survived_or_is_new() -> None:
    earlier = {mutant().key: Verdict(KILLED, "test_a"), mutant(text="b + a").key: Verdict(SURVIVED)}
    assert mutate_cli.is_known(mutant(), earlier)
    assert not mutate_cli.is_known(mutant(text="b + a"), earlier)
    assert not mutate_cli.is_known(replace(mutant(), function="g"), earlier)
