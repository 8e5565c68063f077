"""The flags of the program, and its settings: those of a file, overridden by those of flags.

An error in the command line ends the program with 1, as with argparse4j, not with argparse's 2.
"""

from __future__ import annotations

import logging
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias

from kwire.cli.config_files import read_config_file
from kwire.config import SETTINGS, parse_setting
from kwire.config.java_names import JAVA_ONLY
from kwire.config.names import is_left_out
from kwire.errors import ConfigError, InvalidGroupIdError

log = logging.getLogger(__name__)

WRONG_USAGE = 1
# Java's program passes its own deserializers to the consumer, which then ignores these settings.
DECIDED_HERE = frozenset({"key_deserializer", "value_deserializer"})


Order: TypeAlias = Literal["partition", "key", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Processing:
    """How records are processed. `in_processes`: by a pool of processes instead of threads."""

    order: Order
    workers: int
    in_processes: bool
    offset_map: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiableOptions:
    """The options. `max_messages` is negative for no limit; `orders` is a file for `ProcessingOrders`, if there are
    any."""

    topic: str
    max_messages: int
    auto_commit: bool
    verbose: bool
    settings: dict[str, object]
    orders: Path | None = None
    processing: Processing | None = None

    @property
    def catches_up(self) -> bool:
        """Whether the consumer reads a lag beside the newest records."""
        return self.settings.get("enable_parallel_rebalance") is True


class _ArgumentParser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(WRONG_USAGE, f"{self.prog}: error: {message}\n")


class _Flags:
    """The result of the parser, with types."""

    topic: str
    max_messages: int
    enable_autocommit: bool
    verbose: bool
    group_protocol: str
    group_remote_assignor: str | None
    group_id: str
    group_instance_id: str | None
    session_timeout: int | None
    reset_policy: str
    assignment_strategy: str
    bootstrap_server: str
    config: Path | None
    orders: Path | None
    processor: Order | None
    workers: int
    worker_processes: bool
    no_offset_map: bool


def parse(arguments: Sequence[str]) -> VerifiableOptions:
    """Options from the command line.

    Raises:
        ConfigError: a setting is invalid, or the file cannot be read.
        SystemExit: the command line is wrong, or asks for help.
    """
    parser = argument_parser()
    flags = parser.parse_args(arguments, _Flags())
    if flags.processor is not None and (flags.enable_autocommit or flags.max_messages >= 0):
        parser.error("a processor commits by itself, and counts no messages")
    settings = (settings_of_file(flags.config) if flags.config else {}) | settings_of_flags(flags)
    options = VerifiableOptions(
        topic=flags.topic,
        max_messages=flags.max_messages,
        auto_commit=flags.enable_autocommit,
        verbose=flags.verbose,
        settings=settings,
        orders=flags.orders,
        processing=_processing(flags),
    )
    if options.catches_up and options.max_messages >= 0:
        parser.error("with parallel rebalance no messages are counted")
    return options


def _processing(flags: _Flags) -> Processing | None:
    if flags.processor is None:
        return None
    return Processing(
        order=flags.processor,
        workers=flags.workers,
        in_processes=flags.worker_processes,
        offset_map=not flags.no_offset_map,
    )


def argument_parser() -> ArgumentParser:
    parser = _ArgumentParser(
        prog="verifiable-consumer",
        description="Consume a topic and print what happens, a JSON object in each line.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--bootstrap-server", required=True, metavar="HOST:PORT[,HOST:PORT...]", help="brokers to begin with")
    add("--topic", required=True, metavar="NAME[,NAME...]", help="the topic to consume, or several: kwire's own")
    add("--group-protocol", default="classic", help="classic or consumer (default: classic)")
    add("--group-remote-assignor", metavar="NAME", help="the broker's assignor, for --group-protocol consumer")
    add("--group-id", required=True, help="the group to join")
    add("--group-instance-id", metavar="ID", help="makes this a static member")
    add("--max-messages", type=int, default=-1, metavar="N", help="end after this many (default: -1, go on)")
    add("--session-timeout", type=int, metavar="MS", help="session timeout, for --group-protocol classic")
    add("--verbose", action="store_true", help="print each record too")
    add("--enable-autocommit", action="store_true", help="commit in the background instead of after each poll")
    add("--reset-policy", default="earliest", help="where to begin without a commit (default: earliest)")
    add(
        "--assignment-strategy",
        default="range",
        metavar="NAME[,NAME...]",
        help="assignors by name or Java class, for --group-protocol classic (default: range)",
    )
    add("--orders", type=Path, metavar="FILE", help="take orders, and go on after errors: for tests; kwire's own")
    orders = ("partition", "key", "none")
    add(
        "--processor", choices=orders, help="work on records side by side, keeping this order: kwire's own, as the next"
    )
    add("--workers", type=int, default=8, metavar="N", help="this many at once (default: 8)")
    add("--worker-processes", action="store_true", help="in a pool of processes instead of threads")
    add("--no-offset-map", action="store_true", help="say nothing in commits of what is finished behind them")
    files = parser.add_mutually_exclusive_group()
    for flag, note in (("--command-config", ""), ("--consumer.config", " (its older name)")):
        files.add_argument(flag, dest="config", type=Path, metavar="FILE", help=f"a file with further settings{note}")
    return parser


def settings_of_flags(flags: _Flags) -> dict[str, object]:
    """The settings by snake_case name, without those of the other group protocol, as in Java's program."""
    settings: dict[str, object] = {
        "bootstrap_servers": flags.bootstrap_server,
        "group_id": flags.group_id,
        "group_protocol": flags.group_protocol,
        "enable_auto_commit": flags.enable_autocommit,
        "auto_offset_reset": flags.reset_policy,
    }
    optional: dict[str, object] = {
        "group_instance_id": flags.group_instance_id,
        "session_timeout_ms": flags.session_timeout,
    }
    if flags.group_protocol.lower() == "consumer":
        optional["group_remote_assignor"] = flags.group_remote_assignor
    else:
        settings["partition_assignment_strategy"] = flags.assignment_strategy
    return settings | {name: value for name, value in optional.items() if value is not None}


def settings_of_file(path: Path) -> dict[str, object]:
    """The settings by snake_case name; of equal names the last one counts, as in java.util.Properties.

    A name that is no setting of a consumer is left out with a warning, as by Java's client. A setting that Java has and
    kwire lacks is refused, unless its value changes nothing: without it, the consumer would silently behave otherwise.

    Raises:
        ConfigError: the file or a value is bad, or a setting is not supported.
    """
    settings: dict[str, object] = {}
    for entry in read_config_file(path):
        snake = entry.name.replace(".", "_")
        if snake in DECIDED_HERE or is_left_out(entry.name, entry.value):
            continue
        if snake not in SETTINGS and entry.name not in JAVA_ONLY:
            log.warning("%s: there is no setting %r; it is ignored", entry.source, entry.name)
            continue
        try:
            name, value = parse_setting(entry.name, entry.value)
        except (ConfigError, InvalidGroupIdError) as error:
            raise ConfigError(f"{entry.source}: {error}") from None
        settings[name] = value
    return settings
