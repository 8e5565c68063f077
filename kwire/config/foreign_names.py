"""Names of settings that other clients have and kwire has not: what becomes of each.

Three things may become of one: it is taken as the setting of kwire's that does the same; it is left out, as it has no
effect here at this value; or it is refused, with kwire's way to do what it does. The tables, one for each family of
clients and one for guesses, are beside this module. A name is looked up with underscores for dots, so both spellings
are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

# Hints that several clients' tables give.
OWN_CONTEXT = "make an ssl.SSLContext with that, and give it as ssl_context"
COMMIT_CALLBACK = "the function goes to commit_async(callback=...)"

Take: TypeAlias = Callable[[object], tuple[str, object]]
"""Answers kwire's setting, and its value. Raises: BadValueError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignName:
    """What becomes of one name.

    Attributes:
        name: As its client spells it.
        take: For one that kwire has under another name.
        setting: What that name is.
        idle_at: The values, in lower case, at which it is left out; None for any.
        instead: How the same is done here; what a refusal says.
        is_secret: Whether its value must not be shown.
    """

    name: str
    take: Take | None = None
    setting: str = ""
    idle_at: frozenset[str] | None = frozenset()
    instead: str = ""
    is_secret: bool = False

    def is_idle(self, value: object) -> bool:
        """Whether it is without effect at this value."""
        return self.idle_at is None or (self.take is None and spelled(value) in self.idle_at)


def same(
    name: str, setting: str, convert: Callable[[object], object] | None = None, *, secret: bool = False
) -> ForeignName:
    """One that kwire has under another name, perhaps in another unit."""
    return ForeignName(
        name=name,
        take=lambda value: (setting, convert(value) if convert else value),
        setting=setting,
        is_secret=secret,
    )


def taken(name: str, setting: str, take: Take) -> ForeignName:
    """One whose value says which setting it is; `setting` is as a rule."""
    return ForeignName(name=name, take=take, setting=setting)


def idle(*names: str, instead: str = "") -> Iterable[ForeignName]:
    """Names that are without effect whatever their value is."""
    return [ForeignName(name=name, idle_at=None, instead=instead) for name in names]


def other(name: str, instead: str, *, at: Iterable[str] = ("",)) -> ForeignName:
    """One that kwire has another way for; at these values it does what kwire does without."""
    return ForeignName(name=name, idle_at=frozenset(at), instead=instead)


def spelled(value: object) -> str:
    """A value as a file would have it, in lower case; nothing for None and what is empty."""
    if value is None or (isinstance(value, list | tuple | dict) and not value):
        return ""
    return str(value).strip().lower()


def by_snake_name(*tables: Iterable[ForeignName]) -> dict[str, ForeignName]:
    """The entries by name, dots as underscores; the first of equal ones counts."""
    found: dict[str, ForeignName] = {}
    for table in tables:
        for entry in table:
            found.setdefault(entry.name.replace(".", "_"), entry)
    return found
