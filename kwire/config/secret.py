"""A secret among the settings: a password, a private key, a token."""

from __future__ import annotations

from typing import NoReturn

from kwire.config.parsers import BadValueError, Parser


class Secret:
    """Text that shows itself only when asked: `repr`, `str` and formats do not, and it cannot be pickled.

    So a secret that stands in a config, in a local variable of a traceback or in a log record is not written out.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text. Keep it out of variables that live long."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return "<secret>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled; give it to each process from where it is kept")


def secret(valid: str = "text that is not empty, or None") -> Parser[Secret | None]:
    """Text, or a `Secret`. What is wrong with it is told without showing it."""

    def read(value: object) -> Secret | None:
        match value:
            case None | Secret():
                return value
            case str() if value:
                return Secret(value)
            case _:
                raise BadValueError("empty" if value == "" else f"not text, but {type(value).__name__}")

    return Parser(read, valid)
