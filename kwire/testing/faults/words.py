"""The words of a schedule's lines, and errors that name the wrong word and the words that are allowed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from kwire.testing.faults.quantities import Quantity

PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+", re.ASCII)
# Of more allowed words than this, an error names the nearest and the number of all.
MAX_NAMED = 12


class WordError(ValueError):
    """A word is not allowed at its place."""


@dataclass(slots=True)
class Line:
    """The words of one line, taken from left to right.

    Args:
        number: the number of the line, counted from 1.
        taken: how many words have been taken; the last of them is the one that `wrong` is about.
    """

    number: int
    words: Sequence[str]
    taken: int = 0

    @property
    def is_over(self) -> bool:
        return self.taken == len(self.words)

    @property
    def ahead(self) -> str:
        """The next word, without taking it; empty if there is none."""
        return "" if self.is_over else self.words[self.taken]

    def next(self, wanted: str) -> str:
        """Take the next word. Raises: WordError, if there is none."""
        if self.is_over:
            raise WordError(f"line {self.number} ends too early: {wanted} is wanted behind '{self.words[-1]}'")
        self.taken += 1
        return self.words[self.taken - 1]

    def one_of(self, allowed: Sequence[str], what: str) -> str:
        """Take the next word, which has to be one of these. Raises: WordError."""
        wanted = f"{what}: {_named(allowed, self.ahead)}"
        word = self.next(wanted)
        if word not in allowed:
            raise self.wrong(f"allowed is {wanted}")
        return word

    def quantity(self, quantity: Quantity, least: int = 0) -> int:
        """Take the next word, which has to be a quantity. Raises: WordError."""
        word = self.next(f"{quantity.words}, as in {quantity.example},")
        try:
            value = quantity.parse(word)
        except ValueError as error:
            raise self.wrong(str(error)) from error
        if value < least:
            raise self.wrong(f"at least {quantity.render(least)} is wanted")
        return value

    def ends(self) -> None:
        """Raises: WordError, if there is another word."""
        if not self.is_over:
            self.taken += 1
            raise self.wrong("the line should be over by here")

    def wrong(self, what: str) -> WordError:
        """The error for the word that was taken last."""
        return WordError(f"line {self.number}, word {self.taken} {self.words[self.taken - 1]!r}: {what}")


def lines_of(text: str) -> Iterator[Line]:
    """The lines that have words. A `#` begins a comment.

    Raises:
        WordError: a quotation does not end in its line.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise WordError(f"line {number}: a quotation mark has no other") from error
        if words:
            yield Line(number, words)


def quoted(text: str) -> str:
    """The word that `lines_of` parses as this text."""
    return text if PLAIN.fullmatch(text) else shlex.quote(text)


def _named(allowed: Sequence[str], word: str) -> str:
    """The allowed words; of many, those nearest to the word."""
    if len(allowed) <= MAX_NAMED:
        return ", ".join(allowed)
    near = get_close_matches(word, allowed, n=3, cutoff=0.5)
    return f"{' or '.join(near)}?" if near else ", ".join(allowed)
