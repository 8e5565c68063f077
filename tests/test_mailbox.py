"""The queues between the two threads: nothing is lost, nobody sleeps through a signal."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import pytest

from kwire.clock import Deadline
from kwire.epochs import Attempt, SubscriptionEpoch
from kwire.errors import InternalError, KafkaError, SaslAuthenticationError, TopicAuthorizationError
from kwire.events import (
    AssignmentView,
    BackgroundEvent,
    CallbackKind,
    CommitCompleted,
    ErrorRaised,
    PollStarted,
    Reply,
    RunCallback,
)
from kwire.mailbox import Mailbox

if TYPE_CHECKING:
    from _typeshed import TraceFunction

LONG = Deadline.after(60_000)
OVER = Deadline(0.0)

FIRST, SECOND = SubscriptionEpoch(1), SubscriptionEpoch(2)


def take(mailbox: Mailbox) -> BackgroundEvent | None:
    """The oldest background event, out of the queue."""
    event = mailbox.find(lambda _: True)
    if event is not None:
        mailbox.remove(event)
    return event


def callback(attempt: int = 1) -> RunCallback:
    return RunCallback(CallbackKind.ASSIGNED, frozenset(), Attempt(attempt), FIRST)


def test_application_events_arrive_in_order_and_once() -> None:
    mailbox, events = Mailbox(), [PollStarted() for _ in range(5)]
    for event in events:
        mailbox.post(event)
    drained = mailbox.drain()
    assert all(got is sent for got, sent in zip(drained, events, strict=True))
    assert mailbox.drain() == []


def test_posting_wakes_the_network_thread_and_noting_does_not() -> None:
    mailbox, wakes = Mailbox(), []
    mailbox.attach(lambda: wakes.append(True))
    mailbox.note(PollStarted())
    assert wakes == []
    mailbox.post(PollStarted())
    assert len(wakes) == 1
    assert len(mailbox.drain()) == 2


def test_a_network_thread_that_has_a_turn_to_come_is_not_woken_again() -> None:
    """A wake-up is a system call; a commit for each record made 20,000 of them."""
    mailbox, wakes = Mailbox(), []
    mailbox.attach(lambda: wakes.append(True))
    for _ in range(3):
        mailbox.post(PollStarted())
    assert len(wakes) == 1
    mailbox.begin_turn()
    mailbox.post(PollStarted())
    assert len(wakes) == 2
    assert len(mailbox.drain()) == 4


def test_a_turn_that_begins_inside_of_the_wake_up_is_not_counted_on_later() -> None:
    mailbox, turns = Mailbox(), []

    def turn() -> None:
        mailbox.begin_turn()
        turns.append(len(mailbox.drain()))

    mailbox.attach(turn)
    for _ in range(3):
        mailbox.post(PollStarted())
    assert turns == [1, 1, 1]


def test_a_wake_up_that_a_signal_handler_has_ended_is_made_by_the_next_post() -> None:
    """Ctrl-C inside of a call; the program goes on, and no later call may wait for a turn that nobody begins."""
    for interrupted in range(200):
        mailbox = Mailbox()
        wakes: list[bool] = []
        mailbox.attach(partial(wakes.append, True))
        with suppress(KeyboardInterrupt), interrupting(_interrupt, interrupted) as interruption:
            mailbox.post(PollStarted())
        if not interruption.done:
            assert interrupted > 10
            return
        mailbox.post(PollStarted())
        assert wakes, f"interrupted at instruction {interrupted}"
    pytest.fail("posting has no end")


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_an_application_that_sleeps_looks_again_when_its_polls_begin_to_matter() -> None:
    """It saw that nobody waits for its poll, and went to sleep; then somebody did: a member that has to join again."""
    mailbox = Mailbox()
    said = [mailbox.awaits_poll]
    mailbox.await_poll(False)
    said.append(mailbox.awaits_poll)
    seen = mailbox.signal()
    mailbox.await_poll(True)
    said.append(mailbox.awaits_poll)
    mailbox.wait(seen, LONG)
    assert said == [True, False, True]
    seen = mailbox.signal()
    mailbox.await_poll(True)
    assert mailbox.signal() == seen, "no news"


def test_each_time_that_polls_begin_to_matter_is_a_round_of_its_own() -> None:
    """So a poll that has said already that it polls says so again."""
    mailbox = Mailbox()
    rounds = [mailbox.poll_round]
    for awaits in (True, False, True, True, False, True):
        mailbox.await_poll(awaits)
        rounds.append(mailbox.poll_round)
    assert rounds == [1, 1, 1, 2, 2, 2, 3]


def test_posting_to_a_thread_that_is_gone_is_no_error() -> None:
    mailbox = Mailbox()
    mailbox.post(PollStarted())
    mailbox.attach(lambda: mailbox.attach(None))
    mailbox.post(PollStarted())
    mailbox.post(PollStarted())


def test_background_events_arrive_in_order() -> None:
    mailbox = Mailbox()
    for attempt in (1, 2, 3):
        mailbox.deliver(callback(attempt))
    assert [take(mailbox) for _ in range(4)] == [callback(1), callback(2), callback(3), None]


def test_unwanted_background_events_can_be_discarded() -> None:
    mailbox = Mailbox()
    error = ErrorRaised(KafkaError("bad"))
    for event in (callback(1), error, callback(2)):
        mailbox.deliver(event)
    mailbox.discard_background(lambda event: isinstance(event, RunCallback))
    assert [take(mailbox), take(mailbox)] == [error, None]


def test_an_error_that_is_waiting_to_be_raised_is_not_queued_again() -> None:
    """A topic without permission fails ten times a second: an application that did not poll for a minute would have
    been told six hundred times, one poll each, long after the permission was given."""
    mailbox = Mailbox()
    for _ in range(5):
        mailbox.deliver(ErrorRaised(TopicAuthorizationError({"secret"}), FIRST))
        mailbox.deliver(CommitCompleted(lambda _offsets, _error: None, {}, None))
    mailbox.deliver(ErrorRaised(TopicAuthorizationError({"other"}), FIRST))
    mailbox.deliver(ErrorRaised(TopicAuthorizationError({"secret"}), SECOND))
    errors = []
    while (event := take(mailbox)) is not None:
        errors += [event] if isinstance(event, ErrorRaised) else []
    assert [(str(event.error)[-6:], event.subscription_epoch) for event in errors] == [
        ("secret", FIRST),
        (" other", FIRST),
        ("secret", SECOND),
    ]
    mailbox.begin_turn()
    mailbox.deliver(ErrorRaised(TopicAuthorizationError({"secret"}), SECOND))
    assert take(mailbox) is not None


def test_one_cause_that_fails_two_requests_of_a_turn_is_one_error_however_fast_it_is_raised() -> None:
    """A refused login fails the request for metadata and the one for the coordinator: the application may have raised
    the first one's error before the second one's is queued."""
    mailbox = Mailbox()
    refused = SaslAuthenticationError("the vault is sealed")
    mailbox.deliver(ErrorRaised(refused))
    assert take(mailbox) == ErrorRaised(refused)
    mailbox.deliver(ErrorRaised(refused))
    assert take(mailbox) is None

    mailbox.begin_turn()
    mailbox.deliver(ErrorRaised(refused))
    assert take(mailbox) == ErrorRaised(refused)


def test_a_signal_between_looking_and_waiting_is_not_slept_through() -> None:
    mailbox = Mailbox()
    for change in (mailbox.notify, lambda: mailbox.deliver(callback()), mailbox.wakeup):
        seen = mailbox.signal()
        change()
        mailbox.wait(seen, LONG)  # returns at once
    seen = mailbox.signal()
    mailbox.fail(InternalError("dead"))
    mailbox.wait(seen, LONG)


def test_waiting_ends_with_the_deadline() -> None:
    mailbox = Mailbox()
    mailbox.wait(mailbox.signal(), OVER)
    mailbox.wait(mailbox.signal(), Deadline.after(1))


def test_a_deadline_without_end_can_be_waited_for() -> None:
    mailbox = Mailbox()
    waiter = threading.Thread(target=mailbox.wait, args=(mailbox.signal(), Deadline(float("inf"))))
    waiter.start()
    mailbox.notify()
    waiter.join(10)
    assert not waiter.is_alive()


def test_a_waiting_thread_is_woken_by_each_kind_of_news() -> None:
    mailbox = Mailbox()
    for change in (mailbox.notify, lambda: mailbox.deliver(callback()), mailbox.wakeup):
        waiter = threading.Thread(target=mailbox.wait, args=(mailbox.signal(), LONG))
        waiter.start()
        change()
        waiter.join(10)
        assert not waiter.is_alive()


def test_a_ping_pong_of_two_threads_loses_nothing() -> None:
    mailbox, rounds = Mailbox(), 500
    received: list[int] = []

    def application() -> None:
        while len(received) < rounds:
            seen = mailbox.signal()
            event = take(mailbox)
            if isinstance(event, RunCallback):
                received.append(event.attempt)
            else:
                mailbox.wait(seen, LONG)

    thread = threading.Thread(target=application)
    thread.start()
    for attempt in range(rounds):
        mailbox.deliver(callback(attempt))
    thread.join(10)
    assert received == list(range(rounds))


def test_a_wakeup_is_taken_once_and_waits_for_whoever_comes() -> None:
    mailbox = Mailbox()
    assert not mailbox.take_wakeup()
    mailbox.wakeup()
    mailbox.wakeup()
    assert mailbox.take_wakeup()
    assert not mailbox.take_wakeup()


class Sleeper:
    """Counts how often it is woken."""

    def __init__(self) -> None:
        self.woken = 0

    def release(self) -> None:
        self.woken += 1


def test_who_waits_for_a_reply_sleeps_until_it_is_there() -> None:
    """Each of a thousand tasks that commit would else wake up for the replies of all others."""
    mailbox, of_reply, of_anything = Mailbox(), Sleeper(), Sleeper()
    reply, other = Reply[int](on_done=mailbox.notify), Reply[int](on_done=mailbox.notify)
    mailbox.add_waiter(of_reply, reply)
    mailbox.add_waiter(of_anything)
    other.succeed(1)
    mailbox.deliver(callback())
    assert (of_reply.woken, of_anything.woken) == (0, 2)
    reply.succeed(2)
    assert (of_reply.woken, of_anything.woken) == (1, 3)


@pytest.mark.parametrize(
    "end",
    [Mailbox.wakeup, lambda mailbox: mailbox.fail(InternalError("dead")), Mailbox.notify_all],
    ids=["wakeup", "the network thread dies", "the network thread ends"],
)
def test_what_ends_each_call_wakes_also_who_waits_for_a_reply(end: Callable[[Mailbox], object]) -> None:
    mailbox, sleeper = Mailbox(), Sleeper()
    mailbox.add_waiter(sleeper, Reply[int]())
    end(mailbox)
    assert sleeper.woken == 1


def test_a_death_is_remembered() -> None:
    mailbox, error = Mailbox(), InternalError("dead")
    mailbox.fail(error)
    assert mailbox.failure is error
    assert mailbox.view == AssignmentView()


def test_a_wakeup_by_a_signal_handler_is_not_slept_through() -> None:
    """Python runs a handler on the main thread between any two instructions, where the lock keeps nobody out that the
    same thread already holds it for. One that struck between looking at the signal and being ready to be woken had
    nobody to wake: a consumer told to stop by SIGTERM slept on until the next record."""
    before_blocking = instructions_before_blocking(Mailbox())
    assert before_blocking > 10
    for interrupted in range(before_blocking):
        mailbox, deadline = Mailbox(), Deadline.after(5_000)
        with interrupting(mailbox.wakeup, interrupted):
            mailbox.wait(0, deadline)
        assert not deadline.expired, f"interrupted at instruction {interrupted}"


def test_a_wakeup_by_a_signal_handler_while_one_is_taken_is_taken_then_or_next() -> None:
    for interrupted in range(100):
        mailbox = Mailbox()
        with interrupting(mailbox.wakeup, interrupted) as interruption:
            taken = mailbox.take_wakeup()
        if not interruption.done:
            assert interrupted > 10
            return
        assert taken or mailbox.take_wakeup(), f"interrupted at instruction {interrupted}"
    pytest.fail("taking a wakeup has no end")


class Interruption:
    """Calls `handler` at one instruction of what the thread does, as the interpreter calls signal handlers.

    Args:
        instruction: counted from the first one inside a function that is called.
    """

    def __init__(self, handler: Callable[[], None], instruction: int) -> None:
        self.done = False
        self.instructions = 0
        self._handler = handler
        self._instruction = instruction

    def trace(self, frame: FrameType, event: str, _argument: object) -> TraceFunction:
        frame.f_trace_opcodes = True
        if event == "opcode":
            if self.instructions == self._instruction:
                self.done = True
                self._handler()
            self.instructions += 1
        return self.trace


@contextmanager
def interrupting(handler: Callable[[], None], instruction: int) -> Iterator[Interruption]:
    interruption, before = Interruption(handler, instruction), sys.gettrace()  # that of coverage
    gc.disable()  # finalizers of what others have left would be counted
    sys._getframe().f_trace_opcodes = True  # Python 3.12 traces instructions only if a frame wants it by now
    sys.settrace(interruption.trace)
    try:
        yield interruption
    finally:
        sys.settrace(before)
        gc.enable()


def instructions_before_blocking(mailbox: Mailbox) -> int:
    """How many instructions a wait takes up to its last `acquire` with a timeout, which is where it sleeps."""
    counts = [0]

    def note(_frame: FrameType, event: str, called: object) -> None:
        if event == "c_call" and getattr(called, "__name__", "") == "acquire":
            counts.append(interruption.instructions)

    with interrupting(lambda: None, -1) as interruption:
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            mailbox.wait(0, OVER)
        finally:
            sys.setprofile(before)
    return max(counts)
