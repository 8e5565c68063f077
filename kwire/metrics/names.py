"""The names of metrics: those of Java's consumer, so that whatever shows its metrics can show these.

A value is a number at one moment, as `Consumer.metrics()` answers it; nothing is registered or collected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

Values: TypeAlias = Iterable[tuple[str, float]]
"""Names within a group, and their numbers."""
Tags: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs of a word and a value."""

FETCH_GROUP = "consumer-fetch-manager-metrics"
CONSUMER_GROUP = "consumer-metrics"
COORDINATOR_GROUP = "consumer-coordinator-metrics"
NODE_GROUP = "consumer-node-metrics"
CATCH_UP_GROUP = "consumer-catch-up-metrics"
APP_INFO_GROUP = "app-info"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricName:
    """The name of a number.

    Attributes:
        name: Words with dashes.
        group: What it belongs to, such as "consumer-fetch-manager-metrics".
        tags: What it is of: pairs of a word and a value, such as ("partition", "3"), the client's id first.
    """

    name: str
    group: str
    tags: Tags

    def __str__(self) -> str:
        """As JMX writes it."""
        tags = "".join(f",{key}={value}" for key, value in self.tags)
        return f"kafka.consumer:type={self.group}{tags},name={self.name}"
