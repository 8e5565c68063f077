"""The root of all exceptions, and the one that plain values raise (`model.py`). Both are exported by `kwire.errors`."""

from __future__ import annotations


class KafkaError(Exception):
    """Root of everything kwire raises on purpose."""

    retriable: bool = False
    fatal: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only constructor arguments live in __dict__; BaseException's own __reduce__ would lose the call.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(cls: type[KafkaError], args: tuple[object, ...], state: dict[str, object]) -> KafkaError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class InvalidArgumentError(KafkaError, ValueError):
    """An argument no broker would accept: a negative offset, a blank topic name."""
