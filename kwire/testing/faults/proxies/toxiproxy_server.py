"""Toxiproxy itself: built once with Go into a cache, run below a guard so that it never outlives us.

    with ToxiproxyServer(cache=cache_dir()) as server:
        server.client.create("broker-0", upstream="127.0.0.1:9092")

A build is put in place by one rename under a file lock, so clones and processes may share a cache. Used by `chain`.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.testing.faults.proxies.toxiproxy import Toxiproxy, ToxiproxyError
from kwire.testing.go_programs import last_line, run_go
from kwire.testing.kafka.addresses import HOST, free_ports
from kwire.testing.kafka.guard import guarded
from kwire.testing.kafka.jars import ClusterError, file_lock

if TYPE_CHECKING:
    from types import TracebackType

VERSION = "2.12.0"
PACKAGE = f"github.com/Shopify/toxiproxy/v2/cmd/server@v{VERSION}"
VERSION_FLAG = f"-X github.com/Shopify/toxiproxy/v2.Version={VERSION}"  # or it would not know its own
START_TIMEOUT_S = 30.0
START_ATTEMPTS = 3
POLL_INTERVAL_S = 0.02
GRACE_S = 5.0


def ensure_toxiproxy(cache: Path) -> Path:
    """The program, built if the cache lacks it.

    Raises:
        MissingSoftwareError: There is no Go, or it cannot build it.
    """
    home = cache.absolute() / "toxiproxy"  # it is started in a directory of its own
    program = home / VERSION / "toxiproxy"
    if not program.exists():
        with file_lock(home / "lock"):
            if not program.exists():  # another process may have built it while this one waited
                build(program)
    return program


def build(program: Path) -> None:
    """Has Go download and build it, and puts it in place."""
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as part:
        built = Path(part, "server")
        arguments = ["install", "-ldflags", VERSION_FLAG, PACKAGE]
        run_go(arguments, program="toxiproxy", version=VERSION, built=built, environment={"GOBIN": part})
        built.rename(program)


class ToxiproxyServer:
    """Use as a context manager, or call `start` and `stop`.

    Args:
        cache: where the program is kept.
    """

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._directory: Path | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._client: Toxiproxy | None = None
        self._mark = ""
        self.version = ""

    def __enter__(self) -> ToxiproxyServer:
        self.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def client(self) -> Toxiproxy:
        """Tells it what to do.

        Raises:
            ClusterError: It does not run.
        """
        if self._client is None:
            raise ClusterError("toxiproxy is not started")
        return self._client

    def start(self) -> None:
        """When this returns, it answers.

        Raises:
            MissingSoftwareError: It cannot be built.
            ClusterError: It does not start.
        """
        program = ensure_toxiproxy(self._cache)
        for attempt in range(1, START_ATTEMPTS + 1):
            port = free_ports(1)[0]
            self._launch(program, port)
            try:
                self.version = self._wait_ready(Toxiproxy(HOST, port))
            except ClusterError:
                self.stop()
                if attempt == START_ATTEMPTS:  # else somebody may have been quicker to take the port
                    raise
            else:
                self._client = Toxiproxy(HOST, port)
                return

    def _launch(self, program: Path, port: int) -> None:
        # The guard removes the server's directory and, if that leaves it empty, the one around it.
        self._directory = Path(tempfile.mkdtemp(prefix="kwire-toxiproxy-"))
        home = self._directory / "server"
        home.mkdir()
        # Its first proxy, which never listens, tells it from another toxiproxy that has this port already.
        self._mark = f"kwire-{secrets.token_hex(8)}"
        mark = {"name": self._mark, "listen": f"{HOST}:0", "upstream": f"{HOST}:1", "enabled": False}
        (home / "proxies.json").write_text(json.dumps([mark]))
        command = [str(program), "-host", HOST, "-port", str(port), "-config", "proxies.json"]
        with (home / "log").open("wb") as log:
            # A session of its own: Ctrl-C in the terminal goes to the one who decides.
            self._guard = subprocess.Popen(
                guarded(command, lock=home / "guard", grace_s=GRACE_S, remove=home),
                cwd=home, env={**os.environ, "LOG_LEVEL": "error"}, stdin=subprocess.PIPE, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def _wait_ready(self, client: Toxiproxy) -> str:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                client.delete(self._mark)
                return client.version()
            except ToxiproxyError as error:
                is_somebody_else = error.status == http.client.NOT_FOUND
                if is_somebody_else or not self._is_running or time.monotonic() > deadline_s:
                    raise ClusterError(f"toxiproxy does not start: {self._last_words()}") from error
            time.sleep(POLL_INTERVAL_S)

    @property
    def _is_running(self) -> bool:
        return self._guard is not None and self._guard.poll() is None

    def _last_words(self) -> str:
        assert self._directory is not None
        return last_line((self._directory / "server" / "log").read_text(errors="replace"))

    def stop(self) -> None:
        """Ends it and every connection through it. Does nothing if it does not run."""
        self._client = None
        guard, self._guard = self._guard, None
        if guard is not None:
            assert guard.stdin is not None
            guard.stdin.close()  # what the guard would see if this process died: it kills
            guard.wait(GRACE_S + 5)
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
