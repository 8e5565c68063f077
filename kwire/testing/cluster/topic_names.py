"""Rules for names of topics, with Kafka's error codes and messages. Pure. Used wherever topics are created or
described."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection

MAX_NAME_LENGTH = 249
METADATA_TOPIC = "__cluster_metadata"
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


class TopicRefusedError(Exception):
    """Kafka refuses to create this topic or partition."""

    def __init__(self, code: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def name_problem(name: str) -> str | None:
    """Kafka's error message for a topic's name; None if the name is valid."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def topic_problem(there: Collection[str], name: str) -> TopicRefusedError | None:
    """Kafka's error message for a new topic of this name beside those that exist; None if it can be created."""
    problem = name_problem(name)
    if name == METADATA_TOPIC:
        message = f"Creation of internal topic {name} is prohibited."
        return TopicRefusedError(ErrorCode.INVALID_REQUEST, message)
    if problem is None and name in there:
        return TopicRefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    problem = problem or _collision(there, name)
    return None if problem is None else TopicRefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def _collision(there: Collection[str], name: str) -> str | None:
    """Names of metrics write dots as underscores, so two topics must not differ in these alone."""
    flat = name.replace(".", "_")
    other = next((other for other in there if other.replace(".", "_") == flat), None)
    return None if other is None else f"Topic '{name}' collides with existing topic: {other}"
