"""Exceptions that are those of another client, too, if the program has imported it.

It may catch them around that client's producer, for instance, or run under a framework that is written for the client.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TypeAlias, TypeVar, cast

T = TypeVar("T", bound=BaseException)
# A module, and the name of a class there.
Place: TypeAlias = tuple[str, str | None]


def as_theirs(kind: type[T], module: str, name: str | None = None) -> type[T]:
    """The class; if the program has imported the other client's, a subclass of both.

    Args:
        kind: The adapter's class.
        module: The other client's module.
        name: The class in that module. By default it has the name of the adapter's class, or else of its nearest base.
    """
    theirs = _theirs(kind, module, name)
    if theirs is None or issubclass(kind, theirs):  # this package is in the place of the other client's
        return kind
    return cast("type[T]", _both(kind, theirs, (module, name)))  # type: ignore[arg-type]  # a class is hashable


def _theirs(kind: type[BaseException], module: str, name: str | None) -> type | None:
    names = (each.__name__ for each in kind.__mro__) if name is None else (name,)
    return next(filter(None, (getattr(sys.modules.get(module), each, None) for each in names)), None)


@cache
def _both(kind: type[BaseException], theirs: type, place: Place) -> type:
    def reduced(error: BaseException) -> tuple[object, ...]:
        """Pickle looks a class up by its name, and would find the class without the other client's."""
        return _again, (kind, place, error.args), vars(error)

    # The other client's class may make arguments and a text of its own, or be one without a hash.
    ours = {name: getattr(kind, name) for name in ("__init__", "__str__", "__eq__", "__hash__")}
    return type(kind.__name__, (kind, theirs), {"__module__": kind.__module__, "__reduce__": reduced, **ours})


def _again(kind: type[BaseException], place: Place, args: tuple[object, ...]) -> BaseException:
    made = as_theirs(kind, *place)
    return made.__new__(made, *args)
