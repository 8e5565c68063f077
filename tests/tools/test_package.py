"""What is published is the same on all machines, and has nothing of the machine in it."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools import package
from tools.package import NotReproducibleError, build, build_twice, hashed_run_requirements, repacked, sums

TOP = Path(__file__).parents[2]
EPOCH_S = 1_700_000_000


def sdist(mtime: int, uid: int, names: tuple[str, ...] = ("kwire-1/b.py", "kwire-1/a.py")) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uid, member.uname, member.mode = 3, mtime, uid, "me", 0o600
            archive.addfile(member, io.BytesIO(b"abc"))
    return packed.getvalue()


def test_owner_time_mode_and_order_leave_an_sdist() -> None:
    one, other = sdist(1, 7), sdist(2, 8, ("kwire-1/a.py", "kwire-1/b.py"))
    assert one != other
    assert repacked(one, EPOCH_S) == repacked(other, EPOCH_S)
    with tarfile.open(fileobj=io.BytesIO(repacked(one, EPOCH_S))) as archive:
        members = [(m.name, m.mtime, m.uid, m.uname, m.mode) for m in archive.getmembers()]
    assert members == [(name, EPOCH_S, 0, "", 0o644) for name in ("kwire-1/a.py", "kwire-1/b.py")]


def test_builds_that_differ_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    builds = iter([{"a.whl": b"1", "a.tar.gz": b"1"}, {"a.whl": b"2", "a.tar.gz": b"1"}])
    monkeypatch.setattr(package, "build", lambda _top, _epoch_s: next(builds))
    with pytest.raises(NotReproducibleError, match=r"not the same: a\.whl$"):
        build_twice(TOP, EPOCH_S)


def test_what_is_installed_with_kwire_is_listed_with_its_hashes() -> None:
    text = hashed_run_requirements(TOP / "requirements")
    assert {"construct==2.10.70", "trio==0.35.0"} <= {line.split()[0] for line in text.splitlines()}
    assert "pyspark" not in text
    assert all("--hash=sha256:" in line for line in text.splitlines())


def test_sums_are_those_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "sums").write_bytes(sums({"a": b"abc"}))
    subprocess.run(["sha256sum", "-c", "sums"], cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.slow
def test_wheel_and_sdist_are_the_same_bytes_whenever_and_wherever_they_are_built(tmp_path: Path) -> None:
    """From two folders of other names, modes and times, with another umask."""
    other = tmp_path / "other clone"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(TOP), str(other)], check=True)
    here = tmp_path / "here"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(TOP), str(here)], check=True)
    (other / "kwire/model.py").chmod(0o600)
    os.utime(other / "kwire/model.py", (1, 1))
    before = os.umask(0o077)
    try:
        one = build(other, EPOCH_S)
    finally:
        os.umask(before)
    assert one == build(here, EPOCH_S)
    (wheel,) = (data for name, data in one.items() if name.endswith(".whl"))
    names = zipfile.ZipFile(io.BytesIO(wheel)).namelist()
    assert "kwire/model.py" in names
    assert not [name for name in names if name.startswith(("tests/", "tools/", "proofs/", "benchmarks/"))]
