"""Whole consumers whose brokers want metrics (KIP-714), and such whose do not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from uuid import UUID

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from kwire import AsyncConsumer, Consumer
from kwire.errors import IllegalStateError, InvalidArgumentError, KafkaTimeoutError
from kwire.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.protocol.messages.push_telemetry import PushTelemetryRequest
from kwire.testing import Cluster
from kwire.testing.cluster.telemetry import PushedMetrics

CONSUMED = "org.apache.kafka.consumer.fetch.manager.records.consumed.total"
LAG = "org.apache.kafka.consumer.fetch.manager.records.lag"


@pytest.fixture
def orders(kafka_cluster: Cluster) -> Cluster:
    kafka_cluster.create_topic("orders", partitions=1)
    kafka_cluster.produce("orders", *(b"%d" % number for number in range(10)))
    return kafka_cluster


@pytest.fixture
def opened(orders: Cluster) -> Callable[..., Consumer[bytes, bytes]]:
    def make(**settings: object) -> Consumer[bytes, bytes]:
        given = {"bootstrap.servers": orders.bootstrap_servers, "auto.offset.reset": "earliest", **settings}
        return Consumer("orders", config=given, group_id="billing")

    return make


def wait_for(pushed: Sequence[PushedMetrics], count: int, consumer: Consumer[bytes, bytes]) -> None:
    for _ in range(1_000):
        if len(pushed) >= count:
            return
        consumer.poll(0.01)
    raise AssertionError(f"{len(pushed)} pushes came, not {count}")


def totals(push: PushedMetrics, name: str) -> list[float]:
    """Of each metric of that name, the number."""
    (found,) = MetricsData.FromString(push.payload).resource_metrics
    metrics = [metric for metric in found.scope_metrics[0].metrics if metric.name == name]
    return [point.as_double for metric in metrics for point in (*metric.sum.data_points, *metric.gauge.data_points)]


def test_what_is_wanted_is_pushed_and_a_last_time_by_close(
    orders: Cluster, opened: Callable[..., Consumer[bytes, bytes]]
) -> None:
    pushed = orders.want_metrics("*", interval_ms=20)
    with opened() as consumer:
        assert len(list(consumer.poll(10.0))) == 10
        seen = len(pushed)
        wait_for(pushed, seen + 2, consumer)
    assert [push.is_last for push in pushed] == [False] * (len(pushed) - 1) + [True]
    assert {push.codec for push in pushed} == {4}, "zstd, which the broker likes best"
    assert len({push.client_instance_id for push in pushed}) == 1
    assert totals(pushed[-1], CONSUMED)[0] == 10.0
    assert totals(pushed[-2], LAG) == [0.0]
    assert totals(pushed[-1], LAG) == [], "it has given its partitions back"
    (resource,) = MetricsData.FromString(pushed[-2].payload).resource_metrics
    labels = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert labels["group_id"] == "billing"
    assert labels["group_member_id"]


def test_differences_add_up_to_the_total(orders: Cluster, opened: Callable[..., Consumer[bytes, bytes]]) -> None:
    pushed = orders.want_metrics(
        "org.apache.kafka.consumer.fetch.manager.records.consumed", interval_ms=20, as_deltas=True
    )
    with opened() as consumer:
        wait_for(pushed, 1, consumer)
        orders.produce("orders", b"one more")
        wait_for(pushed, 3, consumer)
    of_client = [totals(push, CONSUMED)[0] for push in pushed]  # the first is the client's, the second the topic's
    assert sum(of_client) == 11.0


def test_a_broker_that_wants_nothing_gets_nothing(
    orders: Cluster, opened: Callable[..., Consumer[bytes, bytes]]
) -> None:
    pushed = orders.want_metrics(interval_ms=10)
    questions = orders.control.on(GetTelemetrySubscriptionsRequest).observe()
    with opened() as consumer:
        while questions.fired < 3:
            consumer.poll(0.01)
    assert not pushed


@pytest.mark.parametrize("settings", [{}, {"enable.metrics.push": "false"}], ids=["not offered", "switched off"])
def test_a_broker_that_does_not_offer_it_or_is_not_to_be_told_is_not_asked(
    orders: Cluster, opened: Callable[..., Consumer[bytes, bytes]], settings: dict[str, str]
) -> None:
    if settings:
        orders.want_metrics("*", interval_ms=1)
    asked = orders.control.on(GetTelemetrySubscriptionsRequest).observe()
    with opened(**settings) as consumer:
        assert len(list(consumer.poll(10.0))) == 10
        consumer.commit_sync()
    assert not asked.fired


@pytest.mark.slow
def test_a_last_push_without_an_answer_does_not_keep_close_for_long(
    orders: Cluster, opened: Callable[..., Consumer[bytes, bytes]]
) -> None:
    pushed = orders.want_metrics("*", interval_ms=10)
    consumer = opened()
    wait_for(pushed, 1, consumer)
    orders.control.on(PushTelemetryRequest, where=lambda request, _: request.terminating).drop()
    closing = threading.Thread(target=consumer.close)
    closing.start()
    closing.join(5.0)
    assert not closing.is_alive()


# --- the id they are known under (KIP-714) ---------------------------------------------------------------------


def test_the_client_instance_id_is_the_one_that_pushes_carry(
    orders: Cluster, opened: Callable[..., Consumer[bytes, bytes]]
) -> None:
    pushed = orders.want_metrics("*", interval_ms=20)
    with opened() as consumer:
        known = consumer.client_instance_id(timeout=10.0)
        assert consumer.client_instance_id(timeout=0) == known
    assert {push.client_instance_id for push in pushed} == {known}


def test_a_broker_that_wants_no_metrics_gives_an_id_all_the_same(
    orders: Cluster, opened: Callable[..., Consumer[bytes, bytes]]
) -> None:
    orders.want_metrics()
    with opened() as consumer:
        assert consumer.client_instance_id(timeout=10.0).version == 4


def test_without_a_broker_that_takes_metrics_there_is_no_id(opened: Callable[..., Consumer[bytes, bytes]]) -> None:
    with opened() as consumer, pytest.raises(KafkaTimeoutError, match="a broker that takes metrics") as caught:
        consumer.client_instance_id(timeout=0.2)
    assert "client_instance_id took too long" in str(caught.value)


def test_who_pushes_no_metrics_has_no_id(opened: Callable[..., Consumer[bytes, bytes]]) -> None:
    with opened(enable_metrics_push=False) as consumer, pytest.raises(IllegalStateError, match="enable_metrics_push"):
        consumer.client_instance_id()
    with opened() as consumer, pytest.raises(InvalidArgumentError):
        consumer.client_instance_id(timeout=-1)


def test_an_async_consumer_awaits_its_id(orders: Cluster) -> None:
    async def main() -> UUID:
        settings = {"bootstrap.servers": orders.bootstrap_servers}
        consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer(settings, "orders", group_id="billing")
        async with consumer:
            return await consumer.client_instance_id(timeout=10.0)

    orders.want_metrics("*")
    assert asyncio.run(main()).version == 4
