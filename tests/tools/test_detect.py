"""`scripts/detect`: its bugs fit the code, are caught, and are told of in a table."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tools.detect import cli as detect_cli
from tools.detect.bug import Bug
from tools.detect.bugs import BUGS as CLIENT_BUGS
from tools.detect.catch_up_bugs import CATCH_UP_BUGS
from tools.detect.cli import BUGS, Finding
from tools.detect.processing_bugs import PROCESSING_BUGS

PACKAGE = Path(detect_cli.TOP, "kwire")
BY_NAME = {bug.name: bug for bug in BUGS}


def test_there_are_bugs_in_all_parts_of_the_client() -> None:
    assert len(CLIENT_BUGS) >= 30
    assert len(PROCESSING_BUGS) >= 8
    assert len(CATCH_UP_BUGS) >= 10
    assert len(BY_NAME) == len(BUGS)
    assert all(bug.worlds == "crashing" for bug in CATCH_UP_BUGS)
    assert all(bug.is_in_processing for bug in PROCESSING_BUGS)
    assert not any(bug.is_in_processing for bug in CLIENT_BUGS)
    parts = {bug.file.split("/")[0] for bug in CLIENT_BUGS}
    assert parts >= {"managers", "fetching", "subscription", "consumer", "states", "network", "assignors", "mailbox.py"}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_bug_replaces_one_line_that_is_there_once(bug: Bug) -> None:
    text = (PACKAGE / bug.file).read_text()
    assert text.count(bug.old) == 1
    old, new = bug.old.split("\n"), bug.new.split("\n")
    assert len(old) == len(new)
    assert sum(before != after for before, after in zip(old, new, strict=True)) == 1
    ast.parse(text.replace(bug.old, bug.new))


def test_a_bug_whose_line_is_gone_is_not_planted(tmp_path: Path) -> None:
    bug = Bug(name="b", story="", file="a.py", old="x = 1", new="x = 2")
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    with pytest.raises(ValueError, match=r"b: its line occurs 2 times in a\.py"):
        detect_cli.plant(bug, tmp_path)
    (tmp_path / "a.py").write_text("x = 1\n")
    detect_cli.plant(bug, tmp_path)
    assert (tmp_path / "a.py").read_text() == "x = 2\n"


def found(*rules: str, name: str = "b") -> Finding:
    return Finding(name=name, rules=rules, seeds=3, seconds=1.5)


def test_the_table_says_what_was_caught_by_what(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter([found(name="(no bug)"), *(found("late", name=bug.name) for bug in BUGS)])
    monkeypatch.setattr(detect_cli, "findings", lambda _bugs, _arguments: answers)
    assert detect_cli.main([]) == 0
    printed = capsys.readouterr().out
    assert "late" in printed
    assert f"caught {len(BUGS)} of {len(BUGS)}: 100.0%" in printed


def test_bugs_that_pass_make_it_fail(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(detect_cli, "findings", lambda bugs, _arguments: (found(name=bug.name) for bug in bugs))
    assert detect_cli.main(["--only", "crc-unchecked", "--no-check"]) == 1
    printed = capsys.readouterr().out
    assert "NOT CAUGHT" in printed
    assert "caught 0 of 1" in printed
    assert "not caught: crc-unchecked" in printed


def test_the_summary_says_what_the_checks_are_worth() -> None:
    findings = [
        replace(found("late", "lost-write", name="a"), seeds=2),
        replace(found("late", name="b"), seeds=30),
        replace(found("the world broke: KeyError(1)", name="c"), seeds=4),
        found(name="d"),
    ]
    assert list(detect_cli.summary(findings)) == [
        "caught 3 of 4: 75.0%",
        "after 4 worlds (median), 30 at most",
        "by the check that came first: late 2, the world broke 1",
        "not caught: d",
    ]
    assert list(detect_cli.summary([found(name="d")])) == ["caught 0 of 1: 0.0%", "not caught: d"]


def test_worlds_that_find_fault_with_kwire_itself_prove_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(detect_cli, "findings", lambda _bugs, _arguments: iter([found("late", name="(no bug)")]))
    assert detect_cli.main([]) == 1
    assert "say nothing" in capsys.readouterr().out


def test_a_bug_that_nobody_knows_is_refused() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="no such bug: nonsense"):
        detect_cli.known_names("nonsense,crc-unchecked")


@pytest.mark.parametrize(
    ("output", "hangs", "rules", "trouble"),
    [
        ('{"seed": 1}\n{"seed": 2}\n{"seed": 2, "rules": ["late"]}\n', False, ("late",), ""),
        ('{"seed": 1}\n{"seed": 2}\n', False, (), ""),
        ('{"seed": 1}\n', True, (detect_cli.NO_END,), ""),
        ('{"seed": 1}\n', False, (), "KILLED: not by its own watch"),
        ("", False, (), "DOES NOT START: SyntaxError: no"),
    ],
    ids=["found", "nothing found", "no end", "killed", "no start"],
)
def test_what_a_worker_says(
    output: str,
    hangs: bool,
    rules: tuple[str, ...],
    trouble: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def run(_folder: Path, _seeds: Sequence[int], _limit: float, *, worlds: str) -> tuple[str, str, bool]:
        return output, "Traceback\nSyntaxError: no", hangs

    (tmp_path / "kwire").mkdir()
    monkeypatch.setattr(detect_cli, "TOP", tmp_path)
    monkeypatch.setattr(detect_cli, "_run", run)
    finding = detect_cli.look_for(None, (1, 2), 60.0)
    assert finding.rules == rules
    assert finding.trouble == trouble, "which is no bug that was caught"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["crc-unchecked", "commits-the-fetch-position"])
def test_two_of_them_for_real(name: str) -> None:
    assert detect_cli.look_for(BY_NAME[name], range(1, 21), 60.0).rules
