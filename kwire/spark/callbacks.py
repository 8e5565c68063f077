"""Users' functions that the JVM calls by way of Py4J."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kwire.errors import KafkaError


class CallbackError(KafkaError):
    """A function ended with what is meant to end the program, such as `sys.exit()`, or has done nothing yet."""


@contextmanager
def answering_the_jvm(name: str) -> Iterator[None]:
    """Around a call of a user's function. Py4J tells the JVM of exceptions alone; of `SystemExit` and its like the JVM
    never hears, and waits for the answer for ever.

    Raises:
        CallbackError: The function raised what is no `Exception`.
    """
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        raise CallbackError(f"{name} raised {error!r}") from error
