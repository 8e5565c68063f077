"""The files of hashes go with the requirement files, and what is missing there is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.environment import entry_of
from tools.lock import NAMES, TOP, find_problems, pins

if TYPE_CHECKING:
    from pathlib import Path

HASH = "--hash=sha256:" + "0" * 64


def problems(folder: Path, wanted: str, locked: str) -> list[str]:
    (folder / "dev.txt").write_text("-r run.txt\n")
    (folder / "run.txt").write_text(wanted)
    (folder / "dev-hashes.txt").write_text(locked)
    return list(find_problems(folder, "dev"))


@pytest.mark.parametrize("name", NAMES)
def test_they_are_in_date(name: str) -> None:
    assert list(find_problems(TOP / "requirements", name)) == []


def test_names_are_compared_in_one_form(tmp_path: Path) -> None:
    assert problems(tmp_path, "Typing_Extensions==1.0\n", f"typing-extensions==1.0 \\\n    {HASH}\n") == []


def test_another_version_a_missing_hash_and_an_address_are_told(tmp_path: Path) -> None:
    found = problems(tmp_path, "a==1\nb==2\nc==3\n", f"--extra-index-url x://y\na==1\nb==3 \\\n    {HASH}\n")
    assert found == [
        "dev-hashes.txt: b is 3, and 2 in dev.txt; python -m tools.lock writes it",
        "dev-hashes.txt: c is missing, and 3 in dev.txt; python -m tools.lock writes it",
        "dev-hashes.txt: no hash for --extra-index-url",
        "dev-hashes.txt: no hash for a==1",
        "dev-hashes.txt: it has an address in it; files are known by their hashes alone",
    ]


def test_the_build_back_end_is_installed_by_its_own_entry() -> None:
    entry = entry_of("setuptools", (TOP / "requirements/dev-hashes.txt").read_text())
    assert [name for name, _version in pins(entry)] == ["setuptools"]
    assert entry.count("--hash=sha256:") >= 1
    assert entry.count("==") == 1
