"""Errors of a command line that names no command, or one that is not there: they say which was meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer._click import Command, Context

# What other tools call it.
OTHER_COMMANDS: Mapping[str, str] = {
    "lag": "groups describe",
    **dict.fromkeys(("read", "tail", "cat", "get"), "consume"),
    **dict.fromkeys(("write", "send", "publish"), "produce"),
    **dict.fromkeys(("ping", "check"), "doctor"),
    "settings": "config",
}


class GroupWithHints(TyperGroup):
    """A command that has only subcommands. Its errors name the one that was meant."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        given = [*args]  # parsing takes them out
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            option = getattr(error, "option_name", None)
            if option and (path := _path_with(self, option, given)):
                example = " ".join([ctx.command_path, *path, option])
                _replace_message(error, f"No such option: {option}. Options come after a command, as in '{example}'")
            raise

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            root = ctx.find_root()
            meant = OTHER_COMMANDS.get(args[0], args[0])
            if found := [path for path in _paths(root.command) if path == meant or path.endswith(f" {meant}")]:
                paths = ", ".join(f"'{root.command_path} {path}'" for path in found)
                _replace_message(error, f"No such command '{args[0]}'. Did you mean {paths}?")
            raise


def _replace_message(error: Exception, text: str) -> None:
    """Typer brings its own click, or takes another, so the class of its errors has no one name."""
    if hasattr(error, "message"):
        error.message = text
    if hasattr(error, "possibilities"):  # options that stand here, and would come behind the text
        error.possibilities = None


def _path_with(command: Command, option: str, args: Sequence[str]) -> list[str] | None:
    """The names that lead to a command with this option: those among the arguments, or else the first."""
    if not isinstance(command, TyperGroup):
        return [] if any(option in each.opts for each in command.params) else None
    named = [arg for arg in args if arg in command.commands]
    for name in named[:1] or command.commands:
        path = _path_with(command.commands[name], option, args)
        if path is not None:
            return [name, *path]
    return None


def _paths(command: Command, path: str = "") -> Iterator[str]:
    if path:
        yield path
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            yield from _paths(each, f"{path} {name}".strip())
