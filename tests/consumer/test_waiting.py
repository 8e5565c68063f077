"""How a call waits when it has no time to: the network thread looks at the question once, whatever the timeout."""

from __future__ import annotations

from functools import partial

import pytest

from kwire import TopicPartition
from kwire.consumer.waiting import BlockingCalls
from kwire.errors import InternalError, KafkaTimeoutError
from kwire.events import ApplicationEvent, EndOfTurn, GetPosition
from kwire.mailbox import Mailbox

TP = TopicPartition("orders", 0)


class Network:
    """The other side of a mailbox. It takes its turn late: only once somebody waits for the end of one."""

    def __init__(self, position: int | None) -> None:
        self.mailbox = Mailbox()
        self.mailbox.attach(self._woken)
        self.seen: list[ApplicationEvent] = []
        self._position = position

    def _woken(self) -> None:
        for event in self.mailbox.drain():
            self.seen.append(event)
            if isinstance(event, EndOfTurn):
                self._turn(event)

    def _turn(self, end: EndOfTurn) -> None:
        for event in self.seen:
            if isinstance(event, GetPosition):
                event.reply.waiting_for = "a broker"
                if self._position is not None:
                    event.reply.succeed(self._position)
        end.reply.succeed(None)


def test_what_the_network_thread_knows_by_itself_is_answered_in_no_time() -> None:
    network = Network(position=5)
    calls = BlockingCalls(network.mailbox, 1_000)
    assert calls.ask("position", partial(GetPosition, TP), timeout=0) == 5


def test_a_timeout_says_what_the_network_thread_was_waiting_for() -> None:
    """Once it said that it was waiting for the network thread, which had not even seen the question."""
    network = Network(position=None)
    calls = BlockingCalls(network.mailbox, 1_000)
    with pytest.raises(KafkaTimeoutError, match="position took too long; it was still waiting for a broker"):
        calls.ask("position", partial(GetPosition, TP), timeout=0)
    assert [type(event) for event in network.seen] == [GetPosition, EndOfTurn]


def test_a_dead_network_thread_is_not_waited_for() -> None:
    mailbox = Mailbox()
    mailbox.fail(InternalError("dead"))
    with pytest.raises(InternalError):
        BlockingCalls(mailbox, 1_000).ask("position", partial(GetPosition, TP), timeout=0)
