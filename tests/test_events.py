"""The answer slot of a command."""

from __future__ import annotations

import pytest

from kwire.errors import KafkaError
from kwire.events import Reply


def test_a_reply_holds_its_value_and_wakes_whoever_waits() -> None:
    woken: list[bool] = []
    reply: Reply[int] = Reply(on_done=lambda: woken.append(reply.done))
    assert not reply.done
    reply.succeed(7)
    assert reply.result() == 7
    assert woken == [True]


def test_a_failed_reply_raises() -> None:
    reply: Reply[int] = Reply()
    reply.fail(KafkaError("no"))
    assert reply.done
    with pytest.raises(KafkaError, match="no"):
        reply.result()


def test_only_the_first_outcome_counts() -> None:
    reply: Reply[int] = Reply()
    reply.succeed(1)
    reply.succeed(2)
    reply.fail(KafkaError("late"))
    assert reply.result() == 1


def test_none_is_a_value() -> None:
    reply: Reply[None] = Reply()
    reply.succeed(None)
    assert reply.result() is None


def test_a_reply_can_be_abandoned_and_says_what_it_waited_for() -> None:
    reply: Reply[int] = Reply("the weather")
    assert (reply.waiting_for, reply.abandoned) == ("the weather", False)
    reply.abandon()
    assert reply.abandoned
    assert not reply.done
