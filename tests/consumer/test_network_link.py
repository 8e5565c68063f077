"""How a call waits: the network thread looks at a question once, even when there is no time to wait for its answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from traceback import walk_tb

import pytest

from kwire import Consumer, TopicPartition
from kwire.config import ConsumerConfig
from kwire.consumer.network_link import NetworkLink
from kwire.errors import BootstrapError, InternalError, KafkaError, KafkaTimeoutError
from kwire.events import ApplicationEvent, EndOfTurn, ErrorRaised, GetPosition, Reply
from kwire.mailbox import Mailbox

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
        self.link.mailbox.begin_turn()
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


@pytest.mark.parametrize("no_time", [0, 0.0, timedelta(0)])
def test_ends_that_nobody_can_tell_in_no_time_are_left_out(no_time: float | timedelta) -> None:
    """As in Java. With a timedelta it was an error."""
    with Consumer[bytes, bytes](bootstrap_servers="127.0.0.1:1") as consumer:
        assert consumer.end_offsets([TP], timeout=no_time) == consumer.beginning_offsets([TP], timeout=no_time) == {}
        assert consumer.offsets_for_times({TP: 1}, timeout=no_time) == {TP: None}


# --- one error that many calls raise ------------------------------------------------------------------------------


def frames_of_the_second_raise(call: Callable[[], object]) -> set[str]:
    """The functions that its traceback names, of this file."""
    with pytest.raises(KafkaError) as once:
        call()
    with pytest.raises(KafkaError) as again:
        call()
    assert again.value is once.value
    return {frame.f_code.co_name for frame, _ in walk_tb(again.value.__traceback__)} & {"first", "second"}


def in_turn(call: Callable[[], object]) -> Callable[[], object]:
    """Call it from a function called first, then from one called second."""

    def first() -> object:
        return call()

    def second() -> object:
        return call()

    callers = iter((first, second))

    def call_by_the_next() -> object:
        return next(callers)()

    return call_by_the_next


def test_an_error_does_not_keep_the_frames_of_those_it_was_raised_to_before() -> None:
    """A member whose instance id was fenced is told so by every poll: the traceback grew by ten entries each time, and
    kept what each caller had at hand."""
    failed: Reply[int] = Reply()
    failed.fail(KafkaError("no"))
    assert frames_of_the_second_raise(in_turn(failed.result)) == {"second"}
    network = Network(position=None)
    network.link.mailbox.fail(InternalError("dead"))
    assert frames_of_the_second_raise(in_turn(network.ask)) == {"second"}


def test_an_error_that_every_poll_raises_does_not_keep_the_frames_of_earlier_polls() -> None:
    error = KafkaError("still true")
    with Consumer[bytes, bytes](bootstrap_servers="127.0.0.1:1") as consumer:
        consumer.assign([TP])

        def poll() -> None:
            mailbox = consumer._session.link.mailbox
            mailbox.begin_turn()
            mailbox.deliver(ErrorRaised(error))
            consumer.poll(0)

        assert frames_of_the_second_raise(in_turn(poll)) == {"second"}


def test_that_no_broker_is_there_does_not_keep_the_frames_of_earlier_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network thread makes a new error with each attempt; here it has one for all of them."""
    error = BootstrapError("nobody there")
    unreachable: property = property(lambda _: error, lambda _, made_anew: None)
    monkeypatch.setattr(Mailbox, "bootstrap_error", unreachable, raising=False)
    with Consumer[bytes, bytes](bootstrap_servers="127.0.0.1:1") as consumer:
        consumer.assign([TP])
        assert frames_of_the_second_raise(in_turn(lambda: consumer.poll(0))) == {"second"}
