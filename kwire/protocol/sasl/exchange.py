"""What every exchange can do, and the one way in which most are written: as a generator, which reads like the RFC."""

from __future__ import annotations

from collections.abc import Generator
from typing import ClassVar, Protocol, TypeAlias

from kwire.config.secret import Secret
from kwire.errors import IllegalSaslStateError, InternalError, SaslAuthenticationError

MAX_CHALLENGE_BYTES = 16 << 10
"""What a server may say at once. Honest messages have less than one KiB; what is behind a limit costs time to read."""

SHOWN_CHARACTERS = 300
"""How much of what a server says an error repeats."""


class SaslExchange(Protocol):
    """The client's side of one authentication: bytes in, bytes out.

    Attributes:
        does_io: Whether `first` and `answer` talk to a third party and may block; then they belong into a thread.
        server_error: What the server says is wrong, in mechanisms that have a message for that. The refusal that comes
            after it need not repeat it.
    """

    does_io: ClassVar[bool]

    @property
    def server_error(self) -> str | None: ...

    @property
    def is_complete(self) -> bool:
        """Whether the exchange is over, and the server has proven what it has to."""

    def first(self) -> bytes:
        """What the client begins with."""

    def answer(self, challenge: bytes) -> bytes | None:
        """What the client says to this. None: nothing, the exchange is over.

        Raises:
            AuthenticationError: the server is not who it should be, refuses, or does not follow the mechanism.
        """


Steps: TypeAlias = Generator[bytes, bytes, None]
"""Yields what the client says, is sent what the server says to that, and returns when both are content."""


class SteppedExchange:
    """An exchange whose mechanism is a generator of steps. It fails for good: after an error nothing completes it."""

    does_io: ClassVar[bool] = False

    def __init__(self, mechanism: str, steps: Steps) -> None:
        self.server_error: str | None = None
        self._mechanism = mechanism
        self._steps = steps
        self._has_begun = False
        self._awaits_server = False
        self._is_complete = False

    @property
    def is_complete(self) -> bool:
        return self._is_complete

    def first(self) -> bytes:
        if self._has_begun:
            raise InternalError(f"a {self._mechanism} exchange begins once; make another one")
        self._has_begun = True
        message = next(self._steps)
        self._awaits_server = True
        return message

    def answer(self, challenge: bytes) -> bytes | None:
        if not self._awaits_server:
            raise IllegalSaslStateError(f"{self._mechanism}: the broker says something when it is not its turn")
        # Only a step that goes on lets the server speak again.
        self._awaits_server = False
        if len(challenge) > MAX_CHALLENGE_BYTES:
            raise SaslAuthenticationError(
                f"{self._mechanism}: the broker's message has {len(challenge)} bytes, which is more than the "
                f"{MAX_CHALLENGE_BYTES} that one may have"
            )
        try:
            message = self._steps.send(challenge)
        except StopIteration:
            self._is_complete = True
            return None
        self._awaits_server = True
        return message

    def __repr__(self) -> str:
        progress = "complete" if self._is_complete else "under way" if self._awaits_server else "not under way"
        return f"<{type(self).__name__} of {self._mechanism}, {progress}>"


def shown(text: str) -> str:
    """What a server says, fit for an error message: short, on one line, without control characters."""
    return repr(text[:SHOWN_CHARACTERS])[1:-1] + ("..." if len(text) > SHOWN_CHARACTERS else "")


def utf8(mechanism: str, what: str, text: str | Secret) -> bytes:
    """The text as it goes out. Like Java's client and brokers, it is encoded and not normalized (no SASLprep)."""
    try:
        return text.encode() if isinstance(text, str) else text.reveal().encode()
    except UnicodeEncodeError:
        raise SaslAuthenticationError(
            f"{mechanism}: the {what} has characters that cannot be written as UTF-8; was its encoding another one?"
        ) from None
