"""A Debian in a folder of the cache, with a Python of it, Java and git: for Pythons that the machine does not have.

Made by debootstrap from the mirror that apt of this machine uses, and entered by chroot, so it takes root and Linux.
The clone, the cache and what pip is set up with are in there under their own names. They are mounted in a namespace of
the command, and are gone with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kwire.testing.kafka.jars import cache_dir, file_lock

TOP = Path(__file__).resolve().parents[2]
SUITES = {"3.11": "bookworm", "3.13": "trixie"}
NEWEST_SUITE = "sid"
PACKAGES = ("default-jre-headless", "git")
TOOLS = ("debootstrap", "unshare", "chroot")
# A mirror may stand still for weeks; what it has is signed all the same.
APT = ("apt-get", "--quiet", "--option", "Acquire::Check-Valid-Until=false")

ENTER = """\
set -e
folder=$1 at=$2
shift 2
mount -t proc proc "$folder/proc"
mount --rbind /dev "$folder/dev"
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then
        mkdir -p "$folder$1"
    else
        mkdir -p "$folder$(dirname "$1")"
        touch "$folder$1"
    fi
    mount --bind "$1" "$folder$1"
    shift
done
shift
exec chroot "$folder" sh -c 'cd "$0" && exec "$@"' "$at" "$@"
"""
# What hosts are looked up in: apt wants it, too.
NAMES = ("/etc/resolv.conf", "/etc/hosts")
SETTINGS = (*NAMES, "/etc/pip.conf", "/etc/ssl/certs", tempfile.gettempdir())
LEFT_OUT = ("JAVA_HOME", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")  # of the machine: nothing of it is in there
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class NoDebianError(Exception):
    """It cannot be made; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Debian:
    """One of them."""

    suite: str
    folder: Path

    def inside(self, command: Sequence[str]) -> Sequence[str]:
        """The command as it is run in there, at the top of the clone."""
        environ = [*(f"--unset={name}" for name in LEFT_OUT), "LANG=C.UTF-8", f"KWIRE_CACHE={cache_dir()}"]
        return self._entered([*environ, *command], at=TOP, shared=shared_paths(os.environ))

    def set_up(self, command: Sequence[str]) -> Sequence[str]:
        """The command as it is run to change what is in there: nothing of this machine is within its reach."""
        return self._entered(["DEBIAN_FRONTEND=noninteractive", *command], at=Path("/"), shared=map(Path, NAMES))

    def _entered(self, command: Sequence[str], *, at: Path, shared: Iterator[Path]) -> Sequence[str]:
        entry = ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "sh", str(self.folder), str(at)]
        return [*entry, *map(str, shared), "--", "env", f"PATH={PATH}", *command]


def shared_paths(environ: Mapping[str, str]) -> Iterator[Path]:
    """What is in there as it is here: the clone, the caches, and what pip and look-ups are set up with."""
    of_pip = [value for name, value in environ.items() if name.startswith("PIP_") and value.startswith("/")]
    own = [str(path) for path in (TOP, cache_dir(), Path.home() / ".cache/pip")]
    return (path for path in map(Path, dict.fromkeys([*own, *SETTINGS, *of_pip])) if path.exists())


def prepare(version: str) -> Debian:
    """The Debian that has this Python, made if need be.

    Raises:
        NoDebianError: it cannot be made.
    """
    suite = SUITES.get(version, NEWEST_SUITE)
    debian = Debian(suite, cache_dir() / "debian" / f"{suite}-python{version}")
    if os.geteuid() != 0:
        raise NoDebianError(f"or run this command as root: it then installs Python from Debian {suite}")
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        raise NoDebianError(f"to have it from Debian {suite}, install {' and '.join(missing)}")
    with file_lock(_beside(debian.folder, "lock")):
        if not debian.folder.exists():
            make(debian, [*PACKAGES, f"python{version}-venv"])
    return debian


def make(debian: Debian, packages: Sequence[str]) -> None:
    """Put in place by one rename, when everything is in it."""
    print(f"making Debian {debian.suite} in {debian.folder} ...", file=sys.stderr, flush=True)
    part = Debian(debian.suite, _beside(debian.folder, "part"))
    shutil.rmtree(part.folder, ignore_errors=True)
    with _beside(debian.folder, "log").open("w") as log:
        for command in (
            ["debootstrap", "--variant=minbase", debian.suite, str(part.folder), *mirror()],
            part.set_up([*APT, "update"]),
            part.set_up([*APT, "install", "--yes", "--no-install-recommends", *packages]),
        ):
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
            if done.returncode:
                raise NoDebianError(
                    f"debootstrap or apt-get failed while making Debian {debian.suite}: read {log.name}"
                )
    part.folder.rename(debian.folder)


def mirror() -> Sequence[str]:
    """Where apt of this machine gets Debian from; nothing if it gets none, and debootstrap knows one."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"]
    try:
        done = subprocess.run([*command, "Label: Debian"], capture_output=True, text=True, check=False)
    except OSError:
        return []
    return done.stdout.split()[:1]


def _beside(folder: Path, suffix: str) -> Path:
    return folder.with_name(f"{folder.name}.{suffix}")
