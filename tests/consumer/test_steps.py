"""Steps that wait, and who drives them: what strikes while they wait is raised where they wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kwire.clock import Deadline
from kwire.consumer.steps import Steps, Wait, run_blocking
from kwire.mailbox import Mailbox


class StruckMailbox(Mailbox):
    """A mailbox in which a Ctrl-C strikes each time somebody waits."""

    def wait(self, seen: int, deadline: Deadline) -> None:
        raise KeyboardInterrupt


def waits(times: int, log: list[str]) -> Steps[str]:
    for _ in range(times):
        try:
            yield Wait(0, Deadline.after(0.0))
        except KeyboardInterrupt:
            log.append("struck")
    return "done"


def test_steps_that_wait_for_nothing_answer_at_once() -> None:
    assert run_blocking(StruckMailbox(), waits(0, [])) == "done"


def test_steps_go_on_when_something_was_signalled_or_at_the_deadline() -> None:
    mailbox = Mailbox()
    mailbox.notify()
    assert run_blocking(mailbox, waits(2, [])) == "done"


def test_steps_may_finish_what_has_to_be_finished_when_a_signal_strikes() -> None:
    log: list[str] = []
    assert run_blocking(StruckMailbox(), waits(3, log)) == "done"
    assert log == ["struck"] * 3


def _before_they_wait() -> Steps[None]:
    int("theirs")
    yield Wait(0, Deadline.after(0.0))


def _while_they_wait() -> Steps[None]:
    try:
        yield Wait(0, Deadline.after(0.0))
    except KeyboardInterrupt as struck:
        raise ValueError("theirs") from struck


@pytest.mark.parametrize("steps", [_before_they_wait, _while_they_wait])
def test_what_the_steps_raise_is_raised_by_the_call(steps: Callable[[], Steps[None]]) -> None:
    with pytest.raises(ValueError, match="theirs"):
        run_blocking(StruckMailbox(), steps())


def test_a_call_that_was_struck_leaves_no_cycle_behind() -> None:
    """The error's traceback holds the frames of the call; were the error held by one, records would live on."""
    with pytest.raises(KeyboardInterrupt) as struck:
        run_blocking(StruckMailbox(), _unprepared())
    frames = []
    trace = struck.value.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    assert not [frame for frame in frames[1:] if struck.value in frame.f_locals.values()]


def _unprepared() -> Steps[None]:
    yield Wait(0, Deadline.after(0.0))
