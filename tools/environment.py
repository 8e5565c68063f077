"""Makes the project's virtual environments, and keeps them in step with the files of hashes.

    tools/environment.py [dev | demo | docs | kafkatest | other]    # prints the path of its Python

`scripts/_python` calls it before each script that needs one: `dev` is `.venv`, which has everything; `demo`, `docs` and
`kafkatest` are small ones below `.cache`; `other` is as large as `dev`, and there is one for each Python that calls
this. Standard library only: it runs before anything is installed. A stamp in the environment holds the digest of all
that decides its content, so an up-to-date one costs nothing; a half-made one has no stamp and is made again.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
BUILD_BACK_END = "setuptools"


class SetupError(Exception):
    """The environment cannot be made; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Where it is, and what lists its packages, below the top of the clone. kwire is in each, as it is in the clone."""

    folder: str
    locked: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """The files that decide what it holds."""
        return (self.locked, "pyproject.toml", "setup.py", "kwire/_speedups.c")

    def python(self, top: Path) -> Path:
        return top / self.folder / "bin/python"


DEV = Environment(".venv", "requirements/dev-hashes.txt")
DEMO = Environment(".cache/demo", "requirements/demo-hashes.txt")
DOCS = Environment(".cache/docs", "requirements/docs-hashes.txt")
KAFKATEST = Environment(".cache/ducktape", "requirements/kafkatest-hashes.txt")
# Of the Python that runs this: scripts/pythons has one for each version.
OTHER = Environment(".cache/pythons/{}.{}".format(*sys.version_info), DEV.locked)
BY_NAME = {"dev": DEV, "demo": DEMO, "docs": DOCS, "kafkatest": KAFKATEST, "other": OTHER}


def digest(top: Path, wanted: Environment = DEV) -> str:
    """What it is made from: the interpreter, the place (scripts in it hold absolute paths), the files."""
    state = hashlib.sha256(f"{sys.version}\n{top}\n".encode())
    for name in wanted.inputs:
        state.update((top / name).read_bytes())
    return state.hexdigest()


def is_ready(top: Path, wanted: Environment = DEV) -> bool:
    stamp = top / wanted.folder / "stamp"
    return stamp.exists() and stamp.read_text() == digest(top, wanted) and wanted.python(top).exists()


def prepare(top: Path, wanted: Environment = DEV) -> Path:
    """Make it if need be; answers its Python. The demo runs in the large environment, too, if that is there."""
    if wanted is DEMO and is_ready(top, DEV):
        wanted = DEV
    if is_ready(top, wanted):
        return wanted.python(top)
    cache = top / ".cache"
    cache.mkdir(exist_ok=True)
    with (cache / "venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_ready(top, wanted):  # another process may have made it while this one waited
            make(top, wanted)
    return wanted.python(top)


def make(top: Path, wanted: Environment) -> None:
    print(f"making {wanted.folder} from {wanted.locked} ...", file=sys.stderr)
    venv = top / wanted.folder
    shutil.rmtree(venv, ignore_errors=True)
    run(
        [sys.executable, "-m", "venv", str(venv)],
        hint="Python's venv module has to work; on Debian and Ubuntu: apt install python3-venv",
    )
    pip = [str(wanted.python(top)), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    hint = (
        "pip has to reach a package index; if it reports a wrong hash, the file differs from the one that "
        "python -m tools.lock recorded"
    )
    # What comes as source (PySpark) is built by the back end that has a hash as well, not by one that pip looks for.
    with tempfile.TemporaryDirectory() as folder:
        back_end = Path(folder, "back_end.txt")
        back_end.write_text(entry_of(BUILD_BACK_END, (top / wanted.locked).read_text()))
        run([*pip, "--require-hashes", "--no-deps", "-r", str(back_end)], hint=hint)
    hashed = ["--require-hashes", "--no-deps", "--no-build-isolation", "-r", wanted.locked]
    run([*pip, *hashed], hint=hint, cwd=top)
    run([*pip, "--no-deps", "--no-build-isolation", "--editable", "."], hint="see the output above", cwd=top)
    (venv / "stamp").write_text(digest(top, wanted))


def entry_of(package: str, locked: str) -> str:
    """What the file says of this one package: its version, and the hashes on the lines below."""
    found = re.search(rf"^{re.escape(package)}==.*\n(?: +--hash=.*\n)*", locked, re.MULTILINE)
    if found is None:
        raise SetupError(f"the file of hashes has no {package}; python -m tools.lock writes it")
    return found[0]


def run(command: list[str], *, hint: str, cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, stdout=sys.stderr, check=False)
    if done.returncode:
        raise SetupError(f"cannot make the environment: `{' '.join(command[1:])}` failed ({hint})")


if __name__ == "__main__":
    try:
        print(prepare(TOP, BY_NAME[sys.argv[1] if len(sys.argv) > 1 else "dev"]).relative_to(TOP))
    except (SetupError, OSError) as error:
        sys.exit(f"scripts/setup: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
