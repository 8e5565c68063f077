"""The exceptions of aiokafka, under its names, and their translation from kwire's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from kwire import errors
from kwire.compat import python_errors, their_exceptions
from kwire.compat.python_errors import *  # noqa: F403 - programs import any of them
from kwire.compat.python_errors import BY_KIND, BrokerResponseError, KafkaError, UnknownError, by_code, translated

__all__ = ["BrokerResponseError", "ConsumerStoppedError", "IllegalOperation", "KafkaError", "raised_as_theirs"]

T = TypeVar("T", bound=BaseException)


class ConsumerStoppedError(Exception):
    """`stop()` was called."""


class IllegalOperation(Exception):  # noqa: N818 - aiokafka's name
    """The call needs a group."""


class RecordTooLargeError(KafkaError):
    """A record does not fit into a fetch. kwire never raises it: it reads such records."""


kafka_errors = by_code(vars(python_errors))


def for_code(error_code: int) -> type[BrokerResponseError]:
    """The exception for a broker's error code."""
    return kafka_errors.get(error_code, UnknownError)


def as_theirs(kind: type[T]) -> type[T]:
    """The class; if the program has imported aiokafka's exceptions, a subclass of aiokafka's class, too."""
    return their_exceptions.as_theirs(kind, "aiokafka.errors")


def error_of(error: errors.KafkaError) -> KafkaError:
    """aiokafka's exception for an error of kwire."""
    found = translated(error, BY_KIND, for_code)
    return as_theirs(type(found))(*found.args)


@contextmanager
def raised_as_theirs() -> Iterator[None]:
    """Raise aiokafka's exceptions in place of kwire's. Errors of settings stay as they are: they are ValueErrors
    already."""
    try:
        yield
    except errors.ConfigError:
        raise
    except errors.KafkaError as error:
        raise error_of(error) from error
