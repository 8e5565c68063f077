"""How a call waits: the network thread looks at a question once, even when there is no time to wait for its answer."""

from __future__ import annotations

import pytest

from kwire import TopicPartition
from kwire.config import ConsumerConfig
from kwire.consumer.network_link import NetworkLink
from kwire.errors import InternalError, KafkaTimeoutError
from kwire.events import ApplicationEvent, EndOfTurn, GetPosition

TP = TopicPartition("orders", 0)


class Network:
    """The other side of a link. It takes its turn late: only once somebody waits for the end of one."""

    def __init__(self, position: int | None) -> None:
        self.link = NetworkLink(ConsumerConfig.of(bootstrap_servers="localhost:9092"), client_id="c")
        self.link.mailbox.attach(self._woken)
        self.seen: list[ApplicationEvent] = []
        self._position = position

    def ask(self) -> int:
        return self.link.run(self.link.ask("position", lambda reply: GetPosition(TP, reply), timeout=0))

    def _woken(self) -> None:
        for event in self.link.mailbox.drain():
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
    assert Network(position=5).ask() == 5


def test_a_timeout_says_what_the_network_thread_was_waiting_for() -> None:
    """Once it said that it was waiting for the network thread, which had not even seen the question."""
    network = Network(position=None)
    with pytest.raises(KafkaTimeoutError, match="position took too long; it was still waiting for a broker"):
        network.ask()
    assert [type(event) for event in network.seen] == [GetPosition, EndOfTurn]


def test_a_dead_network_thread_is_not_waited_for() -> None:
    network = Network(position=None)
    network.link.mailbox.fail(InternalError("dead"))
    with pytest.raises(InternalError):
        network.ask()
