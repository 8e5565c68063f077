"""kfake as a program: `program/main.go`, built once with Go into a cache.

A build is put in place by one rename under a file lock, so clones and processes may share a cache. What it is built
from is pinned by `go.mod` and `go.sum`, and its directory is named after all of that. Used by `cluster`.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from kwire.testing.kafka.jars import MissingSoftwareError, ensure

SOURCES = Path(__file__).parent / "program"
FILES = ("go.mod", "go.sum", "main.go")
BUILD_TIMEOUT_S = 900


def ensure_kfake(cache: Path) -> Path:
    """The program, built if the cache lacks it.

    Raises:
        MissingSoftwareError: There is no Go, or it cannot build it.
    """
    directory = cache.absolute() / "kfake" / version()
    ensure(directory, build)
    return directory / "kfake"


def version() -> str:
    """Which kfake this is: the module's version, and a digest of what is built with it."""
    digest = hashlib.sha256(b"".join((SOURCES / name).read_bytes() for name in FILES)).hexdigest()[:12]
    return f"{module_version()}-{digest}"


def module_version() -> str:
    """The version of franz-go's module."""
    lines = (SOURCES / "go.mod").read_text().splitlines()
    return next(line.split()[-1] for line in lines if "franz-go/pkg/kfake" in line)


def build(directory: Path) -> None:
    """Has Go download and build it."""
    go = shutil.which("go")
    if go is None:
        raise MissingSoftwareError(
            "Go is needed to build kfake: install it (Debian and Ubuntu: apt install golang, macOS: brew install go) "
            "and run this again"
        )
    for name in FILES:
        shutil.copy(SOURCES / name, directory)
    try:
        done = subprocess.run(
            [go, "build", "-o", "kfake", "."],
            cwd=directory, timeout=BUILD_TIMEOUT_S, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False, encoding="utf-8", errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingSoftwareError(f"Go did not build kfake: {error}") from error
    if done.returncode or not (directory / "kfake").exists():
        last = (done.stdout.strip().splitlines() or ["nothing"])[-1].strip()[:500]
        raise MissingSoftwareError(f"Go cannot build kfake {module_version()}; it said: {last}")
