"""Makes the project's virtual environment, `.venv`, and keeps it in step with requirements/dev-hashes.txt.

`scripts/_python` calls it before each script that needs the environment. Standard library only: it runs before anything
is installed. A stamp in `.venv` holds the digest of all that decides its content, so an up-to-date one costs nothing;
a half-made one has no stamp and is made anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
INPUTS = ("requirements/dev-hashes.txt", "pyproject.toml")
BUILD_BACK_END = "setuptools"


class SetupError(Exception):
    """The environment cannot be made; the message says why and what to do."""


def digest(top: Path) -> str:
    """What `.venv` is made from: the interpreter, the place (scripts in it hold absolute paths), the files."""
    state = hashlib.sha256(f"{sys.version}\n{top}\n".encode())
    for name in INPUTS:
        state.update((top / name).read_bytes())
    return state.hexdigest()


def is_ready(top: Path) -> bool:
    stamp = top / ".venv" / "stamp"
    return stamp.exists() and stamp.read_text() == digest(top) and (top / ".venv/bin/python").exists()


def prepare(top: Path) -> None:
    if is_ready(top):
        return
    cache = top / ".cache"
    cache.mkdir(exist_ok=True)
    with (cache / "venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_ready(top):  # another process may have made it while this one waited
            make(top)


def make(top: Path) -> None:
    print("making .venv from requirements/dev-hashes.txt ...", file=sys.stderr)
    venv = top / ".venv"
    shutil.rmtree(venv, ignore_errors=True)
    run(
        [sys.executable, "-m", "venv", str(venv)],
        hint="Python's venv module has to work; on Debian and Ubuntu: apt install python3-venv",
    )
    pip = [str(venv / "bin/python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    hint = "pip has to reach a package index; what it refuses for its hash is not what was looked at"
    # What comes as source (PySpark) is built by the back end that has a hash as well, not by one that pip looks for.
    with tempfile.TemporaryDirectory() as folder:
        back_end = Path(folder, "back_end.txt")
        back_end.write_text(entry_of(BUILD_BACK_END, (top / "requirements/dev-hashes.txt").read_text()))
        run([*pip, "--require-hashes", "--no-deps", "-r", str(back_end)], hint=hint)
    hashed = ["--require-hashes", "--no-deps", "--no-build-isolation", "-r", "requirements/dev-hashes.txt"]
    run([*pip, *hashed], hint=hint, cwd=top)
    run([*pip, "--no-deps", "--no-build-isolation", "--editable", "."], hint="see the output above", cwd=top)
    (venv / "stamp").write_text(digest(top))


def entry_of(package: str, locked: str) -> str:
    """What the file says of this one package: its version, and the hashes on the lines below."""
    found = re.search(rf"^{re.escape(package)}==.*\n(?: +--hash=.*\n)*", locked, re.MULTILINE)
    if found is None:
        raise SetupError(f"requirements/dev-hashes.txt has no {package}; python -m tools.lock writes it")
    return found[0]


def run(command: list[str], *, hint: str, cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, stdout=sys.stderr, check=False)
    if done.returncode:
        raise SetupError(f"cannot make .venv: `{' '.join(command[1:])}` failed ({hint})")


if __name__ == "__main__":
    try:
        prepare(TOP)
    except (SetupError, OSError) as error:
        sys.exit(f"scripts/setup: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
