"""What the network thread wants the application thread to do, oldest first: run a callback, raise an error.

An event stays in the mailbox until what it asks for is done: an exception of a signal handler must not lose it.
"""

from __future__ import annotations

from collections.abc import Collection

from kwire.errors import NoOffsetForPartitionError, OffsetOutOfRangeError
from kwire.events import BackgroundEvent, CallbackCompleted, CommitCompleted, ErrorRaised, RunCallback
from kwire.mailbox import Mailbox


def next_event(
    mailbox: Mailbox, *, but: Collection[BackgroundEvent] = (), but_callbacks: bool = False
) -> BackgroundEvent | None:
    """The oldest event, or the oldest that is no callback of a rebalance. Errors of an older subscription are dropped
    on the way."""

    def is_wanted(event: BackgroundEvent) -> bool:
        return not _is_one_of(event, but) and not (but_callbacks and isinstance(event, RunCallback))

    while (event := mailbox.find(is_wanted)) is not None:
        stale = isinstance(event, ErrorRaised) and event.subscription_epoch not in (
            None,
            mailbox.view.subscription_epoch,
        )
        if not stale:
            return event
        mailbox.remove(event)
    return None


def completed_commit(mailbox: Mailbox, *, but: Collection[BackgroundEvent] = ()) -> CommitCompleted | None:
    """The oldest commit that is done and has a callback to run."""
    event = mailbox.find(lambda each: isinstance(each, CommitCompleted) and not _is_one_of(each, but))
    return event if isinstance(event, CommitCompleted) else None


def end_callback(mailbox: Mailbox, event: RunCallback) -> None:
    """The callback has run, one way or the other; the rebalance goes on."""
    mailbox.post(CallbackCompleted(event.attempt))  # first: to be told twice does no harm
    mailbox.remove(event)


def discard_callbacks(mailbox: Mailbox) -> None:
    """Drop callbacks of a rebalance that an unsubscribe has overtaken."""
    mailbox.discard_background(lambda event: isinstance(event, RunCallback))


def discard_position_errors(mailbox: Mailbox) -> None:
    """Drop errors about missing positions, because the user has just set positions. Between `assign` and `seek`, for
    example, the network thread may find none. An error that still holds is found again by the next poll."""
    decided = (NoOffsetForPartitionError, OffsetOutOfRangeError)
    mailbox.discard_background(lambda event: isinstance(event, ErrorRaised) and isinstance(event.error, decided))


def discard_error(mailbox: Mailbox, error: BaseException) -> None:
    """Drop the event of this error, which a poll raises."""
    mailbox.discard_background(lambda event: isinstance(event, ErrorRaised) and event.error is error)


def _is_one_of(event: BackgroundEvent, events: Collection[BackgroundEvent]) -> bool:
    return any(event is each for each in events)
