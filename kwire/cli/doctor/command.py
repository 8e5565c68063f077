"""The command `kwire doctor`: its options, and how the checks are printed."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kwire.cli import terminal
from kwire.cli.exits import FAILED, clean_exits
from kwire.cli.options import AsJson, ConfigFile, Properties, Servers, Verbose, flag, settings_of
from kwire.cli.output import Output
from kwire.cli.settings import of_connection

if TYPE_CHECKING:
    from kwire.cli.doctor.checks import Check
    from kwire.config import ConsumerConfig

Topics = Annotated[
    list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Check this topic; may be repeated.")
]
Group = Annotated[str | None, typer.Option("--group", "-g", metavar="GROUP", help="Check this group.")]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="How long each step may take.")]

INDENT = " " * 20
NARROWEST = 30  # columns beside it


def examine_connection(
    topics: Topics = None,
    group: Group = None,
    bootstrap: Servers = None,
    properties: Properties = None,
    config: ConfigFile = None,
    timeout_s: Timeout = 5.0,
    as_json: AsJson = False,
    _verbose: Verbose = 0,
) -> None:
    """Find out what keeps a client from reading.

    Checks DNS, TCP, TLS, versions, login, brokers, topics, group and permissions, step by step. Takes the settings that
    `kwire consume` takes. Changes nothing: it creates no topic and joins no group. Exit codes: 0 all is well, 1 a check
    failed, 2 a setting is wrong.
    """
    with clean_exits():
        from kwire.config import ConsumerConfig

        given = flag("--group", "group_id", group)
        checked = ConsumerConfig.of(of_connection(settings_of(bootstrap, properties, config, {}, given)))
        output = Output.standard()
        found: list[Check] = []
        for check in examine(checked, topics or (), timeout_s):
            found.append(check)
            if not as_json:
                heads = "" if found[:-1] and found[-2].subject == check.subject else check.subject
                output.write("".join(f"{line}\n" for line in shown(check, heads)).encode())
        if as_json:
            output.write(f"{json.dumps([asdict(check) for check in found], indent=2, ensure_ascii=False)}\n".encode())
        if not all(check.ok for check in found):
            raise typer.Exit(FAILED)


def examine(config: ConsumerConfig, topics: Sequence[str], timeout_s: float) -> Iterator[Check]:
    """Run all checks that are possible after the failed ones."""
    from kwire.cli.doctor.causes import no_answer
    from kwire.cli.doctor.checks import check_brokers, check_server, failed
    from kwire.cli.doctor.probes import Probes
    from kwire.cli.doctor.subjects import check_group, check_topic
    from kwire.config import Endpoint
    from kwire.errors import KafkaError
    from kwire.network.broker_client import BrokerClient
    from kwire.network.broker_connections import ConnectionAttempt
    from kwire.protocol.messages.metadata import MetadataRequest

    with BrokerClient(_impatient(config, timeout_s), timeout_s) as client:
        usable = []
        for server in config.bootstrap_servers:
            checks = list(check_server(client, server))
            yield from checks
            usable += [server] if all(check.ok for check in checks) else []
        if not usable:
            return
        server = usable[0]
        client.reach(server, ConnectionAttempt())
        try:
            metadata = client.ask(MetadataRequest(topics=[]), server)
        except KafkaError as error:
            yield failed("metadata", str(server), no_answer(error, server, Probes(client, server)))
            return
        brokers = list(check_brokers(client, server, metadata))
        yield from brokers
        if not all(check.ok for check in brokers):
            return
        endpoints = {broker.node_id: Endpoint(broker.host, broker.port) for broker in metadata.brokers}
        for topic in topics:
            yield from check_topic(client, topic, endpoints)
        if config.group_id is not None:
            yield from check_group(client, config.group_id)


def _impatient(config: ConsumerConfig, timeout_s: float) -> ConsumerConfig:
    """A login server that does not answer is told of within a step's time, not waited for."""
    from dataclasses import replace

    return replace(config, sasl_login_retry_backoff_ms=100, sasl_login_retry_backoff_max_ms=int(timeout_s * 500))


def shown(check: Check, head: str) -> Iterator[str]:
    """A check as lines of text, below a heading if its subject differs from that of the last check."""
    if head:
        yield head
    word, colour = ("ok", terminal.GREEN) if check.ok else ("FAILED", terminal.RED)
    said = f"{check.name:9} {check.said}"
    first, *others = _wrapped(said)
    yield f"  {terminal.painted(f'{word:7}', colour)} {first}"
    yield from (f"{INDENT}{line}" for line in others)
    if check.advice:
        yield from (f"{INDENT}{line}" for line in _wrapped(f"what to do: {check.advice}"))


def _wrapped(text: str) -> list[str]:
    """The text, wrapped on a terminal; elsewhere one line, in which programs can search."""
    if not terminal.is_terminal():
        return [text]
    width = max(terminal.width() - len(INDENT), NARROWEST)
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
