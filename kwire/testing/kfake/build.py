"""kfake as a program: `program/main.go`, built once with Go into a cache.

A build is put in place by one rename under a file lock, so clones and processes may share a cache. `go.mod` and
`go.sum` pin its sources, and the name of its directory depends on all of them. Used by `cluster`.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from kwire.testing.go_programs import run_go
from kwire.testing.kafka.jars import ensure

SOURCES = Path(__file__).parent / "program"
FILES = ("go.mod", "go.sum", "main.go")


def ensure_kfake(cache: Path) -> Path:
    """The program, built if the cache lacks it.

    Raises:
        MissingSoftwareError: There is no Go, or it cannot build it.
    """
    directory = cache.absolute() / "kfake" / version()
    ensure(directory, build)
    return directory / "kfake"


def version() -> str:
    """The version of kfake: the version of the module, and a digest of the sources here."""
    digest = hashlib.sha256(b"".join((SOURCES / name).read_bytes() for name in FILES)).hexdigest()[:12]
    return f"{module_version()}-{digest}"


def module_version() -> str:
    """The version of franz-go's module."""
    lines = (SOURCES / "go.mod").read_text().splitlines()
    return next(line.split()[-1] for line in lines if "franz-go/pkg/kfake" in line)


def build(directory: Path) -> None:
    """Has Go download and build kfake."""
    for name in FILES:
        shutil.copy(SOURCES / name, directory)
    run_go(
        ["build", "-o", "kfake", "."],
        program="kfake",
        version=module_version(),
        built=directory / "kfake",
        directory=directory,
    )
