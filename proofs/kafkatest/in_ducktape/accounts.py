"""Machines for ducktape: a command enters the namespaces of one, where ssh would log in."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from ducktape.cluster.json import JsonCluster
from ducktape.cluster.linux_remoteaccount import LinuxRemoteAccount
from ducktape.cluster.remoteaccount import RemoteAccountSSHConfig, RemoteCommandError, SSHOutputIter

NAMESPACES = ("--net", "--mount", "--pid", "--uts")


class MachineCluster(JsonCluster):  # type: ignore[misc]
    """The machines of a file: a list of objects with `name`, `address` and `pid`, that of the first process of each."""

    def __init__(self, cluster_file: str, **_options: object) -> None:
        machines = json.loads(Path(cluster_file).read_text())
        pids = {machine["name"]: machine["pid"] for machine in machines}

        def account(config: RemoteAccountSSHConfig, address: str, **_options: object) -> MachineAccount:
            return MachineAccount(config, address, pid=pids[config.host])

        nodes = [
            {"externally_routable_ip": machine["address"], "ssh_config": {"host": machine["name"]}}
            for machine in machines
        ]
        super().__init__({"nodes": nodes}, make_remote_account_func=account)


class MachineAccount(LinuxRemoteAccount):  # type: ignore[misc]
    """Root on one machine.

    Args:
        pid: a process in the machine's namespaces, by its number outside of them.
    """

    def __init__(self, config: RemoteAccountSSHConfig, address: str, *, pid: int) -> None:
        super().__init__(config, address)
        self.pid = pid

    def __repr__(self) -> str:
        """In errors, where all of its parts say nothing."""
        return str(self)

    @property
    def sftp_client(self) -> MachineFiles:
        return MachineFiles(Path(f"/proc/{self.pid}/root"))

    def close(self) -> None:
        """Nothing is kept open."""

    def ssh(self, cmd: str, allow_fail: bool = False) -> int:
        """Run it to its end; the exit status."""
        done = self._start(cmd, stderr=subprocess.PIPE)
        _, said = done.communicate()
        self._judge(cmd, done.returncode, said, allow_fail)
        return done.returncode

    def ssh_output(
        self, cmd: str, allow_fail: bool = False, combine_stderr: bool = True, timeout_sec: float | None = None
    ) -> bytes:
        """Run it to its end; what it printed."""
        done = self._start(cmd, stderr=subprocess.STDOUT if combine_stderr else subprocess.PIPE)
        printed, said = done.communicate(timeout=timeout_sec)
        self._judge(cmd, done.returncode, said, allow_fail)
        return printed

    def ssh_capture(
        self,
        cmd: str,
        allow_fail: bool = False,
        callback: Callable[[str], object] | None = None,
        combine_stderr: bool = True,
        timeout_sec: float | None = None,  # noqa: ARG002 - nobody asks for one
    ) -> SSHOutputIter:
        """Start it; the lines that it prints, as they come."""
        started = self._start(cmd, stderr=subprocess.STDOUT if combine_stderr else subprocess.DEVNULL)

        def lines() -> Iterator[object]:
            assert started.stdout is not None
            with started.stdout:
                for line in started.stdout:
                    text = line.decode(errors="replace")
                    yield callback(text) if callback else text
            self._judge(cmd, started.wait(), b"", allow_fail)

        return SSHOutputIter(lines)

    def _start(self, command: str, *, stderr: int) -> subprocess.Popen[bytes]:
        self._log(logging.DEBUG, f"Running command: {command}")
        entering = ["nsenter", f"--target={self.pid}", *NAMESPACES, "--wd=/", "bash", "-c", command]
        return subprocess.Popen(
            entering, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
        )

    def _judge(self, command: str, status: int, said: bytes | None, allow_fail: bool) -> None:
        if status == 0:
            return
        if not allow_fail:
            raise RemoteCommandError(self, command, status, said)
        self._log(logging.DEBUG, f"Command '{command}' exited with {status}: {said!r}")


class MachineFiles:
    """A machine's files, by their paths there. The kernel shows them below `/proc/PID/root`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, path: str, mode: str = "r") -> IO[str]:
        return open(self._at(path), mode.replace("b", ""))

    def get(self, remote: str, local: str) -> None:
        shutil.copyfile(self._at(remote), local)

    def put(self, local: str, remote: str) -> None:
        shutil.copyfile(local, self._at(remote))

    def mkdir(self, path: str, mode: int = 0o755) -> None:
        os.mkdir(self._at(path), mode)

    def listdir(self, path: str) -> list[str]:
        return os.listdir(self._at(path))

    def stat(self, path: str) -> os.stat_result:
        return os.stat(self._at(path))

    def lstat(self, path: str) -> os.stat_result:
        return os.lstat(self._at(path))

    def _at(self, path: str) -> Path:
        return self._root / path.lstrip("/")
