"""Where user name and password for PLAIN and SCRAM come from, if the user's own code has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias, cast

from kwire.config.parsers import Parser
from kwire.config.secret import Secret
from kwire.config.token_provider import function_without_arguments

VALID = "a function or coroutine function that returns user name and password, or None"

CredentialsAnswer: TypeAlias = tuple[str, str | Secret]
"""What a provider returns: the user's name and password."""

CredentialsProvider: TypeAlias = Callable[[], CredentialsAnswer | Awaitable[CredentialsAnswer]]


def credentials_provider() -> Parser[CredentialsProvider | None]:
    return Parser(_read, VALID)


def _read(value: object) -> CredentialsProvider | None:
    if value is None:
        return None
    return cast("CredentialsProvider", function_without_arguments(value, "gives no credentials"))
