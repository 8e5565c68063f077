"""Topic names with the characters of a pattern, and the regular expression that advice may name in their place.

Contract: pure. An expression is named only where there can be no doubt: for a shell's glob, and for a text that begins
with ^. It is one to search for (`re.search`), so it says where names begin and end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Kafka allows none of these in the name of a topic.
_CHARACTERS = re.compile(r"[\^$*+?()\[\]{}|\\]")
# Behind a dot, * and ? may be a regular expression's.
_GLOB = re.compile(r"(?:[\w-]|\.(?![*?])|[*?])+", re.ASCII)
_IN_REGEX = str.maketrans({"*": ".*", "?": ".", ".": r"\."})
# Of these Python warns that they may mean something else one day.
_IS_WARNED_OF = re.compile(r"\[\[|--|&&|\|\||~~")


def first_pattern(names: Iterable[object]) -> str | None:
    """The first that can be no topic's name, because it has characters of patterns."""
    return next((name for name in names if isinstance(name, str) and _CHARACTERS.search(name)), None)


def regex_of(text: str) -> str | None:
    """An expression to search for that finds the names which are meant; None where that cannot be told."""
    if _GLOB.fullmatch(text):
        regex = f"^{text.translate(_IN_REGEX)}"
        return regex if regex.endswith(".*") else f"{regex}$"
    return text if text.startswith("^") and _compiles(text) else None


def _compiles(regex: str) -> bool:
    if _IS_WARNED_OF.search(regex):
        return False
    try:
        re.compile(regex)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def not_a_name(name: str, spelling: str) -> str:
    """What an error says of such a name.

    Args:
        name: As it was given.
        spelling: How a pattern is given, with {} for the expression.
    """
    regex = regex_of(name)
    how = spelling.format("..." if regex is None else repr(regex))
    return f"{name!r} cannot be a topic's name; for all topics that a regular expression finds: {how}"
