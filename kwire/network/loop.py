"""The turns of the network thread.

One turn: application events to the managers, handlers of answers, every manager polled, their requests to the client,
and sleep until the earliest moment anybody named, or until something happens. A turn never awaits, so it does not
matter whose task it runs in: when an answer has been read, the reader's; when the application has posted an event,
trio's for calls of other threads; else the loop's own. All but the loop's own may be short (`network/short_turns.py`
says why).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import trio

from kwire.clock import NEVER_MS
from kwire.events import Close, Describe, PollStarted, RecordsDelivered
from kwire.mailbox import Mailbox
from kwire.managers.registry import RequestManagers
from kwire.managers.unsent import AnyUnsentRequest, PollResult
from kwire.network.client import NetworkClient
from kwire.network.inbox import Inbox
from kwire.network.short_turns import ShortTurns

if TYPE_CHECKING:
    from kwire.description.consumer_description import ConsumerDescription

T = TypeVar("T")

# The longest sleep, as in Java's network thread: nobody should need it, and it bounds the harm of a missed wake-up.
MAX_SLEEP_MS = 5_000.0
# A loop over the consumer polls ten times a second (`consumer/delivery.py`), unless its body takes longer.
LONG_BODY_MS = 200.0


class Waker:
    """Wakes the loop from inside its own thread; a wake-up during a turn makes the next sleep return at once."""

    def __init__(self) -> None:
        self._event = trio.Event()
        self._asleep: trio.CancelScope | None = None

    @property
    def is_asleep(self) -> bool:
        """Whether the loop sleeps, and nothing has woken it."""
        return self._asleep is not None and not self._event.is_set()

    def wake(self) -> None:
        self._event.set()

    def sleep_at_most(self, duration_ms: float) -> None:
        """Sleep on, but not longer than that. This shortens the sleep and never lengthens it: one early wake-up costs
        less than moving the deadline each time."""
        at_s = trio.current_time() + max(0.0, duration_ms) / 1000.0
        if self._asleep is not None and at_s < self._asleep.deadline:
            self._asleep.deadline = at_s

    async def sleep(self, duration_ms: float) -> None:
        try:
            with trio.move_on_after(max(0.0, duration_ms) / 1000.0) as self._asleep:
                await self._event.wait()
        finally:  # also when the run ends: no turn is taken beside a loop that is gone
            self._asleep = None
        self._event = trio.Event()


class NetworkLoop:
    """The network thread's loop: takes events, polls managers, sends, and sleeps until there is something to do.

    Args:
        now_ms: the clock that the deadlines of the application thread are measured with.
        describe: makes the description that a `Describe` event is answered with.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        managers: RequestManagers,
        client: NetworkClient,
        short_turns: ShortTurns,
        waker: Waker,
        now_ms: Callable[[], float],
        *,
        read_committed: bool,
        describe: Callable[[float], ConsumerDescription] | None = None,
    ) -> None:
        self._mailbox = mailbox
        self._metrics = mailbox.metrics.turns
        self._managers = managers
        self._client = client
        self._short_turns = short_turns
        self._waker = waker
        self._now_ms = now_ms
        self._inbox = Inbox(managers, self._on_close, self._on_describe, read_committed=read_committed)
        self._describe = describe
        self._closing: Close | None = None
        self._error: BaseException | None = None
        self.turns = 0

    @property
    def impatient(self) -> Sequence[str]:
        """The managers that broke the wait rule: bugs."""
        return self._managers.impatient

    async def run(self) -> None:
        """Until closed. Everything the client started has ended when this returns."""
        async with trio.open_nursery() as nursery:
            self._client.attach(nursery)
            while self._closing is None:
                await self._turn_and_sleep()
            await self._finish(self._closing)
            self._client.close()
            nursery.cancel_scope.cancel()
        self._client.forget(self._now_ms())

    async def _turn_and_sleep(self) -> None:
        wake_at_ms = self.turn(self._now_ms())
        await self._waker.sleep(wake_at_ms - self._now_ms())
        if self._error is not None:
            raise self._error

    def turn_now(self) -> None:
        """Answers have been read, or events were posted: take a turn at once, in the task that says so, while the loop
        sleeps on. That saves a step of trio's scheduler.

        Unless the loop is awake: it has been woken before, or is closing, and its next turn is due anyway.
        """
        if self._closing is not None or not self._waker.is_asleep:
            self._waker.wake()
            return
        try:
            wake_at_ms = self.turn(self._now_ms(), may_be_short=True)
        except BaseException as error:  # noqa: BLE001  not the task's: the loop dies of it
            self._error = error
            self._waker.wake()
        else:
            self._waker.sleep_at_most(wake_at_ms - self._now_ms())

    def turn(self, now_ms: float, *, may_be_short: bool = False) -> float:
        """One turn; when the next one is due."""
        self.turns += 1
        self._metrics.began(now_ms)
        self._mailbox.begin_turn()
        self._note_loop(now_ms)
        self._process_events(now_ms)
        answers = self._client.complete(now_ms)
        wake_at_ms = self._short_turns.begin(self._managers, self._client, answers, now_ms)
        if may_be_short and wake_at_ms is not None:
            return wake_at_ms
        self._short_turns.end()
        return self._poll_all(now_ms)

    def _note_loop(self, now_ms: float) -> None:
        """Note how far a loop over the consumer has come whose body takes long over a record. It cannot tell by itself;
        auto-commit and lag would stay where they were at its last poll.

        Before events: if the application seeks meanwhile, that comes behind this, and holds.
        """
        if now_ms - self._mailbox.polled_at_ms > LONG_BODY_MS and (delivered := self._mailbox.in_front_of_loop()):
            self._inbox.process(RecordsDelivered(delivered, came_back=False), now_ms)

    def _process_events(self, now_ms: float) -> None:
        if events := self._mailbox.drain():
            self._short_turns.note_events(events)
            for event in events:
                self._inbox.process(event, now_ms)
                if isinstance(event, PollStarted):  # what another event of this turn needs is news to that poll
                    self._mailbox.await_poll(self._managers.awaits_poll)
            self._metrics.processed_events(self._now_ms() - now_ms, now_ms)

    def _poll_all(self, now_ms: float) -> float:
        requests, managers_at_ms = self._managers.poll(now_ms)
        self._client.send(requests, now_ms)
        client_at_ms = self._client.poll(now_ms)
        self._mailbox.bootstrap_error = self._client.bootstrap_error
        self._mailbox.was_reached = self._client.ever_connected
        self._mailbox.connection_failures = self._client.connection_failures
        self._mailbox.await_poll(self._managers.awaits_poll)
        self._mailbox.polls_in_a_row.look(now_ms)
        self._inbox.end_turn()
        catch_up_at_ms = self._managers.tell_catch_up(now_ms) if len(self._managers.cursors) > 1 else NEVER_MS
        return min(managers_at_ms, client_at_ms, catch_up_at_ms, now_ms + MAX_SLEEP_MS)

    def _on_describe(self, event: Describe) -> None:
        if self._describe is not None:
            event.reply.succeed(self._describe(self._now_ms()))

    # --- the end --------------------------------------------------------------------------------------------

    def _on_close(self, event: Close) -> None:
        self._closing = event
        self._waker.wake()

    async def _finish(self, close: Close) -> None:
        """Let commits finish, leave the group, end the fetch sessions; when time is up, the rest stays undone."""
        managers = self._managers
        self._client.send_last()
        await self._until(lambda: managers.offset_commit.idle, managers.poll_commits, close.deadline_ms)
        managers.offset_commit.close()
        managers.membership.close(leave_group=close.leave_group)
        unanswered = {id(request): request for request in managers.poll_on_close(self._now_ms())}
        self._client.send([_watched(request, unanswered) for request in unanswered.values()], self._now_ms())
        await self._until(
            lambda: not unanswered and managers.membership.leaving.idle, managers.poll_leaving, close.deadline_ms
        )
        managers.coordinator.close()

    async def _until(self, done: Callable[[], bool], poll: Callable[[float], PollResult], deadline_ms: float) -> None:
        """Turns of the loop in which only some of the managers are polled."""
        while True:
            now_ms = self._now_ms()
            self._client.complete(now_ms)
            requests, managers_at_ms = poll(now_ms)
            self._client.send(requests, now_ms)
            wake_at_ms = min(managers_at_ms, self._client.poll(now_ms), deadline_ms)
            if done() or now_ms >= deadline_ms:
                return
            await self._waker.sleep(wake_at_ms - self._now_ms())


def _watched(request: AnyUnsentRequest, unanswered: dict[int, AnyUnsentRequest]) -> AnyUnsentRequest:
    """The same request, which removes itself from `unanswered` when it is answered or has failed."""

    def striking_off(handler: Callable[[T, float], None]) -> Callable[[T, float], None]:
        def handle(outcome: T, now_ms: float) -> None:
            unanswered.pop(id(request), None)
            handler(outcome, now_ms)

        return handle

    return replace(request, on_answer=striking_off(request.on_answer), on_failure=striking_off(request.on_failure))
