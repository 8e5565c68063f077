"""Where a Python of some version is on this machine: on the PATH, among pyenv's, or in a folder with a Debian."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.pythons.debian import NoDebianError, prepare

_PRINT_VERSION = "import platform; print(platform.python_version())"


class NoPythonError(Exception):
    """There is no such Python, and it cannot be had; the message says how to get it."""


def _as_it_is(command: Sequence[str]) -> Sequence[str]:
    return command


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that runs.

    Args:
        path: where it is in the file system that it runs in, which may be that of a Debian below the cache.
        origin: where it comes from, in a word or two.
        inside: makes of a command one that runs in that file system.
    """

    path: str
    origin: str
    inside: Callable[[Sequence[str]], Sequence[str]] = _as_it_is

    def version(self) -> str | None:
        """Such as 3.13.0. None: it does not run."""
        try:
            done = subprocess.run(
                self.inside([self.path, "-c", _PRINT_VERSION]), capture_output=True, text=True, check=False
            )
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None


def find(wanted: str, environ: Mapping[str, str] = os.environ) -> Interpreter:
    """The Python of that version, such as 3.13, made if need be.

    Raises:
        NoPythonError: there is none, and none can be made.
    """
    for found in at_hand(wanted, environ):
        if (found.version() or "").startswith(f"{wanted}."):
            return found
    try:
        debian = prepare(wanted)
    except NoDebianError as error:
        hint = f"put python{wanted} on the PATH, or install it by pyenv; {error}"
        raise NoPythonError(f"no Python {wanted}: {hint}") from None
    return Interpreter(f"/usr/bin/python{wanted}", f"Debian {debian.suite}", debian.inside)


def at_hand(wanted: str, environ: Mapping[str, str]) -> Iterator[Interpreter]:
    """Those that may be there. pyenv has a python3.X on the PATH for each version, also where it is not to be used."""
    yield Interpreter(f"python{wanted}", "the PATH")
    pyenv = Path(environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    versions = pyenv.glob(f"versions/{wanted}.*/bin/python{wanted}")
    for path in sorted(versions, key=lambda path: _numbers(path.parents[1].name), reverse=True):
        yield Interpreter(str(path), "pyenv")


def _numbers(version: str) -> list[int]:
    """What versions are ordered by. Names that are none, such as 3.14.0b1 or 3.13t, come last."""
    parts = version.split(".")
    return [int(part) for part in parts] if all(part.isdecimal() for part in parts) else []
