"""`kwire conformance` without a broker: what it says, and the exit code that tells "no broker" from "a bad broker"."""

from __future__ import annotations

import socket

from typer.testing import CliRunner

from kwire.cli.commands import app


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
