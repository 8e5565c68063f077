"""`kwire conformance`: judge a broker. `kwire.conformance` does the work; this module has flags, output, exit codes.

0: the broker conforms; 1: it does not; 2: there is no broker, it offers no API that was selected, or the command is
wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kwire.cli.exits import FAILED, WRONG_USAGE, sigterm_interrupts
from kwire.cli.options import settings_of
from kwire.cli.settings import of_connection
from kwire.config import ConsumerConfig, SecurityProtocol
from kwire.errors import InvalidArgumentError, KafkaError

if TYPE_CHECKING:
    from kwire.conformance.access import Access
    from kwire.conformance.report import Report, Result


def judge_broker(
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", "-b", metavar="HOST:PORT", help="The broker to judge.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the report there, for machines.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", "-k", metavar="PATTERN", help="Run only these: an API, an area or a check, with * and ?."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to wait for an answer.")
    ] = 10.0,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", metavar="N", min=1, max=256, help="How many checks run at a time.")
    ] = 32,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every check, the passed ones too.")] = False,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", "-X", metavar="NAME=VALUE", help="A setting of TLS or the login; may be repeated."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Such settings from a properties or TOML file.")
    ] = None,
) -> None:
    """Check that a broker speaks Kafka's protocol as Kafka does.

    Every API that both sides have is spoken in every version that both have. What the checks create begins with
    kwire-conformance- and is deleted at the end. TLS and a login, by PLAIN or SCRAM, are set as for `kwire consume`:
    by -X, in the environment (KWIRE_SASL_PASSWORD), in a file. Exit codes: 0 conforms, 1 does not, 2 could not be
    judged.
    """
    try:
        judged = ConsumerConfig.of(of_connection(settings_of(bootstrap, properties, config, {})))
        if json_file is not None:
            json_file.open("a").close()  # an error comes before the checks, not after them
        with sigterm_interrupts():
            report = _run(judged, timeout=timeout, jobs=jobs, only=only or [])
        try:
            if json_file is not None:
                json_file.write_text(report.to_json() + "\n")
        finally:
            print(report.to_text(verbose=verbose), end="")
    except (KafkaError, OSError) as error:
        print(f"kwire: {error}", file=sys.stderr)
        raise typer.Exit(WRONG_USAGE) from None
    if not report.has_judged:
        print("kwire: nothing was judged: the broker offers none of what was asked for", file=sys.stderr)
        raise typer.Exit(WRONG_USAGE)
    raise typer.Exit(0 if report.ok else FAILED)


def _access(config: ConsumerConfig) -> Access | None:
    """TLS and the login; None if neither is set."""
    if config.security_protocol is SecurityProtocol.PLAINTEXT:
        return None
    from kwire.conformance.access import Access

    return Access(config)


def _run(config: ConsumerConfig, *, timeout: float, jobs: int, only: list[str]) -> Report:
    from kwire.conformance.runner import BrokenBrokerError, RunOptions, run

    bootstrap, access = str(config.bootstrap_servers[0]), _access(config)
    progress = CheckCounter() if sys.stderr.isatty() else None
    options = RunOptions(timeout_s=timeout, jobs=jobs, only=tuple(only), access=access)
    try:
        report = run(bootstrap, options, on_result=progress)
    except BrokenBrokerError as error:
        print(f"kwire: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    if progress is not None:
        progress.clear()
    if only and not report.results:
        raise InvalidArgumentError(f"no check is called {' or '.join(map(repr, only))}; --verbose shows them all")
    return report


class CheckCounter:
    """A counter on the terminal while the checks run."""

    def __init__(self) -> None:
        self._done = 0

    def __call__(self, _result: Result) -> None:
        self._done += 1
        print(f"\r{self._done} checks done", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the counter."""
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
