"""Why there is no token: what the ways to get one raise, and what the user sees of it."""

from __future__ import annotations

from typing import TypeVar

from kwire.errors import AuthenticationError, NoTokenError

E = TypeVar("E", bound=BaseException)


class TokenRequestError(Exception):
    """Asking for a token came to nothing.

    Args:
        is_certain: asking again at once would come to the same, so who waits is told at once.
        is_refused: the login server does not believe this client. It is asked again only for somebody who needs a
            token, and after a long pause: it may lock accounts that keep trying.
        pause_ms: how long the server wants to be left alone.
    """

    def __init__(
        self, message: str, *, is_certain: bool = False, is_refused: bool = False, pause_ms: float = 0.0
    ) -> None:
        self.is_certain = is_certain or is_refused
        self.is_refused = is_refused
        self.pause_ms = pause_ms
        super().__init__(message)

    def for_user(self) -> AuthenticationError:
        """A new exception each time: several tasks raise it, and each adds its traceback."""
        error = AuthenticationError(str(self)) if self.is_refused else NoTokenError(str(self))
        error.__cause__ = self.__cause__
        return error


def bare(error: E) -> E:
    """The error alone, as a cause: frames of its traceback, and of those that led to it, hold secrets."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
