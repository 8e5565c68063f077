"""`kwire fake`: the in-process cluster as a program, for clients in other processes and languages."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from kwire.cli.exits import clean_exits
from kwire.errors import InvalidArgumentError

DEFAULT_PARTITIONS = 1


def run_fake_cluster(
    brokers: Annotated[int, typer.Option("--brokers", "-n", min=1, max=100, help="How many brokers.")] = 1,
    topics: Annotated[
        str, typer.Option("--topics", "-t", metavar="A:3,B", help="Topics to begin with, and their partitions.")
    ] = "",
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="The first broker's port; 0 for any.")
    ] = 0,
    release: Annotated[
        str, typer.Option("--release", metavar="3.9", help="Speak as this release of Kafka does.")
    ] = "4.4",
) -> None:
    """Run a fake Kafka cluster: in memory, gone when it ends.

    Prints the bootstrap address, and serves until Ctrl-C. For tests; nothing is kept.
    """
    with clean_exits():
        from kwire.testing import Cluster

        with Cluster(brokers, topics=parse_topics(topics), port=port, release=release) as cluster:
            print(cluster.bootstrap_servers, flush=True)
            threading.Event().wait()


def parse_topics(text: str) -> dict[str, int]:
    """Names and numbers of partitions, as in "orders:3,payments".

    Raises:
        InvalidArgumentError: It says something else.
    """
    found: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, colon, count = item.partition(":")
        if not name or (colon and not (count.isdecimal() and int(count) > 0)):
            raise InvalidArgumentError(f"topics look like NAME:PARTITIONS,NAME, not {item!r}")
        found[name] = int(count) if colon else DEFAULT_PARTITIONS
    return found
