"""Finds functions of users that have done nothing when they return: coroutine functions and generator functions.

Where kwire neither awaits nor iterates over their result, it says so. Otherwise a record whose coroutine nobody awaits
would count as done.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Generator
from functools import partial


def is_coroutine(function: object) -> bool:
    """Whether calling it makes a coroutine: of functions, partial ones, and objects that are called as one."""
    return any(map(inspect.iscoroutinefunction, _called_by(function)))


def is_generator(function: object) -> bool:
    """Whether calling it makes a generator, async or not."""
    called = _called_by(function)
    return any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in called)


def _called_by(function: object) -> tuple[object, object]:
    """The function itself, and the method if it is an object."""
    while isinstance(function, partial):
        function = function.func
    return function, getattr(type(function), "__call__", None)  # noqa: B004  the method itself is looked at


def unfinished(result: object) -> str | None:
    """Why the function that has returned this is not done; None if it is. A coroutine is closed: nobody awaits it."""
    if isinstance(result, Coroutine):
        result.close()
    kind = type(result).__name__.replace("_", " ")
    if isinstance(result, Awaitable):
        return f"it returned an object to await ({kind}), and nobody awaits it"
    if isinstance(result, Generator | AsyncGenerator):
        return f"it returned a generator ({kind}), and nobody iterates over it: do not yield"
    return None
