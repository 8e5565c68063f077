"""Machines made of namespaces: what Kafka's system tests believe of them is so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proofs.kafkatest.running import NAMESPACES, TOP

pytestmark = pytest.mark.slow

RIGHTS = () if os.geteuid() == 0 else ("--map-root-user",)
START = """
import subprocess, sys
from pathlib import Path
from proofs.kafkatest.machines import start_machines

first, second = start_machines(2, Path(sys.argv[1]))

def on(machine, command):
    namespaces = ["--net", "--mount", "--pid", "--uts"]
    return subprocess.run(["nsenter", f"--target={machine.pid}", *namespaces, "bash", "-c", command], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
"""


def may_make_namespaces() -> bool:
    if not all(shutil.which(program) for program in ("unshare", "nsenter", "ip")):
        return False
    return subprocess.run(["unshare", *RIGHTS, *NAMESPACES, "true"], capture_output=True, check=False).returncode == 0


def printed_on_machines(folder: Path, program: str) -> str:
    """What the program prints; it has two machines, and `on` to run a command on one."""
    if not may_make_namespaces():
        pytest.skip("the system lets nobody make namespaces here")
    command = ["unshare", *RIGHTS, *NAMESPACES, sys.executable, "-c", START + program, str(folder)]
    return subprocess.run(command, cwd=TOP, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout


def test_each_has_a_name_files_and_processes_of_its_own(tmp_path: Path) -> None:
    program = """
on(first, "touch /mnt/mine; sleep 50 >/dev/null 2>&1 &")
for machine in (first, second):
    print(on(machine, "hostname; ls /mnt; ps -eo args | grep -c '^sleep 50'").split())
"""
    assert printed_on_machines(tmp_path, program).splitlines() == ["['machine1', 'mine', '1']", "['machine2', '0']"]


def test_they_reach_each_other_by_name_at_the_same_port(tmp_path: Path) -> None:
    program = """
serve = "import socket; s = socket.create_server(('', 9092)); s.accept()[0].sendall(socket.gethostname().encode())"
ask = "import socket; print(socket.create_connection(('{}', 9092)).recv(99).decode())"
for machine in (first, second):
    on(machine, f'{sys.executable} -c "{serve}" >/dev/null 2>&1 &')
    on(machine, "until ss -ltn | grep -q 9092; do :; done")
for here, there in ((first, second), (second, first)):
    print(on(here, f'{sys.executable} -c "{ask.format(there.name)}"').strip())
"""
    assert printed_on_machines(tmp_path, program).split() == ["machine2", "machine1"]


def test_nothing_of_them_outlives_who_made_them(tmp_path: Path) -> None:
    pids = printed_on_machines(tmp_path, 'print(on(first, "readlink /proc/1/ns/net"))').split()
    alive = {link for path in Path("/proc").glob("[0-9]*/ns/net") if (link := read_link(path))}
    assert pids
    assert not alive.intersection(pids)


def read_link(path: Path) -> str | None:
    """None if the process has just ended."""
    try:
        return str(path.readlink())
    except OSError:
        return None
