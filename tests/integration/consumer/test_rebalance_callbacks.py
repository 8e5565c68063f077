"""Rebalance callbacks on a real broker, under both group protocols: on which thread, what their exceptions do, and what
`wakeup()` does to them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Unpack

import pytest

from kwire import OffsetAndMetadata, RebalanceConsumer, RebalanceListener, TopicPartition
from kwire.errors import IllegalStateError, RebalanceListenerError, WakeupError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.config import Settings
    from kwire.model import Partitions
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import BytesConsumer, OpenConsumer, PollUntil, Read

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("protocol", ["classic", "consumer"])]

PARTITIONS = 2


def settings(protocol: str, **more: Unpack[Settings]) -> Settings:
    """Classic members hear of a rebalance with their next heartbeat; its interval is the broker's in the other."""
    chosen: Settings = {"group_protocol": protocol, **more}
    if protocol == "classic":
        chosen["heartbeat_interval_ms"] = 100
    return chosen


class Told(RebalanceListener):
    """Writes down what it was told and on which thread, then does something that may raise."""

    def __init__(self, act: Callable[[str, RebalanceConsumer], object] = lambda what, consumer: None) -> None:
        self.events: list[str] = []
        self.threads: set[int] = set()
        self.act = act

    def _note(self, what: str, consumer: RebalanceConsumer) -> None:
        self.events.append(what)
        self.threads.add(threading.get_ident())
        self.act(what, consumer)

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        if partitions:  # a coordinator that has not heard of a new topic yet begins with none
            self._note("assigned", consumer)

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._note("revoked", consumer)

    def on_partitions_lost(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._note("lost", consumer)


def owns(consumer: BytesConsumer, count: int) -> bool:
    return len(consumer.assignment()) == count


def test_callbacks_run_on_the_thread_that_polls_unsubscribes_or_closes(
    protocol: str, topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    """And only then: nothing is heard while the application is busy elsewhere, whatever happens in the group."""
    name = topic(PARTITIONS)
    told = Told()
    consumer = open_consumer(**settings(protocol, group_id=group_id))
    consumer.subscribe([name], listener=told)
    poll_until(lambda: owns(consumer, PARTITIONS), consumer)
    assert told.events == ["assigned"]
    other = open_consumer(name, **settings(protocol, group_id=group_id))
    for _ in range(30):
        other.poll(0.02)
    assert told.events == ["assigned"]
    poll_until(lambda: owns(consumer, 1) and owns(other, 1), consumer, other)
    assert told.events[:2] == ["assigned", "revoked"]
    before = len(told.events)
    consumer.unsubscribe()
    assert told.events[before:] == ["revoked"]
    consumer.subscribe([name], listener=told)
    poll_until(lambda: owns(consumer, 1) and owns(other, 1), consumer, other)
    before = len(told.events)
    consumer.close()
    assert told.events[before:] == ["revoked"]
    assert told.threads == {threading.get_ident()}


@pytest.mark.parametrize("where", ["assigned", "revoked"])
def test_an_exception_is_raised_and_the_group_goes_on(
    protocol: str,
    where: str,
    topic: MakeTopic,
    produce: Produce,
    group_id: str,
    open_consumer: OpenConsumer,
    poll_until: PollUntil,
    read: Read,
) -> None:
    name = topic(PARTITIONS)

    def fail(what: str, consumer: RebalanceConsumer) -> None:
        if what == where:
            raise LookupError("on purpose")

    told = Told(fail)
    first = open_consumer(**settings(protocol, group_id=group_id))
    first.subscribe([name], listener=told)
    second = open_consumer(**settings(protocol, group_id=group_id))

    def rebalance() -> None:
        poll_until(lambda: owns(first, PARTITIONS), first)
        second.subscribe([name])
        poll_until(lambda: False, first, second)

    with pytest.raises(RebalanceListenerError, match=f"on_partitions_{where} raised LookupError") as caught:
        rebalance()
    assert isinstance(caught.value.__cause__, LookupError)
    told.act = lambda what, consumer: None
    second.subscribe([name])
    poll_until(lambda: owns(first, 1) and owns(second, 1), first, second)
    (mine,) = first.assignment()
    produce(name, [b"here"], partition=mine.partition)
    assert [record.value for record in read(first, 1)] == [b"here"]


def test_wakeup_ends_a_call_inside_a_callback_and_the_poll_around_it(
    protocol: str,
    topic: MakeTopic,
    produce: Produce,
    group_id: str,
    open_consumer: OpenConsumer,
    poll_until: PollUntil,
    read: Read,
) -> None:
    """KAFKA-18160: its end is told, so the member is not stuck. The wake-up is used up, and the next poll calls the
    callback again: it may not have come to its seek."""
    name = topic(PARTITIONS)
    tp = TopicPartition(name, 0)
    consumer = open_consumer(**settings(protocol, group_id=group_id))

    def wake_up(what: str, view: RebalanceConsumer) -> None:
        if what == "assigned":
            if told.events == ["assigned"]:
                consumer.wakeup()
            view.commit_sync({tp: OffsetAndMetadata(1)})
            view.seek(tp, 1)

    told = Told(wake_up)
    consumer.subscribe([name], listener=told)
    with pytest.raises(WakeupError):
        poll_until(lambda: False, consumer)
    assert owns(consumer, PARTITIONS)
    produce(name, [b"0", b"1"], partition=0)
    assert [record.value for record in read(consumer, 1)] == [b"1"]
    assert told.events == ["assigned", "assigned"]
    consumer.commit_sync({tp: OffsetAndMetadata(2)})


def test_polling_inside_a_commits_callback_is_polling(
    protocol: str, topic: MakeTopic, group_id: str, open_consumer: OpenConsumer, poll_until: PollUntil
) -> None:
    """A commit's callback is no rebalance callback: as in Java, what the thread may do it may do there."""
    name = topic(PARTITIONS)
    tp = TopicPartition(name, 0)
    consumer = open_consumer(name, **settings(protocol, group_id=group_id))
    poll_until(lambda: owns(consumer, PARTITIONS), consumer)
    seen: list[int] = []

    def poll_and_close(offsets: object, error: object) -> None:
        seen.append(len(consumer.poll(0)))
        consumer.close()

    consumer.commit_async({tp: OffsetAndMetadata(1)}, callback=poll_and_close)
    with pytest.raises(IllegalStateError, match="closed"):
        poll_until(lambda: False, consumer)
    assert seen == [0]
