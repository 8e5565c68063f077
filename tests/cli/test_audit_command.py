"""`kwire audit`: what it prints and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kwire.cli.commands import app
from proofs.spark.history import Story, ledger


def write(path: Path, story: Story) -> str:
    path.write_text("".join(f"{line}\n" for line in ledger(story).lines()))
    return str(path)


def test_a_history_in_which_all_was_kept(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["audit", "--local", write(tmp_path / "h", Story(rounds=12, partitions=2, records=5))]
    )
    assert (done.exit_code, done.stdout.splitlines()[1:]) == (0, [])
    assert done.stdout.endswith(" had to be judged: 0 violations\n")


def test_what_was_broken_is_counted_by_rule_with_examples(tmp_path: Path) -> None:
    story = Story(rounds=12, partitions=2, records=20, plants=("inconsistent-offsets of two", "died"))
    done = CliRunner().invoke(app, ["audit", "--local", "--examples", "1", write(tmp_path / "h", story)])
    assert done.exit_code == 1
    rules = [line for line in done.stdout.splitlines()[1:] if not line.startswith("  ")]
    assert rules == ["inconsistent-offsets: 2", "died: 1"]
    assert len(done.stdout.splitlines()) == 1 + 4


@pytest.mark.parametrize("lines", [0, -1])
def test_a_history_that_is_cut_off_is_not_said_to_be_good(tmp_path: Path, lines: int) -> None:
    """An empty file, or one that lacks its end, had no violations: who had lost records passed."""
    path = Path(write(tmp_path / "h", Story(rounds=12, partitions=2, records=5)))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
    done = CliRunner().invoke(app, ["audit", "--local", str(path)])
    assert done.exit_code == 2
    assert "this history ends before its run does" in done.stderr


def test_what_was_broken_in_a_history_that_is_cut_off_is_told_all_the_same(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "h", Story(rounds=12, partitions=2, records=5, plants=("died",))))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    done = CliRunner().invoke(app, ["audit", "--local", str(path)])
    assert (done.exit_code, "died: 1" in done.stdout) == (1, True)
    assert "this history ends before its run does" in done.stderr


@pytest.mark.parametrize("content", ["what is this\n", None])
def test_what_is_no_history_is_told_in_a_line(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "h").write_text(content)
    done = CliRunner().invoke(app, ["audit", "--local", str(tmp_path / "h")])
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1


def test_the_history_of_a_run_is_that_of_one_client() -> None:
    arguments = ["--seed", "7", "--seconds", "60", "-c", "kwire", "-c", "java", "--history", "h"]
    done = CliRunner().invoke(app, ["faults", "run", *arguments])
    assert done.exit_code == 2
    assert "name one client" in done.stderr
