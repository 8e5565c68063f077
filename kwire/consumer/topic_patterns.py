"""Topic names with the characters of a pattern: the regular expression that was meant, for advice.

Contract: pure. A shell's glob is taken as the shell takes it, any other pattern as a regular expression of Java's,
which matches whole names. What is answered is for a search, so it says where names begin and end.
"""

from __future__ import annotations

import re

# Kafka allows none of these in the name of a topic.
_CHARACTERS = re.compile(r"[\^$*+?()\[\]{}|\\]")
# In a glob, * and ? stand for themselves: behind a dot or a set, a regular expression may have them, too.
_GLOB = re.compile(r"(?:[\w-]|\.(?![*?])|[*?](?![*?])|\[\w[\w-]*\](?![*?])|\[![\w-]+\])+", re.ASCII)
_GLOB_PART = re.compile(r"[*?.]|\[!|[^*?.\[]+|\[")
_OF_PART = {"*": ".*", "?": ".", ".": r"\.", "[!": "[^"}
_EITHER_WAY = re.compile(r"\[[\w-]+\][*?]", re.ASCII)
_REPEAT = re.compile(r"\{\d+(,\d*)?\}")


def is_pattern(name: str) -> bool:
    """Whether this can be no topic's name, because it has characters of patterns."""
    return _CHARACTERS.search(name) is not None


def regex_of(text: str) -> str | None:
    """An expression to search for that finds the names which are meant; None where that cannot be told."""
    if _GLOB.fullmatch(text):
        return _checked(_whole("".join(_OF_PART.get(part, part) for part in _GLOB_PART.findall(text))))
    if text.startswith("^"):
        return _checked(text)
    if _EITHER_WAY.search(text) or ("{" in text and not _REPEAT.search(text)):  # {a,b} is a shell's, too
        return None
    text = text.removesuffix("$")
    return _checked(_whole(f"({text})" if "|" in text else text))


def _whole(regex: str) -> str:
    """The expression for names that match from end to end."""
    return f"^{regex}" if regex.endswith(".*") else f"^{regex}$"


def _checked(regex: str) -> str | None:
    try:
        re.compile(regex)
    except re.error:
        return None
    return regex


def not_a_name(name: str, spelling: str) -> str:
    """What an error says of such a name.

    Args:
        name: As it was given.
        spelling: How a pattern is given, with {} for the expression.
    """
    regex = regex_of(name)
    how = spelling.format("..." if regex is None else repr(regex))
    return f"{name!r} cannot be a topic's name; for all topics that a regular expression finds: {how}"
