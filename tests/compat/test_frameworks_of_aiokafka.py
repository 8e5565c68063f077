"""Programs that keep aiokafka's own classes beside the adapter's consumer, as frameworks do."""

from __future__ import annotations

import asyncio
import pickle
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kwire.compat import aiokafka as adapter
from kwire.compat.aiokafka import errors
from kwire.compat.aiokafka.errors import as_theirs
from kwire.compat.aiokafka.private_attributes import PrivateAttributes
from kwire.testing import Cluster

with warnings.catch_warnings(action="ignore"):  # its own code warns of what Python has deprecated
    import aiokafka
    import aiokafka.abc
    import aiokafka.errors

slow = pytest.mark.slow
BOTH = pytest.mark.parametrize("package", [aiokafka, adapter], ids=["aiokafka", "kwire"])


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await main()

    asyncio.run(bounded())


def consumer_of(cluster: Cluster, *topics: str, **more: object) -> adapter.AIOKafkaConsumer:
    settings = {"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest", **more}
    return adapter.AIOKafkaConsumer(*topics, **settings)


# --- listeners --------------------------------------------------------------------------------------------------


class Listener(aiokafka.abc.ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """A listener as frameworks define it: it derives from aiokafka's class."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    async def on_partitions_revoked(self, revoked: set[adapter.TopicPartition]) -> None:
        self.told.append(("revoked", len(revoked)))

    async def on_partitions_assigned(self, assigned: set[adapter.TopicPartition]) -> None:
        self.told.append(("assigned", len(assigned)))


@slow
def test_a_listener_that_derives_from_the_class_of_aiokafka_is_called(cluster: Cluster) -> None:
    listener = Listener()

    async def main() -> None:
        consumer = consumer_of(cluster, group_id="billing")
        consumer.subscribe(["orders"], listener=listener)
        async with consumer:
            pass

    run(main)
    assert listener.told == [("revoked", 0), ("assigned", 2)]


@slow
def test_a_listener_that_derives_from_neither_class_is_refused(cluster: Cluster) -> None:
    class Other:
        on_partitions_revoked = Listener.on_partitions_revoked
        on_partitions_assigned = Listener.on_partitions_assigned

    async def main() -> None:
        consumer = consumer_of(cluster, group_id="billing")
        with pytest.raises(TypeError, match="should be an instance of ConsumerRebalanceListener"):
            consumer.subscribe(["orders"], listener=Other())  # type: ignore[arg-type]
        await consumer.stop()

    run(main)


# --- exceptions -------------------------------------------------------------------------------------------------


KINDS = [
    kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, Exception) and kind.__name__ == name
]


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_is_also_that_of_aiokafka_and_so_are_its_bases(kind: type[Exception]) -> None:
    raised = as_theirs(kind)
    assert issubclass(raised, kind)
    bases = [base.__name__ for base in kind.__mro__ if hasattr(aiokafka.errors, base.__name__)]
    assert bases
    assert all(issubclass(raised, getattr(aiokafka.errors, name)) for name in bases)


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_of_both_says_what_the_adapters_says(kind: type[Exception]) -> None:
    ours, both = kind("why"), as_theirs(kind)("why")
    assert (str(both), repr(both), both.args) == (str(ours), repr(ours), ours.args)
    for name in ("errno", "message", "description", "retriable", "invalid_metadata"):
        assert getattr(both, name, None) == getattr(ours, name, None)


def test_an_exception_of_both_is_both_again_when_it_is_unpickled() -> None:
    error = as_theirs(errors.UnknownTopicOrPartitionError)("orders")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert again.args == error.args


def test_without_aiokafka_an_exception_is_the_adapters_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "aiokafka.errors")
    assert as_theirs(errors.KafkaConnectionError) is errors.KafkaConnectionError


def test_in_the_place_of_aiokafka_an_exception_is_the_adapters_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiokafka.errors", errors)
    assert as_theirs(errors.KafkaConnectionError) is errors.KafkaConnectionError


@slow
def test_what_calls_raise_is_caught_as_exceptions_of_aiokafka(cluster: Cluster) -> None:
    async def main() -> None:
        consumer = consumer_of(cluster, "orders", auto_offset_reset="none")
        await consumer.start()
        with pytest.raises(aiokafka.errors.NoOffsetForPartitionError) as caught:
            await consumer.getone()
        assert isinstance(caught.value, aiokafka.errors.KafkaError)
        assert isinstance(caught.value, errors.NoOffsetForPartitionError)
        with pytest.raises(aiokafka.errors.IllegalOperation):
            await consumer.commit()
        with pytest.raises(aiokafka.errors.IllegalStateError):
            consumer.assign([adapter.TopicPartition("orders", 0)])
        await consumer.stop()

    run(main)


@slow
def test_a_consumer_that_was_stopped_raises_the_exception_of_aiokafka(cluster: Cluster) -> None:
    async def main() -> None:
        consumer = consumer_of(cluster, "orders")
        await consumer.start()
        await consumer.stop()
        for call in (consumer.getone, consumer.getmany):
            with pytest.raises(aiokafka.errors.ConsumerStoppedError):
                await call()
        with pytest.raises(aiokafka.errors.ConsumerStoppedError):
            aiter(consumer)

    run(main)


@slow
def test_a_loop_over_records_ends_with_the_consumer(cluster: Cluster) -> None:
    async def main() -> None:
        consumer = consumer_of(cluster, "orders")
        await consumer.start()
        async for _ in consumer:
            await consumer.stop()

    run(main)


@slow
def test_a_start_without_a_broker_raises_the_exception_of_aiokafka(cluster: Cluster) -> None:
    cluster.stop()

    async def main() -> None:
        consumer = consumer_of(cluster, "orders")
        with pytest.raises(aiokafka.errors.KafkaConnectionError):
            await consumer.start()

    run(main)


# --- private attributes -----------------------------------------------------------------------------------------


def of_billing(package: Any, cluster: Cluster, **more: object) -> Any:  # noqa: ANN401
    """A member of the group "billing", of either package."""
    servers = [cluster.bootstrap_servers]
    return package.AIOKafkaConsumer(bootstrap_servers=servers, client_id="till", group_id="billing", **more)


@slow
@BOTH
def test_a_tracer_reads_servers_client_and_group(cluster: Cluster, package: Any) -> None:  # noqa: ANN401
    async def main() -> None:
        consumer = of_billing(package, cluster)
        assert consumer._client._bootstrap_servers == [cluster.bootstrap_servers]
        assert (consumer._client._client_id, consumer._group_id) == ("till", "billing")
        await consumer.stop()

    run(main)


@slow
@BOTH
def test_a_tracer_reads_the_servers_as_they_were_given(cluster: Cluster, package: Any) -> None:  # noqa: ANN401
    async def main() -> None:
        for given in (cluster.bootstrap_servers, [cluster.bootstrap_servers]):
            consumer = package.AIOKafkaConsumer(bootstrap_servers=given)
            assert consumer._client._bootstrap_servers == given
            await consumer.stop()

    run(main)


@slow
@BOTH
def test_a_tracer_keeps_what_it_knows_in_the_client(cluster: Cluster, package: Any) -> None:  # noqa: ANN401
    """As ddtrace does: it raised at each start, because the client took no attribute."""

    async def main() -> None:
        async with of_billing(package, cluster) as consumer:
            if consumer._client.get_random_node() is None:
                await consumer._client.force_metadata_update()
                consumer._client._dd_cluster_id_failure_time = 1.0
                assert consumer._client._dd_cluster_id_failure_time == 1.0
            assert consumer._client is consumer._client

    run(main)


@slow
@BOTH
@pytest.mark.parametrize("enabled", [True, False])
def test_a_framework_reads_who_commits(cluster: Cluster, package: Any, enabled: bool) -> None:  # noqa: ANN401
    async def main() -> None:
        consumer = of_billing(package, cluster, enable_auto_commit=enabled)
        assert consumer._enable_auto_commit is enabled
        await consumer.stop()

    run(main)


@slow
@BOTH
def test_a_listener_of_a_framework_reads_member_and_topics(cluster: Cluster, package: Any) -> None:  # noqa: ANN401
    read: list[tuple[str, set[str]]] = []

    class Reader(Listener):
        async def on_partitions_assigned(self, assigned: set[adapter.TopicPartition]) -> None:
            await super().on_partitions_assigned(assigned)
            read.append((consumers[0]._coordinator.member_id, set(consumers[0]._subscription.topics)))

    consumers: list[Any] = []

    async def main() -> None:
        consumers.append(of_billing(package, cluster))
        consumers[0].subscribe(["orders"], listener=Reader())
        async with consumers[0]:
            assert read == [(consumers[0]._coordinator.member_id, {"orders"})]

    run(main)
    assert read[0][0].startswith("till-")


@slow
@BOTH
def test_a_pattern_has_the_topics_that_it_matches(cluster: Cluster, package: Any) -> None:  # noqa: ANN401
    async def main() -> None:
        consumer = of_billing(package, cluster)
        consumer.subscribe(pattern="ord.*")
        async with consumer:
            assert consumer._subscription.topics == {"orders"}

    run(main)


@slow
@BOTH
def test_a_health_check_reads_whether_the_consumer_was_stopped(cluster: Cluster, package: Any) -> None:  # noqa: ANN401
    async def main() -> None:
        consumer = of_billing(package, cluster)
        assert consumer._closed is False
        await consumer.start()
        assert consumer._closed is False
        await consumer.stop()
        assert consumer._closed is True

    run(main)


@slow
def test_a_derived_class_may_have_attributes_of_these_names(cluster: Cluster) -> None:
    names = [name for name, value in vars(PrivateAttributes).items() if hasattr(value, "__get__") and name[:2] != "__"]
    assert "_client" in names

    class Own(adapter.AIOKafkaConsumer):
        def __init__(self, **configs: object) -> None:
            for name in names:
                setattr(self, name, "its own")
            super().__init__("orders", **configs)

    async def main() -> None:
        async with Own(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            for _ in range(6):
                await consumer.getone()
            assert {getattr(consumer, name) for name in names} == {"its own"}

    run(main)
