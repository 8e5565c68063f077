"""Builds what is published: wheel, sdist, their hashes and a bill of materials; twice, and compares.

    python -m tools.package [--into dist] [--without-sbom]

Anybody who builds the same commit gets the same bytes: times are that of the commit (or SOURCE_DATE_EPOCH), owners and
modes are those of nobody, names are in order. The back end does so for wheels; the sdist is packed anew here.

The wheel is without the module in C, so it runs everywhere. Who installs the sdist has that compiled.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kwire.speedups import VARIABLE
from tools.supply_tools import NoToolsError, supply_tool

TOP = Path(__file__).resolve().parent.parent
BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
SBOM = "kwire.cdx.json"
HASHES = "SHA256SUMS"


class NotReproducibleError(Exception):
    """Two builds differ; the message names the files."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=TOP / "dist", metavar="FOLDER", help="where to (default: dist)")
    parser.add_argument("--without-sbom", action="store_true", help="leave out the bill of materials, and its tools")
    given = parser.parse_args(arguments)
    try:
        built = build_twice(TOP, epoch_of(TOP))
        if not given.without_sbom:
            built = {**built, SBOM: bill_of_materials(TOP)}
    except (NotReproducibleError, NoToolsError, subprocess.CalledProcessError) as error:
        print(f"tools.package: {error}", file=sys.stderr)
        return 1
    given.into.mkdir(parents=True, exist_ok=True)
    for name, data in {**built, HASHES: sums(built)}.items():
        (given.into / name).write_bytes(data)
    print(sums(built).decode(), end="")
    return 0


def epoch_of(top: Path) -> int:
    """The second that files are said to be of."""
    said = os.environ.get("SOURCE_DATE_EPOCH")
    return int(said or git(top, "log", "-1", "--format=%ct"))


def build_twice(top: Path, epoch_s: int) -> Mapping[str, bytes]:
    """The files by name. Raises: NotReproducibleError."""
    first, second = build(top, epoch_s), build(top, epoch_s)
    if different := sorted(name for name in {*first, *second} if first.get(name) != second.get(name)):
        raise NotReproducibleError(f"built twice, and not the same: {', '.join(different)}")
    return first


def build(top: Path, epoch_s: int) -> Mapping[str, bytes]:
    """Wheel and sdist of what git knows, as it is in the folder, built in a folder that has nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        copy_tracked(top, source)
        sdist = _built("build_sdist", source, epoch_s)
        wheel = build_wheel(source, epoch_s)
    return {**{name: repacked(data, epoch_s) for name, data in sdist.items()}, **wheel}


def build_wheel(source: Path, epoch_s: int) -> Mapping[str, bytes]:
    """The wheel of what is in a folder, by its name."""
    return _built("build_wheel", source, epoch_s)


def _built(step: str, source: Path, epoch_s: int) -> Mapping[str, bytes]:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch_s), "PYTHONDONTWRITEBYTECODE": "1", VARIABLE: "1"}
    with tempfile.TemporaryDirectory() as target:
        command = [sys.executable, "-c", BUILD, step, target]
        subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True, umask=0o022)
        return {path.name: path.read_bytes() for path in Path(target).iterdir()}


def copy_tracked(top: Path, target: Path) -> None:
    for name in git(top, "ls-files", "-z").split("\0"):
        if name and (top / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(top / name, target / name)
            (target / name).chmod(0o755 if os.access(top / name, os.X_OK) else 0o644)


def repacked(archive: bytes, epoch_s: int) -> bytes:
    """The same files in the same archive, without what the machine and the moment have left in it."""
    packed, unpacked = io.BytesIO(), io.BytesIO(archive)
    with (
        tarfile.open(fileobj=unpacked) as old,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda found: found.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch_s, 0, 0, "", ""
            member.mode, member.pax_headers = 0o755 if member.isdir() or member.mode & 0o100 else 0o644, {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return gzip.compress(packed.getvalue(), mtime=epoch_s)


def bill_of_materials(top: Path) -> bytes:
    """What an installed kwire consists of, as CycloneDX: the versions that are tested, with hashes.

    Raises:
        NoToolsError: cyclonedx-py cannot be installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        listed, written = top / "requirements/run-hashes.txt", Path(folder, SBOM)
        command = [supply_tool("cyclonedx-py"), "requirements", str(listed), "--pyproject", str(top / "pyproject.toml")]
        command += ["--output-reproducible", "--output-format", "JSON", "--output-file", str(written)]
        subprocess.run(command, check=True, capture_output=True)
        return json.dumps(json.loads(written.read_text()), indent=2, sort_keys=True).encode() + b"\n"


def sums(files: Mapping[str, bytes]) -> bytes:
    """As sha256sum writes them, and checks them with -c."""
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())).encode()


def git(top: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=top, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
