"""What a rebalance callback is given: some of the consumer, for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kwire import RebalanceConsumer, RebalanceListener, TopicPartition
from kwire.consumer.listener import CallbackView
from kwire.errors import IllegalStateError

if TYPE_CHECKING:
    from collections.abc import Collection

TP = TopicPartition("t", 0)


class FakeConsumer:
    def __init__(self) -> None:
        self.polls = 0

    def position(self, partition: TopicPartition) -> int:
        return 5

    def poll(self) -> None:
        self.polls += 1


@pytest.fixture
def view() -> CallbackView:
    return CallbackView(cast("RebalanceConsumer", FakeConsumer()))


def test_it_passes_calls_on(view: CallbackView) -> None:
    assert view.as_consumer().position(TP) == 5


@pytest.mark.parametrize("name", ["poll", "close", "subscribe", "unsubscribe", "assign", "wakeup", "_core"])
def test_it_lacks_what_would_disturb_the_rebalance(view: CallbackView, name: str) -> None:
    with pytest.raises(AttributeError, match=f"'{name}' cannot be called inside a rebalance callback"):
        getattr(view, name)


def test_it_expires_with_the_callback(view: CallbackView) -> None:
    kept = view.as_consumer()
    view.expire()
    with pytest.raises(IllegalStateError, match=r"position\(\) on the consumer of a rebalance callback that is over"):
        kept.position(TP)


def test_losing_does_what_revoking_does_unless_it_is_overridden(view: CallbackView) -> None:
    class Commits(RebalanceListener):
        def __init__(self) -> None:
            self.revoked: list[TopicPartition] = []

        def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
            self.revoked += partitions

    listener = Commits()
    listener.on_partitions_lost(view.as_consumer(), frozenset({TP}))
    assert listener.revoked == [TP]
