"""Machines made of namespaces, on one bridge. It runs as root of namespaces of its own: see `driver`."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

BRIDGE = "machines"
NETWORK = "192.0.2"  # RFC 5737: for documentation, so that no real machine has one of these addresses
DRIVER_HOST = 254
START_TIMEOUT_S = 10

# /mnt is where the tests put everything. /tmp/hsperfdata_USER is where JVMs tell of themselves, if nobody else may
# write there, by their process number, which is the same one on several machines. Children without a parent end without
# a trace, as below a real init.
INIT = """\
set -e
mount -t tmpfs none /mnt
mkdir -p {jvms}
mount -t tmpfs -o mode=755 none {jvms}
hostname {name}
ip link set lo up
trap '' CHLD
touch /mnt/.ready
exec sleep infinity
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """`pid` is that of its first process, as seen from outside."""

    name: str
    address: str
    pid: int

    def to_json(self) -> dict[str, str | int]:
        return asdict(self)


def start_machines(count: int, folder: Path) -> list[Machine]:
    """So many of them, which reach each other, and are reached from here, by name."""
    _prepare_network([f"machine{i}" for i in range(1, count + 1)], folder / "hosts")
    return [_start(i) for i in range(1, count + 1)]


def _prepare_network(names: Sequence[str], hosts: Path) -> None:
    addresses = [f"{_address(i)} {name}\n" for i, name in enumerate(names, 1)]
    hosts.write_text(f"127.0.0.1 localhost\n{_address(DRIVER_HOST)} driver\n{''.join(addresses)}")
    _run("mount", "--bind", str(hosts), "/etc/hosts")
    _run("hostname", "driver")
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", "name", BRIDGE, "type", "bridge")
    _run("ip", "address", "add", f"{_address(DRIVER_HOST)}/24", "dev", BRIDGE)
    _run("ip", "link", "set", BRIDGE, "up")


def _start(index: int) -> Machine:
    name, cable = f"machine{index}", f"cable{index}"
    script = INIT.format(name=name, jvms=f"/tmp/hsperfdata_{_user()}")
    namespaces = ["--net", "--mount", "--pid", "--uts", "--fork", "--mount-proc", "--kill-child"]
    parent = subprocess.Popen(["unshare", *namespaces, "sh", "-c", script], stdin=subprocess.DEVNULL)
    pid = _first_child(parent)
    _run("ip", "link", "add", "name", cable, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    _run("ip", "link", "set", cable, "master", BRIDGE, "up")
    inside = f"ip address add {_address(index)}/24 dev eth0 && ip link set eth0 up"
    _run("nsenter", f"--target={pid}", "--net", "sh", "-c", inside)
    return Machine(name=name, address=_address(index), pid=pid)


def _first_child(parent: subprocess.Popen[bytes]) -> int:
    """Once it has set up its files."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    while time.monotonic() < deadline_s and parent.poll() is None:
        for pid in children.read_text().split():
            if Path("/proc", pid, "root", "mnt", ".ready").exists():
                return int(pid)
        time.sleep(0.02)
    raise RuntimeError("a machine did not start: see the output above")


def _run(*command: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"`{shlex.join(command)}` failed: {done.stdout.strip()}")


def _address(host: int) -> str:
    return f"{NETWORK}.{host}"


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name
