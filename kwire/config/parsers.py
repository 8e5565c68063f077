"""Parsers: what a user gave for a setting -> the value the consumer works with.

Contract: a parser takes the value itself or its spelling in a properties file, and takes what it answered once more.
`BadValueError` says why not; `Setting.parse` adds which setting, what it got and what is valid.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import Generic, SupportsIndex, TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

# Java's Integer and Long. Most settings are sent as an int32 or kept in one by the Java client.
MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


class BadValueError(ValueError):
    """Why a value cannot be taken.

    Args:
        may_be_secret: Whether the error hides the value: where a function is wanted, somebody may give the secret.
    """

    def __init__(self, why: str, *, may_be_secret: bool = False) -> None:
        super().__init__(why)
        self.may_be_secret = may_be_secret


def check_call(function: Callable[..., object], *arguments: object, told: str, may_be_secret: bool = False) -> None:
    """Check that a function can be called with these arguments, which `told` names. One in C that does not tell its
    signature is believed.

    Raises:
        BadValueError: It cannot.
    """
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise BadValueError(f"called {told}, and cannot be: {error}", may_be_secret=may_be_secret) from None
    except ValueError:
        pass


@dataclass(frozen=True, slots=True)
class Parser(Generic[T]):
    """How to read a value, and which ones can be read, in words."""

    read: Callable[[object], T]
    valid: str


def boolean() -> Parser[bool]:
    return Parser(_read_boolean, "true or false")


def integer(minimum: int, maximum: int = MAX_INT) -> Parser[int]:
    """A whole number in the closed range."""

    def read(value: object) -> int:
        number = _read_integer(value)
        if not minimum <= number <= maximum:
            raise BadValueError("out of range")
        return number

    return Parser(read, f"{minimum} to {maximum}")


def optional_integer(minimum: int, maximum: int = MAX_INT) -> Parser[int | None]:
    """A whole number in the closed range, or None."""
    number = integer(minimum, maximum)
    return Parser(lambda value: None if value is None else number.read(value), f"{number.valid}, or None")


def number(minimum: float, maximum: float) -> Parser[float]:
    """A number in the closed range."""

    def read(value: object) -> float:
        found = _read_number(value)
        if not minimum <= found <= maximum:
            raise BadValueError("out of range")
        return found

    return Parser(read, f"a number, {minimum} to {maximum}")


def share() -> Parser[float]:
    """A number greater than 0 and less than 1."""

    def read(value: object) -> float:
        found = _read_number(value)
        if not 0.0 < found < 1.0:
            raise BadValueError("out of range")
        return found

    return Parser(read, "a number greater than 0 and less than 1")


def text(valid: str = "text") -> Parser[str]:
    """Any text, also none at all."""
    return Parser(_read_text, valid)


def optional_text(valid: str = "text that is not blank") -> Parser[str | None]:
    """Text that says something, or None."""

    def read(value: object) -> str | None:
        if value is None:
            return None
        if not (found := _read_text(value)).strip():
            raise BadValueError("blank")
        return found

    return Parser(read, valid)


def choice(kind: type[E]) -> Parser[E]:
    """A member of an enum, by its name or by the text that is its value, in any case."""
    by_name = {member.name.lower(): member for member in kind}
    by_text = {member.value.lower(): member for member in kind if isinstance(member.value, str)}
    valid = ", ".join(_shown_choice(member) for member in kind)

    def read(value: object) -> E:
        if isinstance(value, kind):
            return value
        spelled = _read_text(value).strip().lower()
        member = by_name.get(spelled) or by_text.get(spelled)
        if member is None:
            raise BadValueError("no such choice")
        return member

    return Parser(read, valid)


def _shown_choice(member: Enum) -> str:
    """The text that is its value, as Kafka spells it, if it is one."""
    return member.value if isinstance(member.value, str) and member.value else member.name.lower()


def choices(kind: type[E]) -> Parser[tuple[E, ...]]:
    """Members of an enum: a list, or their names with commas."""
    one = choice(kind)

    def read(value: object) -> tuple[E, ...]:
        found = without_duplicates(one.read(item) for item in split_list(value))
        if not found:
            raise BadValueError("empty")
        return found

    return Parser(read, f"some of {one.valid}")


def path(valid: str = "the path of a file, or None") -> Parser[Path | None]:
    """A file's path; that the file is there is not looked at."""

    def read(value: object) -> Path | None:
        if value is None or isinstance(value, Path):
            return value
        if isinstance(value, PathLike):
            return Path(value)
        if not (found := _read_text(value)).strip():
            raise BadValueError("blank")
        refuse_content(found)
        return Path(found)

    return Parser(read, valid)


LOOKS_SECRET = "this looks like a key, or a token"


def looks_secret(value: object) -> bool:
    """Whether it is a key in PEM form, or a token, as those have it who gave it to the wrong setting."""
    return isinstance(value, str) and ("-----BEGIN" in value or value.lstrip().startswith("eyJ"))


def refuse_content(path: str) -> None:
    """Raises: BadValueError, if what should be a path is what a file contains. It may be a key or a token."""
    if looks_secret(path) or "\n" in path:
        raise BadValueError("the path of a file is wanted, and this looks like its content", may_be_secret=True)


def split_list(value: object) -> list[object]:
    """The items of a list, which in a properties file are separated by commas."""
    if isinstance(value, str):
        return [item.strip() for item in value.split(",") if item.strip()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    raise BadValueError("not a list, nor text with commas")


def without_duplicates(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))


def _read_boolean(value: object) -> bool:
    match value:
        case bool():
            return value
        case str() if value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        case _:
            raise BadValueError("neither true nor false")


def _read_integer(value: object) -> int:
    if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        return operator.index(value)
    raise BadValueError("not a whole number")


def _read_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise BadValueError("not a number")
    try:
        return float(value)
    except ValueError:
        raise BadValueError("not a number") from None


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise BadValueError("not text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadValueError("not valid Unicode") from None
    return value
