"""Keeps the files of hashes: each package of an environment, with the hash of every file of its release.

    python -m tools.lock            # writes requirements/NAME-hashes.txt for each of NAMES; asks the package index
    python -m tools.lock --check    # checks that they match requirements/NAME.txt; asks nobody

`scripts/setup` installs from dev-hashes.txt, so that what is installed is what was looked at once: pip refuses a file
that was changed since, wherever it comes from. All files of a release count, for any platform; no address is in there.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.supply_tools import NoToolsError, supply_tool

TOP = Path(__file__).resolve().parent.parent
NAMES = ("demo", "dev", "docs", "kafkatest", "run", "supply")
HEAD = "# Written by python -m tools.lock, do not edit: packages, and the hashes of all files of their releases.\n"
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether they are in date")
    if parser.parse_args(arguments).check:
        problems = [problem for name in NAMES for problem in find_problems(TOP / "requirements", name)]
        print("\n".join(problems) or "in date")
        return 1 if problems else 0
    try:
        for name in NAMES:
            (TOP / f"requirements/{name}-hashes.txt").write_text(HEAD + compiled(f"requirements/{name}.txt"))
    except (NoToolsError, subprocess.CalledProcessError) as error:
        print(f"tools.lock: {error}", file=sys.stderr)
        return 1
    return 0


def compiled(source: str) -> str:
    """The pins with their hashes, and what they need beyond the pins."""
    command = [supply_tool("uv"), "pip", "compile", source, "--quiet", "--generate-hashes", "--universal"]
    command += ["--python-version", "3.11", "--no-header", "--no-annotate"]
    command += ["--no-emit-index-url", "--no-emit-find-links"]  # it is to have no addresses
    return subprocess.run(command, cwd=TOP, check=True, stdout=subprocess.PIPE, text=True).stdout


def find_problems(folder: Path, name: str) -> Iterator[str]:
    """Why the hashes of that name do not go with its requirements; nothing if they do."""
    source, lock = folder / f"{name}.txt", folder / f"{name}-hashes.txt"
    text = lock.read_text()
    locked, wanted = dict(pins(text)), dict(pins_of(source))
    for package, version in sorted(wanted.items()):
        if (found := locked.get(package, "missing")) != version:
            yield f"{lock.name}: {package} is {found}, and {version} in {source.name}; python -m tools.lock writes it"
    for entry in entries(text):
        if "--hash=sha256:" not in entry:
            yield f"{lock.name}: no hash for {entry.split()[0]}"
    if "://" in text:
        yield f"{lock.name}: it has an address in it; files are known by their hashes alone"


def entries(text: str) -> Iterator[str]:
    """Each requirement with its hashes, as one line."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            yield line


def pins_of(path: Path) -> Iterator[tuple[str, str]]:
    """The pins of a requirement file, and of those that it names."""
    text = path.read_text()
    yield from pins(text)
    for line in text.splitlines():
        if line.startswith("-r "):
            yield from pins_of(path.parent / line.removeprefix("-r ").strip())


def pins(text: str) -> Iterator[tuple[str, str]]:
    """Names, in the one form that packages are compared by, and versions."""
    for line in entries(text):
        if found := _PIN.match(line):
            yield re.sub(r"[-_.]+", "-", found["name"]).lower(), found["version"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
