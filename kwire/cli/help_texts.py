"""How `kwire COMMAND -h` names what a command takes: `TOPIC`, where typer has `{TOPIC}` and `TOPIC <str>`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import typer
from typer.core import TyperCommand

from kwire.cli.usage_hints import GroupWithHints

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter

_PYTHON_TYPE = re.compile(r" <[^<>]*>$")
_SECTIONS = {"argument": "Arguments", "option": "Options"}


class PlainCommand(TyperCommand):
    """A command whose help has no types of Python and no braces, which mean nothing to its users."""

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        parameters = [(each.param_type_name, each.get_help_record(ctx)) for each in self.get_params(ctx)]
        for kind, title in _SECTIONS.items():
            records = [record for of_kind, record in parameters if record is not None and of_kind == kind]
            if kind == "argument":
                records = [(_PYTHON_TYPE.sub("", name), text) for name, text in records]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def make_plain(commands: typer.Typer) -> None:
    """Give all commands and their subcommands help of this form, and errors that say what was meant."""
    for command in commands.registered_commands:
        command.cls = PlainCommand
    for group in commands.registered_groups:
        group.cls = GroupWithHints
        if group.typer_instance is not None:
            make_plain(group.typer_instance)
