"""A release is not made of what is unfinished, and says what is missing."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tools import release
from tools.package import git
from tools.release import ReleaseError, main, try_sdist, what_is_missing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone that is fit for the release 1.2.0."""
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0 (2026-12-01)\n")
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "-m", "begin"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    return tmp_path


def test_nothing_is_missing_of_a_finished_one(clone: Path) -> None:
    assert list(what_is_missing(clone, "1.2.0")) == []


def test_a_version_between_releases_is_told(clone: Path) -> None:
    (found, *_) = what_is_missing(clone, "1.2.0.dev1")
    assert "1.2.0.dev1 is no version of a release" in found


def test_a_changelog_without_the_version_changes_and_a_taken_tag_are_told(clone: Path) -> None:
    git(clone, "tag", "v1.3.0")
    (clone / "new").touch()
    found = list(what_is_missing(clone, "1.3.0"))
    assert [problem.split()[0] for problem in found] == ["CHANGELOG.md", "the", "there"]


def test_a_dry_run_goes_on_without_what_is_missing_and_a_release_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[bool] = []

    def make(_into: Path, *, dry: bool) -> None:
        made.append(dry)

    monkeypatch.setattr(release, "what_is_missing", lambda _top, _version: ["a changelog"])
    monkeypatch.setattr(release, "release", make)
    assert main(["--into", str(tmp_path)]) == 1
    assert made == []
    assert main(["--into", str(tmp_path), "--dry-run"]) == 0
    assert made == [True]


def test_an_sdist_that_gives_another_wheel_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    subprocess.run(["tar", "czf", "../x.tar.gz", "."], cwd=(folder(tmp_path)), check=True)

    def build_wheel(_source: Path, _epoch_s: int) -> Mapping[str, bytes]:
        return {"x.whl": b"another"}

    monkeypatch.setattr(release, "epoch_of", lambda _top: 0)
    monkeypatch.setattr(release, "build_wheel", build_wheel)
    with pytest.raises(ReleaseError, match="the wheel that the sdist gives is another one"):
        try_sdist({"x.whl": b"one", "x.tar.gz": (tmp_path / "x.tar.gz").read_bytes()}, "x.whl", "x.tar.gz")


def folder(tmp_path: Path) -> Path:
    made = tmp_path / "packed"
    made.mkdir()
    return made
