"""The answer slot of a command."""

from __future__ import annotations

import pytest

from kwire.errors import KafkaError
from kwire.events import Reply, ReplyPart


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


def test_what_a_part_waits_for_the_whole_waits_for() -> None:
    whole: Reply[int] = Reply("the weather")
    part = ReplyPart[str](whole, lambda: None)
    assert part.waiting_for == "the weather"
    part.waiting_for = "rain"
    assert whole.waiting_for == "rain"


def test_a_part_is_given_up_with_the_whole_or_when_that_is_filled_or_alone() -> None:
    given_up, filled, waiting = Reply[int](), Reply[int](), Reply[int]()
    parts = [ReplyPart[str](whole, lambda: None) for whole in (given_up, filled, waiting, waiting)]
    given_up.abandon()
    filled.succeed(1)
    parts[-1].abandon()
    assert [part.abandoned for part in parts] == [True, True, False, True]
    assert not waiting.abandoned


def test_a_part_that_fails_can_fail_the_whole_and_one_that_succeeds_does_not() -> None:
    whole: Reply[int] = Reply()
    good, bad = ReplyPart[str](whole, lambda: None), ReplyPart[str](whole, lambda: None)
    good.succeed("value")
    assert not good.fails_whole()
    assert not whole.done
    bad.fail(KafkaError("no"))
    assert bad.fails_whole()
    with pytest.raises(KafkaError, match="no"):
        whole.result()
