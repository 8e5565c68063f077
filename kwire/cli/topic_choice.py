"""The choice of topics to read: names, and patterns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from kwire.consumer.topic_patterns import first_pattern, regex_of
from kwire.errors import ConfigError, InvalidArgumentError
from kwire.model import PartitionInfo, TopicPartition

OF_KAFKA_ITSELF = "__"
"""What names of internal topics begin with: no pattern finds them that does not begin so itself."""


class ListingConsumer(Protocol):
    """The part of `kwire.Consumer` that is needed here."""

    def partitions_for(self, topic: str, /, *, timeout: float | None) -> Sequence[PartitionInfo]: ...

    def list_topics(self, *, timeout: float | None) -> Mapping[str, Sequence[PartitionInfo]]: ...


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """Names and patterns; a topic is chosen if any of them matches.

    Attributes:
        names: Each has to exist.
        pattern: Finds names as `re.search` does; None without patterns.
    """

    names: tuple[str, ...]
    pattern: re.Pattern[str] | None = None

    @classmethod
    def of(cls, given: Sequence[str], include: Sequence[str] = ()) -> TopicChoice:
        """Topics as on a command line.

        Args:
            given: Names, several with commas between them, and patterns that begin with ^, as kcat has them.
            include: Patterns that match a whole name, as Kafka's console consumer has them.

        Raises:
            ConfigError: There are none, one is no regular expression, or a pattern does not begin with ^.
        """
        names = [
            name.strip() for text in given for name in ([text] if text.startswith("^") else text.split(",")) if name
        ]
        plain = tuple(dict.fromkeys(name for name in names if name and not name.startswith("^")))
        patterns = [name for name in names if name.startswith("^")]
        patterns += [f"^(?:{_without_commas(text)})$" for text in include]
        if not plain and not patterns:
            raise ConfigError("which topic? Name one, or several, or a pattern such as '^orders'")
        if (unmarked := first_pattern(plain)) is not None:
            raise ConfigError(f"{unmarked!r} cannot be a topic's name. {_advice(regex_of(unmarked))}")
        return cls(plain, _compiled(patterns) if patterns else None)

    @property
    def wants_internal(self) -> bool:
        """Whether internal topics may be chosen, by a name or by the pattern."""
        texts = self.names if self.pattern is None else (*self.names, self.pattern.pattern)
        return any(OF_KAFKA_ITSELF in text for text in texts)

    def subscription(self) -> Sequence[str] | re.Pattern[str]:
        """The subscription of a member of a group: its pattern matches the same names as in `find`."""
        if self.pattern is None:
            return self.names
        found = f"(?:{self.pattern.pattern})"
        if OF_KAFKA_ITSELF not in self.pattern.pattern:
            found = f"^(?!{OF_KAFKA_ITSELF})(?=.*{found})"
        return re.compile("|".join([*(f"^{re.escape(name)}$" for name in self.names), found]))

    def find(
        self, consumer: ListingConsumer, numbers: Collection[int] = (), timeout: float | None = None
    ) -> list[TopicPartition]:
        """All partitions of the topics, or those with these numbers.

        Args:
            timeout: How many seconds a broker has for each answer; None for `default_api_timeout_ms`.

        Raises:
            InvalidArgumentError: A topic or partition does not exist, or nothing is found by the pattern.
            KafkaTimeoutError: No broker has answered.
        """
        found = {name: _partitions(consumer.partitions_for(name, timeout=timeout)) for name in self.names}
        if missing := [name for name, partitions in found.items() if not partitions]:
            near = get_close_matches(missing[0], consumer.list_topics(timeout=timeout), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "; 'kwire topics list' shows those that it may see"
            raise InvalidArgumentError(f"there is no topic {missing[0]!r}, or this client may not see it{hint}")
        if self.pattern is not None:
            found |= self._found_by_pattern(consumer.list_topics(timeout=timeout), found)
        return [
            TopicPartition(name, number)
            for name, existing in found.items()
            for number in _chosen(name, existing, numbers)
        ]

    def _found_by_pattern(
        self, listed: Mapping[str, Sequence[PartitionInfo]], named: Collection[str]
    ) -> dict[str, list[int]]:
        assert self.pattern is not None
        wants_internal = OF_KAFKA_ITSELF in self.pattern.pattern
        found = {
            name: _partitions(partitions)
            for name, partitions in sorted(listed.items())
            if self.pattern.search(name) and (wants_internal or not name.startswith(OF_KAFKA_ITSELF))
        }
        if not found and not named:
            raise InvalidArgumentError(
                f"no topic is found by {self.pattern.pattern!r} among those that this client may see"
            )
        return found


def _partitions(infos: Sequence[PartitionInfo]) -> list[int]:
    return sorted(info.partition for info in infos)


def _chosen(topic: str, existing: Sequence[int], numbers: Collection[int]) -> Sequence[int]:
    if missing := set(numbers).difference(existing):
        raise InvalidArgumentError(
            f"topic {topic!r} has no partition {min(missing)}; it has {len(existing)}, from {min(existing)} on"
        )
    return sorted(numbers) or existing


def _advice(regex: str | None) -> str:
    """How a pattern is written in a shell."""
    if regex is None:
        return "A pattern is a regular expression that begins with ^, such as '^orders'."
    return f"For a pattern: kwire consume {shlex.quote(regex)}"


def _without_commas(text: str) -> str:
    """The pattern, with commas as alternatives, as Kafka's tools have them."""
    return "|".join(part.strip() for part in text.split(","))


def _compiled(patterns: Sequence[str]) -> re.Pattern[str]:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"{pattern!r} is no regular expression: {error}") from None
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) if len(patterns) > 1 else patterns[0])
