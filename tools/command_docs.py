"""`python -m tools.command_docs`: runs the commands of docs/command-line.md, and writes what they print below them.

A block of ```console holds commands, behind `$ `, and their output. All run one after the other against one cluster in
this process. Comments of the page say what happens meanwhile; `PageWorld` does it. The wall clock always shows NOW_NS.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from tempfile import TemporaryFile
from unittest import mock

from kwire import Consumer, OffsetAndMetadata, TopicPartition
from kwire.cli.commands import app
from kwire.clock import TimeSource, install
from kwire.testing import Cluster

PAGE = Path(__file__).parents[1] / "docs" / "command-line.md"
SERVER = "localhost:9092"
"""What the page calls the broker."""
NOW_NS = 1_795_593_600_000_000_000
"""2026-11-25T08:00:00Z."""

_BLOCK = re.compile(r"(?<=```console\n)(.*?)(?=```)|(<!-- \w[^>]* -->)", re.DOTALL)


class PageWorld:
    """The cluster of the page, and a consumer that reads there while it says so."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._consumer: Consumer[bytes, bytes] | None = None

    def obey(self, comment: str) -> None:
        """Do what a comment of the page says. A comment that asks for nothing is passed by."""
        if comment == "<!-- billing begins to read -->":
            self._consumer = Consumer(
                "orders",
                bootstrap_servers=self._cluster.bootstrap_servers,
                group_id="billing",
                client_id="desk",
                group_protocol="consumer",
                enable_auto_commit=False,
            )
            while len(self._consumer.assignment()) < 2:
                self._consumer.poll(0.05)
            partitions = [TopicPartition("orders", number) for number in (0, 1)]
            self._consumer.commit_sync(dict.fromkeys(partitions, OffsetAndMetadata(1)))
        if comment == "<!-- billing stops -->":
            self.close()

    def close(self) -> None:
        """Have the consumer leave."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def page() -> str:
    """The page as it has to be."""
    text = PAGE.read_text(encoding="utf-8")
    before = install(TimeSource(wall_clock_ns=lambda: NOW_NS))
    try:
        with Cluster(topics={"orders": 2}) as cluster, ExitStack() as stack:
            world = PageWorld(cluster)
            stack.callback(world.close)
            environment = {"KWIRE_BOOTSTRAP_SERVERS": cluster.bootstrap_servers, "COLUMNS": "100"}
            stack.enter_context(mock.patch.dict(os.environ, environment))

            def rewritten(found: re.Match[str]) -> str:
                if found[2]:
                    world.obey(found[2])
                    return found[0]
                return _same_everywhere("".join(_with_output(found[0])), cluster.bootstrap_servers)

            return _BLOCK.sub(rewritten, text)
    finally:
        install(before)


def _same_everywhere(text: str, servers: str) -> str:
    return re.sub(r"stands for .*", "stands for 127.0.0.1:9092", text.replace(servers, SERVER))


def _with_output(block: str) -> Iterator[str]:
    for line in block.splitlines():
        if line.startswith("$ "):
            yield f"{line}\n"
            yield _printed(line.removeprefix("$ "))


def _printed(line: str) -> str:
    """What a command prints, on both its outputs. In front of it another one may stand, which is piped into it."""
    before, _, command = line.rpartition("| kwire ")
    words = shlex.split(command.removeprefix("kwire "))
    typed = subprocess.run(shlex.split(before), capture_output=True, check=True).stdout if before else b""
    with TemporaryFile("w+", buffering=1, encoding="utf-8") as output:
        with redirect_stdout(output), redirect_stderr(output), _standard_input(typed), suppress(SystemExit):
            app(words, prog_name="kwire")
        output.seek(0)
        return output.read()


@contextmanager
def _standard_input(data: bytes) -> Iterator[None]:
    with mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(data))):
        yield


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
