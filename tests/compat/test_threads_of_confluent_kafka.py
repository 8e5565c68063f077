"""Threads that share a consumer of confluent-kafka's adapter.

confluent-kafka has them wait until a poll returns, which may be never; so these run with the adapter alone.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from kwire.compat.confluent_kafka import Consumer, Message, TopicPartition
from kwire.compat.confluent_kafka.session import Session
from kwire.compat.confluent_kafka.turns import Turns
from kwire.errors import KafkaError
from kwire.testing import Cluster

PLACE = TopicPartition("orders", 0)


@pytest.fixture
def consumer(cluster: Cluster) -> Iterator[Consumer]:
    found = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    found.subscribe(["orders"])
    yield found
    found.close()


@contextlib.contextmanager
def polling(consumer: Consumer, threads: int = 1) -> Iterator[queue.Queue[Message]]:
    """Others poll without a timeout, until the consumer is closed."""
    messages: queue.Queue[Message] = queue.Queue()

    def poll() -> None:
        with contextlib.suppress(RuntimeError):  # it is closed
            while True:
                message = consumer.poll()
                assert message is not None
                messages.put(message)

    pollers = [threading.Thread(target=poll) for _ in range(threads)]
    for poller in pollers:
        poller.start()
    try:
        yield messages
    finally:
        consumer.close()
        for poller in pollers:
            poller.join(10)
    assert not any(poller.is_alive() for poller in pollers)


CALLS: dict[str, Callable[[Consumer], object]] = {
    "commit": lambda consumer: [at.offset for at in consumer.commit(asynchronous=False) or ()],
    "assignment": lambda consumer: len(consumer.assignment()),
    "position": lambda consumer: consumer.position([PLACE])[0].offset,
    "committed": lambda consumer: consumer.committed([PLACE], timeout=10)[0].offset,
    "pause": lambda consumer: consumer.pause([PLACE]),
    "resume": lambda consumer: consumer.resume([PLACE]),
    "get_watermark_offsets": lambda consumer: consumer.get_watermark_offsets(PLACE, timeout=10),
    "list_topics": lambda consumer: list(consumer.list_topics(timeout=10).topics),
}
ANSWERS: dict[str, object] = {
    "commit": [3, 3],
    "assignment": 2,
    "position": 3,
    "committed": -1001,
    "pause": None,
    "resume": None,
    "get_watermark_offsets": (0, 3),
    "list_topics": ["orders"],
}


@pytest.mark.parametrize("call", CALLS)
def test_another_thread_calls_while_a_poll_waits(consumer: Consumer, call: str) -> None:
    with polling(consumer) as messages:
        for _ in range(6):
            messages.get(timeout=10)
        assert CALLS[call](consumer) == ANSWERS[call]


def test_a_poll_that_was_woken_goes_on(consumer: Consumer, cluster: Cluster) -> None:
    with polling(consumer) as messages:
        for _ in range(6):
            messages.get(timeout=10)
        consumer.seek(TopicPartition("orders", 0, 2))
        assert messages.get(timeout=10).offset() == 2
        cluster.produce("orders", b"6", partition=1)
        assert messages.get(timeout=10).value() == b"6"


def test_threads_that_poll_get_each_message_once(consumer: Consumer, cluster: Cluster) -> None:
    with polling(consumer, threads=3) as messages:
        found = [messages.get(timeout=10).value() for _ in range(6)]
        assert sorted(found) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert messages.empty()


@pytest.fixture
def waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once a poll has found that nothing is subscribed."""
    found = threading.Event()
    is_of_nothing = Session._is_of_nothing_to_poll

    def noted(session: Session, error: KafkaError) -> bool:
        found.set()
        return is_of_nothing(session, error)

    monkeypatch.setattr(Session, "_is_of_nothing_to_poll", noted)
    return found


@pytest.mark.parametrize("call", ["assign", "subscribe"])
def test_a_poll_of_nothing_waits_for_what_another_thread_assigns(
    consumer: Consumer, waits_for_nothing: threading.Event, call: str
) -> None:
    consumer.unsubscribe()
    with polling(consumer) as messages:
        assert waits_for_nothing.wait(10)
        consumer.assign([PLACE]) if call == "assign" else consumer.subscribe(["orders"])
        assert messages.get(timeout=10).error() is None


def test_so_does_one_with_a_timeout(consumer: Consumer, waits_for_nothing: threading.Event) -> None:
    consumer.unsubscribe()
    found: list[Message | None] = []
    poller = threading.Thread(target=lambda: found.append(consumer.poll(60)))
    poller.start()
    assert waits_for_nothing.wait(10)
    consumer.assign([PLACE])
    poller.join(10)
    assert [message.offset() for message in found if message is not None] == [0]


def test_a_poll_is_not_woken_in_a_callback() -> None:
    """What the callback waits for, a commit perhaps, would be ended in its place."""

    class Woken:
        def __init__(self) -> None:
            self._session: Any = self
            self.link = self.mailbox = self._session
            self.times = 0
            self.was_tried = threading.Event()

        def wakeup(self) -> None:
            self.times += 1

        def take_wakeup(self) -> bool:
            return False

    woken = Woken()
    turns = Turns(cast("Any", woken))
    wake = turns.wake

    def noted() -> None:
        wake()
        woken.was_tried.set()

    turns.wake = noted  # type: ignore[method-assign]

    def call() -> None:
        with turns:
            pass

    other = threading.Thread(target=call)
    with turns:
        with turns.waiting(), turns.in_callback():
            other.start()
            assert woken.was_tried.wait(10)
            assert woken.times == 0
        with turns.waiting():
            woken.was_tried.clear()
            assert woken.was_tried.wait(10)
            assert woken.times >= 1
    other.join(10)
