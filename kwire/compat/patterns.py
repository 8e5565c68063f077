"""Patterns of topics as kafka-python and aiokafka take them: matched from the start of a name (`re.match`).

A pattern of kwire's own is searched for anywhere in a name.
"""

from __future__ import annotations

import re

_FLAGS = re.compile(r"(\(\?[aiLmsux]+\))*")


def from_the_start(pattern: str) -> re.Pattern[str]:
    """A pattern that is found in those names which the given one matches from their start.

    Raises:
        re.error: It is no pattern.
    """
    re.compile(pattern)  # what is wrong is said of the user's own text
    flags = _FLAGS.match(pattern)
    end = flags.end() if flags else 0
    return re.compile(rf"{pattern[:end]}\A(?:{pattern[end:]})")
