"""A cluster of kfake, in a process that ends with its standard input, and so with this process at the latest."""

from __future__ import annotations

import json
import select
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING

from kwire.testing.kafka.jars import ClusterError, cache_dir
from kwire.testing.kfake.build import ensure_kfake

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from kwire.testing.kfake.options import TlsFiles, User

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
LISTENING = "listening "


class KfakeCluster:
    """A cluster of kfake brokers. Use as a context manager, or call `start` and `stop`.

    Args:
        brokers: the number of brokers.
        topics: topics that exist from the beginning, and their numbers of partitions.
        settings: broker settings under Kafka's names; kfake knows some of them.
        min_session_timeout_ms: the shortest `session_timeout_ms` that members may have.
        tls: the brokers' TLS files; clients then connect with `security_protocol` SSL or SASL_SSL.
        users: the users that may log in by SASL; without users, clients do not log in.
        authorize: whether users may do only what their `acls` say.
        cache: where the program is kept.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, object] | None = None,
        min_session_timeout_ms: int = 500,
        tls: TlsFiles | None = None,
        users: Sequence[User] = (),
        authorize: bool = False,
        cache: Path | None = None,
    ) -> None:
        self._wishes = {
            "brokers": brokers,
            "topics": dict(topics or {}),
            "settings": {name: _text(value) for name, value in (settings or {}).items()},
            "min_session_timeout_ms": min_session_timeout_ms,
            "tls": tls.to_json() if tls is not None else None,
            "users": [user.to_json() for user in users],
            "authorize": authorize,
        }
        self._cache = cache
        self._process: subprocess.Popen[str] | None = None
        self._servers = ""

    def __repr__(self) -> str:
        return f"<KfakeCluster: {self._wishes['brokers']} broker(s), {self._servers or 'not running'}>"

    def __enter__(self) -> KfakeCluster:
        self.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, as "host:port,host:port".

        Raises:
            ClusterError: The cluster does not run.
        """
        if not self._servers:
            raise ClusterError("kfake is not started")
        return self._servers

    @property
    def is_running(self) -> bool:
        """Whether the process runs: a request may crash kfake."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; when this returns, clients can connect. A cluster that was stopped starts empty.

        Raises:
            MissingSoftwareError: There is no Go, or it cannot build kfake.
            ClusterError: kfake does not start; the message has its output.
        """
        program = ensure_kfake(self._cache or cache_dir())
        with tempfile.TemporaryFile("w+") as said:
            self._process = subprocess.Popen(
                [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
                text=True, start_new_session=True,  # Ctrl-C reaches only this process
            )  # fmt: skip
            line = self._first_line(self._process)
            if not line.startswith(LISTENING):
                self.stop()
                said.seek(0)
                raise ClusterError(f"kfake does not start: {said.read().strip()[-500:] or 'it says nothing'}")
        self._servers = line.removeprefix(LISTENING).strip()

    def _first_line(self, process: subprocess.Popen[str]) -> str:
        into, out = _pipes(process)
        try:
            into.write(json.dumps(self._wishes) + "\n")
            into.flush()
        except BrokenPipeError:
            return ""
        readable, _, _ = select.select([out], [], [], START_TIMEOUT_S)
        return out.readline() if readable else ""

    def stop(self) -> None:
        """End the process. Does nothing if it does not run."""
        process, self._process, self._servers = self._process, None, ""
        if process is None:
            return
        for pipe in _pipes(process):
            pipe.close()  # the process ends with its input
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
