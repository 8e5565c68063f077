"""The audit of dependencies: what a report says, and that no data is no failure."""

from __future__ import annotations

import json
import subprocess
from subprocess import CompletedProcess

import pytest

from tools import audit
from tools.supply_tools import NoToolsError

REPORT = {
    "dependencies": [
        {"name": "a", "version": "1.0", "vulns": []},
        {"name": "b", "version": "2.0", "vulns": [{"id": "CVE-1", "fix_versions": ["2.1", "3.0"]}, {"id": "CVE-2"}]},
        {"name": "c", "skip_reason": "not there"},
    ],
    "fixes": [],
}


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (json.dumps(REPORT), 1, "b 2.0: CVE-1, fixed in 2.1, 3.0\nb 2.0: CVE-2\n"),
        (json.dumps({"dependencies": REPORT["dependencies"][:1]}), 0, "no known vulnerabilities\n"),
        (None, 0, "skipped: no data\n"),
    ],
)
def test_a_vulnerability_fails_and_no_data_does_not(
    answer: str | None, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit, "ask", lambda _requirements: answer)
    assert audit.main() == code
    assert capsys.readouterr().out == said


@pytest.mark.parametrize("answer", ["", "ERROR: no route", json.dumps({"dependencies": REPORT["dependencies"][2:]})])
def test_an_answer_about_no_package_is_none(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of an index that has packages and nothing about them: that must not read as a clean bill."""
    monkeypatch.setattr(audit, "supply_tool", lambda name: name)
    monkeypatch.setattr(subprocess, "run", lambda *_given, **_named: CompletedProcess([], 1, answer, ""))
    assert audit.ask("some.txt") is None


def test_tools_that_cannot_be_had_are_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_name: str) -> str:
        raise NoToolsError("no index")

    monkeypatch.setattr(audit, "supply_tool", refuse)
    assert audit.main() == 0
    assert capsys.readouterr().out == "skipped: no data (no index)\n"
