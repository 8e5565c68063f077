"""What breaks programs is found between a tag and the folder: what is gone or changed, and not what was added."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools import public_api, release
from tools.public_api import ALL, STABLE, breaks_since, last_tag, may_break

if TYPE_CHECKING:
    from collections.abc import Sequence

TOP = Path(__file__).parents[2]
OLD = """
from shop.till import Till, open_till
__all__ = ["Till", "open_till"]
"""
OLD_TILL = """
from dataclasses import dataclass

class _Drawer:
    def coins(self) -> int: ...

class Till(_Drawer):
    def ring(self, cents: int, *, currency: str = "EUR") -> None: ...
    def _lock(self) -> None: ...

def open_till(name: str) -> Till: ...
def count_till() -> int: ...
"""

Change = Callable[..., list[str]]


@pytest.fixture
def changed(tmp_path: Path) -> Change:
    """What is told of a package, tagged v1.0.0, in which these texts were replaced."""

    def change(*replaced: tuple[str, str], stable: Sequence[str] = ALL) -> list[str]:
        folder = tmp_path / "shop"
        folder.mkdir()
        (folder / "__init__.py").write_text(OLD)
        (folder / "till.py").write_text(OLD_TILL)
        author = ["-c", "user.name=a", "-c", "user.email=a@b"]
        for arguments in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "begin"], ["tag", "v1.0.0"]):
            subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
        for before, after in replaced:
            for path in folder.iterdir():
                path.write_text(path.read_text().replace(before, after))
        assert last_tag(tmp_path) == "v1.0.0"
        return list(breaks_since("v1.0.0", tmp_path, {"shop": stable}))

    return change


def test_a_function_that_is_gone_is_found(changed: Change) -> None:
    assert changed((', "open_till"]', "]"), (", open_till", "")) == ["shop.open_till: Public object was removed"]


def test_a_method_that_is_gone_from_a_private_base_is_found(changed: Change) -> None:
    assert changed(("def coins", "def _coins")) == ["shop.till.Till.coins: Public object was removed"]


def test_a_parameter_that_is_called_otherwise_is_found(changed: Change) -> None:
    assert changed(("name: str", "title: str")) == [
        "shop.till.open_till(name): Parameter was removed",
        "shop.till.open_till(title): Parameter was added as required",
    ]


def test_a_default_that_is_another_one_is_found(changed: Change) -> None:
    assert changed(('"EUR"', '"USD"')) == [
        "shop.till.Till.ring(currency): Parameter default was changed: 'EUR' -> 'USD'"
    ]


def test_what_is_added_breaks_nothing(changed: Change) -> None:
    added = [
        ("def coins", "def notes(self) -> int: ...\n    def coins"),
        ('currency: str = "EUR"', 'currency: str = "EUR", note: str = ""'),
        ('"open_till"]', '"open_till", "count_till"]'),
        ("import Till,", "import Till, count_till,"),
    ]
    assert changed(*added) == []


def test_what_was_never_public_may_go(changed: Change) -> None:
    assert changed(("def count_till() -> int: ...", ""), ("def _lock", "def _close")) == []


def test_a_name_that_is_not_listed_may_go(changed: Change) -> None:
    assert changed((', "open_till"]', "]"), stable=("Till",)) == []


@pytest.mark.parametrize(
    ("old", "new", "may"),
    [
        ("v0.9.0", "0.9.1", False),
        ("v0.9.0", "0.10.0", True),
        ("v0.10.0", "1.0.0", True),
        ("v1.0.0", "1.1.0", False),
        ("v1.4.2", "2.0.0rc1", True),
    ],
)
def test_which_version_may_break(old: str, new: str, may: bool) -> None:
    assert may_break(old, new) is may


def test_without_a_tag_there_is_nothing_to_compare_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert last_tag(tmp_path) is None
    assert list(release.what_breaks(tmp_path, "1.0.0")) == []
    assert capsys.readouterr().out == "no tag yet: there is no public API to compare with\n"


def test_a_release_that_may_not_break_misses_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "last_tag", lambda _top: "v1.0.0")
    monkeypatch.setattr(release, "breaks_since", lambda _tag, _top: iter(["kwire.read: Public object was removed"]))
    [told] = release.what_breaks(TOP, "1.1.0")
    assert told == (
        "1.1.0 may not break programs of v1.0.0 (docs/stability.md): raise the version, or undo the changes that are "
        "listed above"
    )
    assert list(release.what_breaks(TOP, "2.0.0")) == []


@pytest.mark.slow
def test_what_is_listed_as_public_is_there() -> None:
    assert public_api.missing(TOP) == []


def test_users_are_told_of_each_module_that_is_public() -> None:
    page = (TOP / "docs/stability.md").read_text(encoding="utf-8")
    assert [module for module in STABLE if module not in page] == []
