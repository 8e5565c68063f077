"""Sources of the peers' tests: the sdist of the pinned release, which pip fetches into the cache, or a checkout.

Nothing of theirs is kept in this repository. An sdist without tests (aiokafka's and confluent-kafka's) cannot be used:
then somebody who has the repository names a checkout of it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from kwire.testing.kafka import ClusterError
from kwire.testing.kafka.jars import cache_dir, ensure
from proofs.peers_tests.peers import Peer
from tools.environment import entry_of

TOP = Path(__file__).resolve().parents[2]
HASHES = TOP / "requirements/dev-hashes.txt"


class NoTestsError(ClusterError):
    """The peer's tests cannot be had; the message says what to do."""


def source_of(peer: Peer, checkout: Path | None) -> Path:
    """The top of the peer's source, with its tests.

    Raises:
        NoTestsError: there are none in it, or pip cannot fetch it.
    """
    wanted = f"name a checkout of its repository at {pinned(peer)}: --checkout {peer.name}=PATH"
    if checkout is None and not peer.is_in_sdist:
        raise NoTestsError(f"{peer.name}: its sdist holds no tests; {wanted}")
    found = checkout if checkout is not None else _sdist(peer)
    missing = [path for path in peer.tests if not (found / path).exists()]
    if missing:
        raise NoTestsError(f"{peer.name}: {found} has no {missing[0]}; {wanted}")
    return found


def pinned(peer: Peer) -> str:
    """The release that kwire is tested beside."""
    return entry_of(peer.name, HASHES.read_text()).split()[0].partition("==")[2]


def version_of(peer: Peer, source: Path) -> str:
    """The release that a source is of."""
    found = re.search(r"""^_*version_* *= *["'](.+)["']""", (source / peer.version_in).read_text(), re.MULTILINE)
    return found[1] if found else "unknown"


def _sdist(peer: Peer) -> Path:
    directory = cache_dir() / "peers" / f"{peer.name}-{pinned(peer)}"
    ensure(directory, lambda part: _fetch(peer, part))
    return directory


def _fetch(peer: Peer, part: Path) -> None:
    sys.stderr.write(f"fetching the source of {peer.name} {pinned(peer)} (once) ...\n")
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "wanted.txt")
        wanted.write_text(entry_of(peer.name, HASHES.read_text()))
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        options = ["--no-binary", ":all:", "--require-hashes", "-r", str(wanted), "-d", folder]
        done = subprocess.run([*pip, *options], capture_output=True, text=True, check=False)
        sdists = list(Path(folder).glob("*.tar.gz"))
        if done.returncode or not sdists:
            said = done.stderr.strip().splitlines() or ["nothing"]
            raise NoTestsError(f"pip fetches no source of {peer.name} {pinned(peer)}: {said[-1]}")
        _unpack(sdists[0], part)


def _unpack(sdist: Path, part: Path) -> None:
    """All that is below the one folder of it."""
    with tarfile.open(sdist) as archive:
        for member in archive.getmembers():
            member.name = member.name.partition("/")[2]
            if member.name:
                archive.extract(member, part, filter="data")
