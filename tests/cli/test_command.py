"""The command itself: entry points, `kwire config`, `--version`."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kwire.cli
from kwire.cli.show_config import table
from kwire.config import SETTINGS, SettingDoc, docs
from kwire.version import __version__


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["kwire", *arguments])
    with pytest.raises(SystemExit) as exited:
        kwire.cli.main()
    assert isinstance(exited.value.code, int)
    return exited.value.code


def test_version(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--version") == 0
    assert capfd.readouterr().out == f"kwire {__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["consume", "-h"], ["config", "--help"]])
def test_help(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run(monkeypatch, *arguments) == 0
    assert "Usage: kwire" in capfd.readouterr().out


def test_config_lists_each_setting(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "config") == 0
    listed = [line.split()[0] for line in capfd.readouterr().out.splitlines() if not line.startswith(" ")]
    assert listed == ["setting", *SETTINGS]


def test_config_says_which_settings_are_secrets() -> None:
    lines = "\n".join(table(docs(), 10_000)).splitlines()
    marked = {line.split()[0] for line in lines if "A secret: give it in a file or in the environment." in line}
    assert marked == {name for name, found in SETTINGS.items() if found.is_secret}
    assert "sasl_password" in marked


def test_config_is_a_table_that_fits() -> None:
    row = SettingDoc("group_id", "group.id", "not set", "text", "The group " + "and more " * 12 + "words.")
    lines = list(table([row, row], width=70))
    assert lines[0].split() == ["setting", "default", "meaning", "(valid", "values)"]
    assert max(map(len, lines)) <= 70
    column = lines[0].index("meaning")
    assert {line[:column].strip() for line in lines[1:]} == {"group_id  not set", ""}
    assert " ".join(line[column:] for line in lines[1:]) == " ".join([f"{row.doc} (text)"] * 2)


@pytest.mark.slow
def test_the_module_runs_and_a_reader_may_leave() -> None:
    # Waits for a line, so that the reader is gone for sure when the output comes.
    script = (
        "import runpy, sys; input(); sys.argv = ['kwire', 'config']; runpy.run_module('kwire', run_name='__main__')"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(b"\n")
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
