"""`.venv` is made once, anew when its inputs change, and never taken for ready half-made."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tools import environment

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A directory with all that decides what `.venv` holds."""
    for name in environment.DEV.inputs:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one")
    return tmp_path


def finish(clone: Path) -> None:
    """What `make` leaves when it succeeds."""
    (clone / ".venv/bin").mkdir(parents=True)
    (clone / ".venv/bin/python").touch()
    (clone / ".venv/stamp").write_text(environment.digest(clone))


def test_nothing_is_run_when_the_stamp_fits(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(clone)
    made: list[Path] = []
    monkeypatch.setattr(environment, "make", lambda top, _wanted: made.append(top))
    environment.prepare(clone)
    assert made == []


@pytest.mark.parametrize("changed", environment.DEV.inputs)
def test_a_changed_input_makes_it_anew(clone: Path, changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(clone)
    (clone / changed).write_text("two")
    made: list[Path] = []
    monkeypatch.setattr(environment, "make", lambda top, _wanted: made.append(top))
    environment.prepare(clone)
    assert made == [clone]


def test_one_without_a_stamp_is_not_ready(clone: Path) -> None:
    finish(clone)
    (clone / ".venv/stamp").unlink()
    assert not environment.is_ready(clone)


def test_a_failing_step_says_which_and_what_to_do() -> None:
    command = [sys.executable, "-S", "-c", "raise SystemExit(3)"]
    with pytest.raises(environment.SetupError, match=r"raise SystemExit\(3\)` failed \(do this\)"):
        environment.run(command, hint="do this")


def test_a_failure_leaves_no_stamp(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: list[str], *, hint: str, cwd: Path | None = None) -> None:
        raise environment.SetupError(hint)

    finish(clone)
    (clone / "pyproject.toml").write_text("two")
    monkeypatch.setattr(environment, "run", fail)
    with pytest.raises(environment.SetupError):
        environment.prepare(clone)
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize("wanted", [environment.DEMO, environment.DOCS, environment.OTHER])
def test_each_of_the_others_is_made_from_its_own_file(
    clone: Path, wanted: environment.Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clone / wanted.locked).write_text("small")
    made: list[environment.Environment] = []
    monkeypatch.setattr(environment, "make", lambda _top, wanted: made.append(wanted))
    assert environment.prepare(clone, wanted) == clone / wanted.folder / "bin/python"
    assert made == [wanted]


def test_each_python_has_one_of_its_own() -> None:
    major, minor = sys.version_info[:2]
    assert environment.OTHER.folder == f".cache/pythons/{major}.{minor}"


def test_the_demo_runs_in_the_large_one_if_that_is_there(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(clone)
    monkeypatch.setattr(environment, "make", lambda _top, _wanted: pytest.fail("there is one"))
    assert environment.prepare(clone, environment.DEMO) == clone / ".venv/bin/python"
