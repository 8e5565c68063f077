"""What is published is the same on all machines, and has nothing of the machine in it."""

from __future__ import annotations

import io
import os
import subprocess
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from kwire import speedups
from tools import package
from tools.lock import pins
from tools.package import NotReproducibleError, build, build_twice, build_wheel, copy_tracked, repacked, sums

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


def test_what_is_listed_with_kwire_is_what_it_runs_with() -> None:
    names = [name for name, _version in pins((TOP / "requirements/run-hashes.txt").read_text())]
    assert {"construct", "trio", "numpy", "typer"} <= set(names)
    assert not {"pyspark", "pandas", "confluent-kafka"} & set(names)


def test_sums_are_those_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "sums").write_bytes(sums({"a": b"abc"}))
    subprocess.run(["sha256sum", "-c", "sums"], cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.skipif(not (TOP / ".git").exists(), reason="an sdist has no history that could be cloned")
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
    assert not [name for name in names if "_speedups" in name]  # this one runs everywhere
    assert not [name for name in names if name.startswith(("tests/", "tools/", "proofs/", "benchmarks/"))]
    (packed,) = (data for name, data in one.items() if name.endswith(".tar.gz"))
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        modes = {member.name.partition("/")[2]: member.mode for member in archive.getmembers()}
    for name in ("tests/conftest.py", "tools/package.py", "kwire/_speedups.c", "setup.py", "docs/migration.md"):
        assert modes[name] == 0o644
    assert modes["scripts/test"] == 0o755


@pytest.mark.skipif(not (TOP / ".git").exists(), reason="an sdist has no history that could be cloned")
@pytest.mark.skipif(speedups.module is None, reason="there is no C compiler, or no module in C is wanted")
@pytest.mark.slow
def test_who_compiles_it_gets_one_wheel_for_all_pythons_wherever_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "VARIABLE", "NOBODY_ASKS_FOR_THIS")
    wheels = []
    for name in ("here", "other clone"):
        copy_tracked(TOP, tmp_path / name)
        wheels.append(build_wheel(tmp_path / name, EPOCH_S))
    assert wheels[0] == wheels[1]
    ((name, wheel),) = wheels[0].items()
    assert f"-cp311-abi3-{sysconfig.get_platform().replace('-', '_')}.whl" in name
    folder = tmp_path / "unpacked"
    zipfile.ZipFile(io.BytesIO(wheel)).extractall(folder)
    assert (folder / "kwire/_speedups.abi3.so").exists()
