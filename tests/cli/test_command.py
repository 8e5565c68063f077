"""The command itself: entry points, `kwire config`, `--version`."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from typer.core import TyperGroup
from typer.main import get_command

import kwire.cli
from kwire import speedups
from kwire.cli.commands import app
from kwire.cli.show_config import layout, table
from kwire.cli.usage_hints import OTHER_COMMANDS
from kwire.config import SETTINGS, SettingDoc, docs
from kwire.version import __version__


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["kwire", *arguments])
    with pytest.raises(SystemExit) as exited:
        kwire.cli.main()
    assert isinstance(exited.value.code, int)
    return exited.value.code


@pytest.mark.parametrize(
    ("module", "variable", "standing"),
    [
        (object(), "", "yes"),
        (None, "", "no, not compiled for this version"),
        (None, "1", "no, KWIRE_WITHOUT_SPEEDUPS is set"),
    ],
)
def test_version_and_whether_there_is_a_module_in_c(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], module: object, variable: str, standing: str
) -> None:
    monkeypatch.setattr(speedups, "module", module)
    monkeypatch.setenv(speedups.VARIABLE, variable)
    assert run(monkeypatch, "--version") == 0
    assert capfd.readouterr().out == f"kwire {__version__}\nspeedups in C: {standing}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["consume", "-h"], ["config", "--help"]])
def test_help(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run(monkeypatch, *arguments) == 0
    assert "Usage: kwire" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["topics", "-b", "b:1"], "No such option: -b. Options come after a command, as in 'kwire topics list -b'"),
        (["groups", "-b", "b:1", "list"], "Options come after a command, as in 'kwire groups list -b'"),
        (["-b", "b:1", "topics", "list"], "Options come after a command, as in 'kwire topics list -b'"),
        (["-b", "b:1", "topics"], "Options come after a command, as in 'kwire topics list -b'"),
        (["-b", "b:1", "config"], "No such option: -b"),
        (["--verbose", "doctor"], "Options come after a command, as in 'kwire doctor --verbose'"),
        (["-b", "b:1", "consume"], "Options come after a command, as in 'kwire consume -b'"),
        (["lag"], "No such command 'lag'. Did you mean 'kwire groups describe'?"),
        (["groups", "lag"], "No such command 'lag'. Did you mean 'kwire groups describe'?"),
        (["watch"], "No such command 'watch'. Did you mean 'kwire groups watch'?"),
        (["tail", "orders"], "No such command 'tail'. Did you mean 'kwire consume'?"),
        (["topics", "--nothing"], "No such option: --nothing"),
        (["consume", "--zz"], "No such option: --zz"),
        (["nothing"], "No such command 'nothing'."),
    ],
)
def test_a_command_that_is_missing_or_elsewhere_is_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: list[str], answer: str
) -> None:
    """`kwire topics -b` has no such option, but `kwire topics list` has."""
    assert run(monkeypatch, *arguments) == 2
    assert capfd.readouterr().err.rstrip().endswith(answer)


@pytest.mark.parametrize("path", OTHER_COMMANDS.values())
def test_the_commands_that_take_the_place_of_others_are_there(path: str) -> None:
    found: object = get_command(app)
    for name in path.split():
        assert isinstance(found, TyperGroup)
        found = found.commands[name]


def test_help_says_where_consume_begins(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "consume", "--help") == 0
    words = " ".join(capfd.readouterr().out.split())
    assert "(w d h m s). Default: earliest." in words


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


def test_config_can_be_asked_about_a_word(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "config", "SCRAM") == 0
    listed = [line.split()[0] for line in capfd.readouterr().out.splitlines() if not line.startswith(" ")]
    assert listed[0] == "setting"
    assert "sasl_mechanism" in listed
    assert len(listed) < 10


def test_a_word_that_no_setting_has_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "config", "qwertz") == 2
    assert capfd.readouterr().err == (
        "kwire: no setting has 'qwertz' in its name or meaning; 'kwire config' lists all\n"
    )


def test_config_is_json_for_programs(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "config", "--json") == 0
    listed = json.loads(capfd.readouterr().out)
    assert [row["name"] for row in listed] == list(SETTINGS)
    assert {row["name"] for row in listed if row["is_secret"]} >= {"sasl_password"}


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_a_narrow_terminal_gets_paragraphs_that_fit(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr("kwire.cli.terminal.is_terminal", lambda: True)
    lines = list(layout(docs(), columns))
    assert [line for line in lines if len(line) > columns and line.startswith(" ")] == []
    assert lines[0] == "bootstrap_servers  (default: required)"


def test_brackets_in_help_are_not_taken_for_styles(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`kwire audit --help` said to install kwire."""
    assert run(monkeypatch, "audit", "--help") == 0
    assert "kwire[spark]" in " ".join(capfd.readouterr().out.split())


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("kwire gro", ["groups"]),
        ("kwire groups re", ["reset"]),
        ("kwire consume --from", ["--from", "--from-beginning"]),
        ("kwire consume --on-data-loss ", ["stop", "skip"]),
    ],
)
def test_the_shell_completes_what_is_typed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], typed: str, offered: list[str]
) -> None:
    monkeypatch.setenv("_KWIRE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split(" ")) - 1))
    assert run(monkeypatch) == 0
    assert capfd.readouterr().out.split() == offered


@pytest.mark.parametrize(("flags", "level"), [([], logging.NOTSET), (["-v"], logging.INFO), (["-vv"], logging.DEBUG)])
def test_v_logs_more(monkeypatch: pytest.MonkeyPatch, flags: list[str], level: int) -> None:
    library = logging.getLogger("kwire")
    before = library.level
    try:
        run(monkeypatch, "topics", "describe", "x", "-b", "no-port", *flags)
        assert library.level == (level or before)
    finally:
        library.setLevel(before)


@pytest.mark.slow
def test_help_loads_neither_the_network_nor_numpy() -> None:
    script = "import kwire.cli.commands, sys; print(*{'trio', 'numpy', 'construct', 'rich'} & sys.modules.keys())"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert loaded.stdout == "\n"


def commands(of: TyperGroup, *before: str) -> Iterator[list[str]]:
    """The words of each command, and of each group of commands."""
    yield list(before)
    for name, command in of.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, *before, name)
        else:
            yield [*before, name]


def all_commands() -> list[list[str]]:
    top = get_command(app)
    assert isinstance(top, TyperGroup)
    return list(commands(top))


@pytest.mark.parametrize("words", all_commands(), ids=lambda words: " ".join(words) or "kwire")
def test_help_is_for_people_who_know_no_python(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """`kwire consume -h` had `TOPIC... <list[str]>` and `[TOPIC...]...`, `kwire produce -h` had `{TOPIC}`."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run(monkeypatch, *words, "-h") == 0
    said = capfd.readouterr().out
    assert re.search(r"<(list|str|int|float|path|file|bool)\b", said) is None
    usage = said.split("\n\n")[0]
    assert re.search(r"[{}]|\.\.\.\]", usage) is None


@pytest.mark.parametrize("words", [[], ["topics"], ["groups"], ["faults"], ["wire"]], ids=" ".join)
def test_a_list_of_commands_says_each_to_its_end(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """On a terminal of 80 columns seven of fourteen ended in `...`."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run(monkeypatch, *words, "-h") == 0
    _, _, listed = capfd.readouterr().out.partition("Commands:\n")
    assert listed
    assert [line for line in listed.splitlines() if line.endswith("...")] == []
