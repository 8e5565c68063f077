"""Options that several commands have: brokers, settings, files, and logging.

Each has kwire's name, and the names that it has in Kafka's own tools and in kcat.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from kwire.cli.config_files import SettingLine
from kwire.cli.settings import collect_settings

Servers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", "-b", "--bootstrap-server", metavar="SERVERS", help="Brokers to begin with, host:port,host:port."
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        "-X",
        "--command-property",
        "--consumer-property",
        metavar="NAME=VALUE",
        help="A setting; may be repeated.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-F",
        "--command-config",
        "--consumer-config",
        metavar="FILE",
        help="Settings from a properties or TOML file.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", "-J", help="JSON, for programs.")]


def _log_more(count: int) -> int:
    """-v: what goes on; -vv: all that kwire logs."""
    if count:
        logging.getLogger("kwire").setLevel(logging.INFO if count == 1 else logging.DEBUG)
    return count


Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        callback=_log_more,
        show_default=False,
        help="Log what goes on, to stderr; -vv: all of it.",
    ),
]


def settings_of(
    bootstrap: str | None,
    properties: Sequence[str] | None,
    config: Path | None,
    defaults: Mapping[str, object],
    *flags: SettingLine | None,
    taken: Callable[[SettingLine], bool] = lambda _entry: False,
) -> dict[str, object]:
    """The settings of a command, from its options, the environment and its file. Raises: ConfigError."""
    given = [flag("--bootstrap", "bootstrap_servers", bootstrap), *flags]
    return collect_settings(
        flags=[each for each in given if each is not None],
        properties=properties or (),
        environ=os.environ,
        file=config,
        defaults=defaults,
        taken=taken,
    )


def flag(option: str, name: str, value: str | None) -> SettingLine | None:
    """The setting that an option stands for, if it was given."""
    return None if value is None else SettingLine(option, name, value)
