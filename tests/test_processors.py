"""How many processors a process may use: its affinity and its container's quota both bound that."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kwire.processors import usable_processors

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(8)), raising=False)


def write(folder: Path, **files: str) -> Path:
    (folder / "cpu").mkdir()
    for name, content in files.items():
        (folder / name.replace("__", "/").replace("_DOT_", ".")).write_text(content)
    return folder


def test_without_a_quota_the_affinity_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert usable_processors(tmp_path) == 8
    assert usable_processors(write(tmp_path, cpu_DOT_max="max 100000\n")) == 8
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_processors(tmp_path) == 1


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("100000 100000", 1), ("50000 100000", 1), ("199999 100000", 1), ("200000 100000", 2), ("1600000 100000", 8)],
)
def test_a_quota_of_a_container_counts(tmp_path: Path, quota: str, expected: int) -> None:
    assert usable_processors(write(tmp_path, cpu_DOT_max=f"{quota}\n")) == expected


@pytest.mark.parametrize(("quota", "period", "expected"), [("100000", "100000", 1), ("-1", "100000", 8), ("1", "0", 8)])
def test_so_does_one_of_the_older_kind(tmp_path: Path, quota: str, period: str, expected: int) -> None:
    folder = write(tmp_path, cpu__cpu_DOT_cfs_quota_us=f"{quota}\n", cpu__cpu_DOT_cfs_period_us=f"{period}\n")
    assert usable_processors(folder) == expected


@pytest.mark.parametrize("content", ["", "100000", "a b", "1 2 3"])
def test_what_cannot_be_read_is_no_quota(tmp_path: Path, content: str) -> None:
    assert usable_processors(write(tmp_path, cpu_DOT_max=content)) == 8
