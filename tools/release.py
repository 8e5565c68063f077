"""Makes a release: looks at version and changelog, builds, tries what was built, and sets a tag.

    python -m tools.release --dry-run    # all but the tag; what is missing for a release is listed, and fails nothing
    python -m tools.release              # the same, but what is missing ends it

The public API is compared with that of the last tag (`tools.public_api`). Wheel and sdist are built twice, and have
to be the same bytes (`tools.package`). The sdist is unpacked, gives the same wheel, and passes some of its tests. The
wheel is installed into an empty environment, where `kwire demo` has to read what it wrote. It uploads nothing: the
last line says how to.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path

from kwire.version import __version__
from tools.package import HASHES, NotReproducibleError, build_twice, build_wheel, epoch_of, git, sums
from tools.public_api import breaks_since, last_tag, may_break
from tools.supply_tools import NoToolsError, supply_tool

TOP = Path(__file__).resolve().parent.parent
FINAL = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
# They need little, and show that what is in the sdist can be tested there.
TESTS_OF_AN_SDIST = ("tests/test_offset_set.py", "tests/config/test_parsers.py", "tests/states")


class ReleaseError(Exception):
    """What was built is not fit to be published; the message says why."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="do all but the tag; missing parts are only listed")
    parser.add_argument("--into", type=Path, default=TOP / "dist", metavar="FOLDER", help="where to (default: dist)")
    given = parser.parse_args(arguments)
    missing = [*what_is_missing(TOP, __version__), *what_breaks(TOP, __version__)]
    for problem in missing:
        print(f"missing for a release: {problem}")
    if missing and not given.dry_run:
        return 1
    try:
        release(given.into, dry=given.dry_run)
    except (ReleaseError, NotReproducibleError, NoToolsError) as error:
        print(f"tools.release: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"tools.release: {error}\n{error.stdout or ''}{error.stderr or ''}", file=sys.stderr)
        return 1
    return 0


def what_is_missing(top: Path, version: str) -> Iterator[str]:
    """What a release wants beside a build: a version, words about it, a clean clone, a tag that is not taken."""
    if not FINAL.fullmatch(version):
        yield f"{version} is no version of a release; kwire/version.py has it"
    if f"\n## {version} " not in (top / "CHANGELOG.md").read_text():
        yield f"CHANGELOG.md has no heading that begins with '## {version} ': 'Unreleased' becomes it, with the date"
    if git(top, "status", "--porcelain"):
        yield "the clone has changes that are not committed"
    if git(top, "tag", "--list", f"v{version}"):
        yield f"there is a tag v{version} already"


def what_breaks(top: Path, version: str) -> Iterator[str]:
    """Why the version has to be a higher one. Tells all that breaks programs of the release before."""
    tag = last_tag(top)
    if tag is None:
        print("no tag yet: there is no public API to compare with")
        return
    breaks = list(breaks_since(tag, top))
    for line in breaks:
        print(f"breaks programs of {tag}: {line}")
    if not breaks:
        print(f"the public API is compatible with {tag}")
    elif not may_break(tag, version):
        yield (
            f"{version} may not break programs of {tag} (docs/stability.md): raise the version, or undo the changes "
            "that are listed above"
        )


def release(into: Path, *, dry: bool) -> None:
    """Raises: ReleaseError, NotReproducibleError, NoToolsError, CalledProcessError."""
    built = build_twice(TOP, epoch_of(TOP))
    print("built twice, the same bytes:")
    print(sums(built).decode(), end="")
    into.mkdir(parents=True, exist_ok=True)
    for name, data in {**built, HASHES: sums(built)}.items():
        (into / name).write_bytes(data)
    wheel, sdist = (next(name for name in built if name.endswith(end)) for end in (".whl", ".tar.gz"))
    run([supply_tool("twine"), "check", "--strict", str(into / wheel), str(into / sdist)])
    print("their descriptions can be shown")
    try_sdist(built, wheel, sdist)
    try_wheel(into / wheel)
    if dry:
        print("dry run: no tag is set")
    else:
        run(["git", "tag", "--annotate", f"v{__version__}", "--message", f"kwire {__version__}"])
        print(f"tagged v{__version__}; push the tag, then: twine upload {into / wheel} {into / sdist}")


def try_sdist(built: Mapping[str, bytes], wheel: str, sdist: str) -> None:
    """It gives the same wheel, and its tests pass."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(built[sdist])) as archive:
            archive.extractall(folder, filter="data")
        source = Path(folder, sdist.removesuffix(".tar.gz"))
        if build_wheel(source, epoch_of(TOP)) != {wheel: built[wheel]}:
            raise ReleaseError("the wheel that the sdist gives is another one")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", *TESTS_OF_AN_SDIST]
        said = run(command, cwd=source, PYTHONPATH=str(source)).splitlines()
    print(f"the sdist gives the same wheel; its tests: {said[-1] if said else ''}")


def try_wheel(wheel: Path) -> None:
    """It can be installed where nothing else is, and reads records there."""
    with tempfile.TemporaryDirectory() as folder:
        began_s = time.monotonic()
        venv.create(folder, with_pip=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        run([*pip, "--require-hashes", "--no-deps", "-r", str(TOP / "requirements/run-hashes.txt")])
        run([*pip, "--no-deps", str(wheel)])
        installed_s = time.monotonic()
        said = run([f"{folder}/bin/kwire", "demo"], cwd=Path(folder))
    if "read and committed" not in said:
        raise ReleaseError(f"kwire demo did not read what it wrote:\n{said}")
    read_s = time.monotonic()
    print(f"installed in {installed_s - began_s:.0f} s; kwire demo read its records in {read_s - installed_s:.1f} s")


def run(command: list[str], *, cwd: Path = TOP, **environment: str) -> str:
    """What it prints. Raises: CalledProcessError, which has the output."""
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, check=True, capture_output=True, text=True
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
