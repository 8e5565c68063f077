"""Translates what broke a connection, an error of the operating system, trio or the framing, into an error of kwire's
that names the broker. Used wherever a connection is made."""

from __future__ import annotations

import trio

from kwire.errors import (
    AuthenticationError,
    DisconnectError,
    KafkaError,
    NoTokenError,
    ProtocolError,
    RebootstrapRequiredError,
    UnsupportedVersionError,
)
from kwire.model import Node
from kwire.network.security import Security

BREAKS = (OSError, ProtocolError, UnsupportedVersionError, DisconnectError, AuthenticationError, trio.TooSlowError)
"""What ends a connection. Other errors are bugs."""

_OF_CONNECTIONS = (KafkaError, OSError, EOFError, trio.TooSlowError, trio.Cancelled, BaseExceptionGroup)
"""Errors of connections, whose tracebacks `forget_frames` drops."""

NO_ANSWER_HINT = "it answered no request: does it expect a login (security_protocol SASL_PLAINTEXT or SASL_SSL)?"
"""What to look at when a broker says what it speaks, and then hangs up over the first request."""


def connection_failure(error: Exception, node: Node, security: Security, *, waits_for: str, hint: str) -> KafkaError:
    """Why there is no connection any more.

    Args:
        waits_for: What has not come, if it was time that ended the connection.
        hint: What to look at, where nothing but the end of the connection is known; may be empty.
    """
    if isinstance(error, KafkaError) and not isinstance(error, DisconnectError):
        return error if str(node) in str(error) else _named(error, node)
    if isinstance(error, RebootstrapRequiredError):
        return error
    if security.tls is not None and (failure := security.tls_failure(error, node)) is not None:
        return failure
    reason = str(error) or type(error).__name__
    if isinstance(error, trio.TooSlowError):
        reason = f"no {waits_for} in time"
    kafka_error = DisconnectError("; ".join(filter(None, (f"broker {node}: {reason}", hint))))
    kafka_error.__cause__ = error
    return kafka_error


def forget_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error that is kept, and of its causes: their frames hold the objects they worked on.

    Here that is a connection with its TLS, which holds the error. Such a cycle is freed by a full garbage collection
    only, and a program whose number of objects does not grow may run for hours without one. An error that the user's
    code for tokens has raised keeps its traceback.
    """
    errors: list[BaseException | None] = [error]
    seen: set[int] = set()
    while errors:
        each = errors.pop()
        if isinstance(each, _OF_CONNECTIONS) and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            if not isinstance(each, NoTokenError):
                errors += [each.__cause__, each.__context__]


def took_too_long(error: KafkaError) -> bool:
    """Whether the error is a timeout: an answer or a connection did not come in time."""
    return isinstance(error.__cause__, trio.TooSlowError)


def _named(error: KafkaError, node: Node) -> KafkaError:
    named = type(error)(f"broker {node}: {error}")
    named.__cause__ = error
    return named
