"""Which connections are kept for fetching."""

from __future__ import annotations

from kwire.clock import Backoff
from kwire.epochs import AssignmentEpoch
from kwire.fetching.session import FetchSpec
from kwire.managers.fetch_connections import FetchConnections
from kwire.model import ZERO_UUID, Cursor, TopicPartition
from kwire.subscription.partition import AssignedPartition
from kwire.subscription.subscription import Subscription

TP = TopicPartition("orders", 0)
EPOCH = AssignmentEpoch(1)


def test_a_broker_that_left_is_forgotten_when_nothing_is_fetched_from_it_any_more() -> None:
    """Each broker id that a partition had ever been fetched from was kept, and looked at in each turn."""
    connections = FetchConnections(
        Subscription(lambda _: None, lambda _: None), Backoff(10, 10), 1_000, read_committed=False, cursor=Cursor.MAIN
    )
    partition, spec = AssignedPartition(TP, EPOCH), FetchSpec(ZERO_UUID, 0, 0, EPOCH, 100, 0)

    def place(node_id: int) -> None:
        connections.place(partition, node_id, spec, with_many=False, now_ms=0.0)

    def kept() -> list[int]:
        return [each.id.node_id for each in connections]

    place(1)
    old = connections.of(TP)
    assert old is not None
    old.request.sent()
    connections.forget_brokers(but={2})
    assert kept() == [1], "it is fetched from"
    place(2)
    connections.forget_brokers(but={2})
    assert kept() == [1, 2], "an answer may come"
    old.request.succeeded()
    connections.forget_brokers(but={1, 2})
    assert kept() == [1, 2], "it is still there"
    connections.forget_brokers(but={2})
    assert kept() == [2]
