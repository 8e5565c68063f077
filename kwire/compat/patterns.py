"""Patterns of topics as kafka-python and aiokafka match them: from the start of a name (`re.match`).

kwire searches for a pattern anywhere in a name.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from kwire.consumer.topic_patterns import first_pattern, not_a_name
from kwire.errors import InvalidArgumentError

_FLAGS = re.compile(r"(\(\?[aiLmsux]+\))*")


def from_the_start(pattern: str) -> re.Pattern[str]:
    """A pattern for kwire that finds the names which the given one matches from their start.

    Raises:
        re.error: The text is no regular expression.
    """
    re.compile(pattern)  # so that the error quotes the user's own text
    flags = _FLAGS.match(pattern)
    end = flags.end() if flags else 0
    return re.compile(rf"{pattern[:end]}\A(?:{pattern[end:]})")


def check_no_patterns(topics: object) -> None:
    """Refuse a name that has the characters of a pattern, and say how a pattern is given to these clients."""
    if (pattern := first_pattern(topics if isinstance(topics, Collection) else ())) is not None:
        raise InvalidArgumentError(not_a_name(pattern, "subscribe(pattern={})"))
