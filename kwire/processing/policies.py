"""The policies of a `Processor`: how often a failing record is tried, and what becomes of it and of lost data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias, TypeVar

from kwire.clock import Backoff
from kwire.consumer.arguments import float_of, whole_number
from kwire.consumer.foreign_calls import answers_foreign_keywords
from kwire.errors import InvalidArgumentError, RecordDeserializationError
from kwire.model import K, Record, V

E = TypeVar("E", bound=Enum)

_WAIT = "backoff= is how many seconds are waited after the first failure; it doubles with each"
_TRIED_AGAIN = "a record is tried again after every exception, except those in terminal="
RETRY_KEYWORDS: Mapping[str, str] = {
    **dict.fromkeys(("attempts", "tries", "stop"), "max_attempts= counts the first attempt, too"),
    **dict.fromkeys(("retries", "max_retries", "max_tries"), "max_attempts= counts the first attempt, too"),
    **dict.fromkeys(("delay", "initial_delay", "base_delay", "initial_backoff", "wait", "backoff_base"), _WAIT),
    **dict.fromkeys(("max_delay", "max_backoff"), "backoff_max= is the longest wait, in seconds"),
    **dict.fromkeys(("backoff_ms", "delay_ms"), "backoff= and backoff_max= are in seconds"),
    **dict.fromkeys(("multiplier", "factor", "exponent"), "each wait is twice as long as the one before"),
    "jitter": "each wait is up to 20 % shorter or longer",
    **dict.fromkeys(("on", "exceptions", "retry_on"), _TRIED_AGAIN),
}


def one_of(kind: type[E], name: str, given: object) -> E:
    """The member that a caller has given, or has named by its value.

    Raises:
        InvalidArgumentError: There is no such member.
    """
    try:
        return kind(given)
    except ValueError:
        valid = ", ".join(repr(member.value) for member in kind)
        raise InvalidArgumentError(f"{name} is {given!r}: it has to be one of {valid}") from None


def checked_number(name: str, given: object, unit: str | None = None) -> float:
    """A number that can be computed with. Raises: InvalidArgumentError."""
    if (number := float_of(given)) is None:
        raise InvalidArgumentError(f"{name} is {given!r}: it has to be a number" + (f" of {unit}" if unit else ""))
    return number


class OnFailure(Enum):
    """When no attempt is left."""

    STOP = "stop"
    """End with a `ProcessingError`; the record is not committed, and comes again."""
    SKIP = "skip"
    """Log it, and go on as if it were done."""


class OnDataLoss(Enum):
    """When records cannot be had: a batch in the log is damaged, or the log has lost the position, and
    `auto_offset_reset` is "none"."""

    STOP = "stop"
    """End with the error that says which, once what was delivered is finished and committed."""
    SKIP = "skip"
    """Log which offsets are missing, and go on behind them."""


DeadLetter: TypeAlias = Callable[[Record[K, V], Exception], object]
"""Called with a record that failed for good and its last error; with each of a batch; never in another process. May be
async if the handler is. When it returns, the record counts as done; when it raises, it is called again with that
record, and after three attempts the processor stops with a `WorkerError`. A record that cannot be deserialized has the
raw bytes of the key or value that failed; the error is its `RecordDeserializationError`, with the raw bytes of both."""


@answers_foreign_keywords(RETRY_KEYWORDS)
@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a record is tried, and how long is waited in between: exponential, with 20 % jitter.

    Args:
        max_attempts: None for as often as it takes: the partition, or the key, waits; all others go on.
        backoff: Seconds after the first failure; doubles with each.
        backoff_max: Seconds at most.
        terminal: Exceptions that no further attempt can help against: a class, or a tuple of classes.
    """

    max_attempts: int | None = None
    backoff: float = 0.1
    backoff_max: float = 30.0
    terminal: type[Exception] | tuple[type[Exception], ...] = ()
    _delays: Backoff = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("backoff", "backoff_max"):
            object.__setattr__(self, name, checked_number(name, getattr(self, name), "seconds"))
        if self.max_attempts is not None and whole_number("max_attempts", self.max_attempts) < 1:
            raise InvalidArgumentError(f"max_attempts is {self.max_attempts}: each record is tried once at least")
        if not 0 <= self.backoff <= self.backoff_max:  # also true of NaN
            raise InvalidArgumentError(
                f"backoff is {self.backoff} s, backoff_max {self.backoff_max} s: they need 0 <= backoff <= backoff_max"
            )
        try:
            isinstance(None, self.terminal)
        except TypeError as error:
            raise InvalidArgumentError(f"terminal is {self.terminal!r}: {error}") from None
        object.__setattr__(self, "_delays", Backoff(self.backoff * 1000.0, self.backoff_max * 1000.0))

    def delay_ms(self, attempts: int, error: BaseException) -> float | None:
        """How long to wait after this many failed attempts. None: the record has failed for good."""
        if not isinstance(error, Exception) or isinstance(error, RecordDeserializationError):
            return None
        if isinstance(error, self.terminal):
            return None
        if self.max_attempts is not None and attempts >= self.max_attempts:
            return None
        return self._delays.delay_ms(attempts)
