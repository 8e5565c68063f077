"""Other people's libraries for the benchmarks, installed beside the environment so that they cannot disturb it.

`ensure` installs a pinned requirements file into a directory of its own in the cache, once for all clones that share
one; put that directory into PYTHONPATH of the process that needs it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from kwire.testing.kafka.jars import cache_dir

TOP = Path(__file__).resolve().parent.parent


class PeerError(Exception):
    """A peer cannot be installed; the message says why and what to do."""


def ensure(requirements: str) -> Path:
    """The directory with everything that a requirements file names.

    Raises:
        PeerError: pip failed.
    """
    source = TOP / requirements
    state = f"{sys.version}\n{source.read_text()}"
    home = cache_dir() / "bench"
    target = home / hashlib.sha256(state.encode()).hexdigest()[:16]
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _install(source, target)
    return target


def _install(source: Path, target: Path) -> None:
    """In place by one rename when it is complete, so that a half-made one is never taken for ready."""
    print(f"installing {source.name} ...", file=sys.stderr)
    unfinished = target.with_suffix(f".{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    done = subprocess.run([*pip, "--target", str(unfinished), "-r", str(source)], stdout=sys.stderr, check=False)
    if done.returncode:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise PeerError(f"cannot install {source.name}: pip failed, see above; it has to reach a package index")
    unfinished.rename(target)
