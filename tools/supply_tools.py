"""Tools around the supply chain, in an environment of their own below .cache: uv, pip-audit, twine, cyclonedx-bom.

They are no part of `.venv`: nobody needs them who changes kwire, and what they need may contradict what kwire is tested
with. Installed from requirements/supply-hashes.txt, when they are first used.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import venv
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
HASHES = TOP / "requirements/supply-hashes.txt"
ENVIRONMENT = TOP / ".cache/supply"


class NoToolsError(Exception):
    """They cannot be installed; the message says why."""


def supply_tool(name: str) -> str:
    """The path of a command of theirs.

    Raises:
        NoToolsError: pip does not reach a package index, or refuses what it finds there.
    """
    stamp, wanted = ENVIRONMENT / "stamp", hashlib.sha256(HASHES.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        _install()
        stamp.write_text(wanted)
    return str(ENVIRONMENT / "bin" / name)


def _install() -> None:
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    venv.create(ENVIRONMENT, with_pip=True)
    pip = [str(ENVIRONMENT / "bin/python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    done = subprocess.run(
        [*pip, "--require-hashes", "--no-deps", "--retries", "0", "-r", str(HASHES)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["pip failed"]
        raise NoToolsError(
            f"pip could not install {HASHES.name} ({said[-1]}): check that a package index is reachable, and run this "
            "again"
        )
