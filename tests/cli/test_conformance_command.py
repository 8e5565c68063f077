"""`kwire conformance` where nothing can be judged: what it says, and the exit code that tells it from a bad broker."""

from __future__ import annotations

import socket

from typer.testing import CliRunner

from kwire.cli.commands import app
from kwire.testing import Cluster


def test_nobody_there_is_exit_2_and_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    done = CliRunner().invoke(app, ["conformance", "--bootstrap", f"127.0.0.1:{port}"])
    assert done.exit_code == 2
    assert done.stderr.startswith("kwire: no Kafka broker to judge at")
    assert done.stderr.count("\n") == 1


def test_what_is_no_address_is_exit_2_and_one_line() -> None:
    done = CliRunner().invoke(app, ["conformance", "--bootstrap", "nowhere"])
    assert done.exit_code == 2
    assert done.stderr == "kwire: a broker's address looks like HOST:PORT, not 'nowhere'\n"


def test_a_broker_that_offers_nothing_of_what_was_asked_for_does_not_conform() -> None:
    """It was exit 0, that of a broker that passes every check."""
    with Cluster() as cluster:
        done = CliRunner().invoke(app, ["conformance", "-b", cluster.bootstrap_servers, "-k", "ShareFetch"])
    assert done.exit_code == 2
    assert "not offered  ShareFetch" in done.stdout
    assert done.stderr == "kwire: nothing was judged: the broker offers none of what was asked for\n"
