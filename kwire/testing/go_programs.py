"""Programs in Go that tests use, built once into a cache: toxiproxy, kfake."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kwire.testing.kafka.jars import MissingSoftwareError

BUILD_TIMEOUT_S = 900


def run_go(
    arguments: Sequence[str],
    *,
    program: str,
    version: str,
    built: Path,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Have Go download and build a program.

    Args:
        arguments: The arguments of the `go` command.
        program: The name of the program, for errors.
        version: The version of the program, for errors.
        built: The file that Go makes.
        directory: Where Go runs.
        environment: Variables beside those of this process.

    Raises:
        MissingSoftwareError: There is no Go, or it cannot build it.
    """
    go = shutil.which("go")
    if go is None:
        raise MissingSoftwareError(
            f"Go is needed to build {program}: install it (Debian and Ubuntu: apt install golang, macOS: "
            "brew install go) and run this again"
        )
    try:
        done = subprocess.run(
            [go, *arguments], cwd=directory, env={**os.environ, **(environment or {})}, timeout=BUILD_TIMEOUT_S,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False, encoding="utf-8", errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingSoftwareError(f"Go did not build {program}: {error}") from error
    if done.returncode or not built.exists():
        raise MissingSoftwareError(f"Go cannot build {program} {version}; it said: {last_line(done.stdout)}")


def last_line(output: str) -> str:
    """The last line of the output, in which a program says what is wrong."""
    return (output.strip().splitlines() or ["nothing"])[-1].strip()[:500]
