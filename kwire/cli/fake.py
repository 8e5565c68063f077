"""`kwire fake`: the in-process cluster as a program, for clients in other processes and languages."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kwire.cli.exits import clean_exits, sigterm_interrupts
from kwire.errors import ConfigError, InvalidArgumentError

if TYPE_CHECKING:
    from kwire.testing import Cluster

DEFAULT_PARTITIONS = 1
MAX_PORT = 65_535


def run_fake_cluster(
    brokers: Annotated[int, typer.Option("--brokers", "-n", metavar="N", min=1, max=100, help="How many brokers.")] = 1,
    topics: Annotated[
        str,
        typer.Option(
            "--topics", "-t", metavar="TOPICS", help="Topics to begin with, and their partitions: orders:3,bills."
        ),
    ] = "",
    port: Annotated[
        int,
        typer.Option("--port", "-p", metavar="PORT", min=0, max=MAX_PORT, help="The first broker's port; 0 for any."),
    ] = 0,
    release: Annotated[
        str, typer.Option("--release", metavar="RELEASE", help="Speak as this release of Kafka does, such as 3.9.")
    ] = "4.4",
    security_protocol: Annotated[
        str | None,
        typer.Option(
            "--security-protocol",
            metavar="PROTOCOL",
            help="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. Default: what --tls and --user ask for.",
        ),
    ] = None,
    tls: Annotated[
        bool, typer.Option("--tls", help="Speak TLS, with certificates made on the fly (kwire[testing]).")
    ] = False,
    users: Annotated[
        list[str] | None,
        typer.Option("--user", metavar="NAME:PASSWORD", help="A user who may log in by SASL; may be repeated."),
    ] = None,
) -> None:
    """Run a Kafka cluster in memory, for tests.

    Prints the bootstrap address, with TLS or SASL also what clients have to set, and serves until Ctrl-C or SIGTERM.
    Its records are gone when it ends.
    """
    with clean_exits(), sigterm_interrupts():
        from kwire.testing import Cluster

        if port + brokers - 1 > MAX_PORT:
            raise ConfigError(f"--port {port} leaves no ports for {brokers} brokers: the last is {MAX_PORT}")
        try:
            cluster = Cluster(
                brokers,
                topics=parse_topics(topics),
                port=port,
                release=release,
                security_protocol=security_protocol,
                tls=tls or None,
                users=parse_users(users or []),
            )
        except InvalidArgumentError as error:
            raise ConfigError(str(error)) from error
        with _running(cluster, port):
            print(cluster.bootstrap_servers, flush=True)
            print_client_config(cluster.client_config())
            threading.Event().wait()


@contextmanager
def _running(cluster: Cluster, port: int) -> Iterator[None]:
    """A context in which the cluster runs. Raises: InvalidArgumentError, if it cannot listen at the port."""
    try:
        cluster.start()
    except OSError as error:
        raise InvalidArgumentError(
            f"no broker can listen at --port {port}: {error.strerror}; --port 0 takes a free one"
        ) from error
    try:
        yield
    finally:
        cluster.stop()


def print_client_config(config: Mapping[str, str]) -> None:
    """Print the settings of clients as a properties file; nothing if clients need none."""
    if config["security.protocol"] == "PLAINTEXT":
        return
    for name, value in config.items():
        print(f"{name}={value}", flush=True)
    if "ssl.truststore.location" in config:
        print(f"# librdkafka: ssl.ca.location={config['ssl.truststore.location']}", flush=True)


def parse_users(texts: Sequence[str]) -> dict[str, str]:
    """Parse names and passwords, such as "alice:secret".

    Raises:
        InvalidArgumentError: A text has another form. It is not quoted, since it may have a password.
    """
    parted = [text.partition(":") for text in texts]
    if not all(name and password for name, _colon, password in parted):
        raise InvalidArgumentError("users look like NAME:PASSWORD, and one does not")
    return {name: password for name, _colon, password in parted}


def parse_topics(text: str) -> dict[str, int]:
    """Parse names of topics with numbers of partitions, such as "orders:3,payments".

    Raises:
        InvalidArgumentError: The text has another form.
    """
    found: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, colon, count = item.partition(":")
        if not name or (colon and not (count.isdecimal() and int(count) > 0)):
            raise InvalidArgumentError(f"topics look like NAME:PARTITIONS,NAME, not {item!r}")
        found[name] = int(count) if colon else DEFAULT_PARTITIONS
    return found
