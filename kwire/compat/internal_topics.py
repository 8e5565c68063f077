"""Kafka's own topics, which kafka-python and aiokafka leave out of `topics()`."""

from __future__ import annotations

from collections.abc import Iterable

_INTERNAL = frozenset({"__consumer_offsets", "__share_group_state", "__transaction_state"})


def without_internal(topics: Iterable[str]) -> set[str]:
    return set(topics) - _INTERNAL
