"""Tokens that the user's own code gives. It runs in a worker thread, and may block there."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping

from kwire.config import OAuthToken, TokenAnswer, TokenProvider, TokenSource
from kwire.errors import AuthenticationError
from kwire.network.login.arrival import number_of
from kwire.network.login.failures import TokenRequestError

_NAME = "sasl_oauth_token_provider"
_RETURNS = "it has to return a token: an OAuthToken, a str, or a tuple of a str and the end of its life"
# Seconds since 1970 are below that until the year 5138; ms since 1970 are above it since 1973.
_FIRST_MS = 100_000_000_000


class ProviderTokens:
    """Asks `sasl_oauth_token_provider`. A coroutine gets an asyncio event loop of its own."""

    def __init__(self, provider: TokenProvider) -> None:
        self._ask: Callable[[], TokenAnswer | Awaitable[TokenAnswer]]
        self._extensions: Callable[[], object] | None = None
        if isinstance(provider, TokenSource):
            self._ask = provider.token
            self._extensions = getattr(provider, "extensions", None)  # kafka-python and aiokafka have it (KIP-342)
        else:
            self._ask = provider

    def __call__(self) -> OAuthToken:
        try:
            answer = result_of_call(self._ask)
            extensions = self._extensions() if callable(self._extensions) else {}
        except BaseException as error:  # in this thread there is nobody else to raise; sys.exit() is no end of it
            raise TokenRequestError(
                f"{_NAME} failed: {type(error).__name__}: {error}", is_refused=isinstance(error, AuthenticationError)
            ) from error
        return _with_extensions(_token_of(answer), extensions)


def result_of_call(function: Callable[[], object]) -> object:
    """What it returns, or, of a coroutine function, what comes of that in an event loop of its own."""
    answer = function()
    if not inspect.isawaitable(answer):
        return answer
    import asyncio  # takes time to load, which others do without

    return asyncio.run(_result_of(answer))


async def _result_of(answer: Awaitable[object]) -> object:
    return await answer


def _token_of(answer: object) -> OAuthToken:
    match answer:
        case OAuthToken():
            token = answer
        case str():
            token = OAuthToken(answer)
        case (str(value), int() | float() as end) if not isinstance(end, bool):
            token = OAuthToken(value, end if end >= _FIRST_MS or number_of(end) is None else end * 1000.0)
        case _:
            raise _bad(f"returned {kind_of(answer)}; {_RETURNS}")
    _check_types(token)
    return token


def _check_types(token: OAuthToken) -> None:
    """A user's own token is checked as foreign data is: what is wrong in it must not end the network thread."""
    value: object = token.value
    if not isinstance(value, str):
        raise _bad(f"returned an OAuthToken whose value is {kind_of(value)}, not a str")
    if token.expires_at_ms is not None and number_of(token.expires_at_ms) is None:
        raise _bad("returned a token whose end is no number of seconds or ms since 1970")


def _with_extensions(token: OAuthToken, more: object) -> OAuthToken:
    found: object = token.extensions
    if not isinstance(found, Mapping) or not isinstance(more, Mapping | None):
        raise _bad("has extensions that are no mapping of names to text")
    together = {**(more or {}), **found}
    if not all(isinstance(text, str) for item in together.items() for text in item):
        raise _bad("has extensions that are not text")
    return OAuthToken(token.value, token.expires_at_ms, together)


def kind_of(answer: object) -> str:
    """What was returned, without showing it: there may be a token in it."""
    if isinstance(answer, tuple):
        return f"a tuple ({', '.join(type(part).__name__ for part in answer)})"
    return f"a {type(answer).__name__}" if answer is not None else "None"


def _bad(what: str) -> TokenRequestError:
    return TokenRequestError(f"{_NAME} {what}", is_certain=True)
