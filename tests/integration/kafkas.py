"""The two Kafkas that the tests here run against, under the same methods: a real one, and the one of `kwire.testing`.

Whatever is true of kwire on the one has to be true on the other; that keeps the one in the process honest. The fixtures
in `conftest.py` choose; `@pytest.mark.only(side, reason=...)` is for what one of them cannot do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from typing import Protocol

from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as AdminTopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs leave them out; its documentation does not
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kwire import TopicPartition
from kwire.testing import Cluster
from kwire.testing.kafka import KafkaCluster
from kwire.testing.kafka.node import JVM_OPTIONS

TIMEOUT_S = 60.0
# Of the consumer protocol, where the broker decides: by default a member hears of a rebalance within 5 s, and of the
# next one a second later. Runs with faults (tests/testing/faults) have slower ones.
QUICK_GROUPS = {"group.consumer.heartbeat.interval.ms": 100, "group.consumer.assignment.interval.ms": 0}
# Of the broker with TLS and SASL: fixture `secured_kafka`.
SECURED_USERS = {"alice": "alice-secret", "bob": "bob-secret"}


class Side(Enum):
    """Which Kafka."""

    KAFKA = "kafka"
    """Apache Kafka, in JVMs of its own."""
    FAKE = "fake"
    """`kwire.testing.Cluster`, in this process."""


class SharedKafka(Protocol):
    """The Kafka that all tests use which do it no harm."""

    @property
    def bootstrap_servers(self) -> str:
        """Its brokers."""

    def configure_group(self, group_id: str, config: Mapping[str, str]) -> None:
        """What `kafka-configs --group` does, such as {"consumer.session.timeout.ms": "6000"}."""


class OwnKafka(SharedKafka, Protocol):
    """A Kafka of a test's own, whose brokers it may stop and start; see `KafkaCluster`."""

    def is_running(self, broker: int) -> bool: ...
    def start_broker(self, broker: int) -> None: ...
    def stop_broker(self, broker: int) -> None: ...
    def kill_broker(self, broker: int) -> None: ...
    def restart_broker(self, broker: int) -> None: ...
    def pause_broker(self, broker: int) -> None: ...
    def resume_broker(self, broker: int) -> None: ...
    def wait_ready(self) -> None: ...
    def let_lead(self, tp: TopicPartition, broker: int) -> None:
        """The partition's preferred replica, this broker, leads it when this returns."""


class StartKafka(Protocol):
    """Makes a Kafka of one's own, to be used in a `with` block. Settings have Kafka's names."""

    def __call__(
        self, brokers: int = 1, *, settings: Mapping[str, str] | None = None
    ) -> AbstractContextManager[OwnKafka]: ...


class GivenKafka:
    """A real Kafka that runs already."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def configure_group(self, group_id: str, config: Mapping[str, str]) -> None:
        """As `SharedKafka`."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()
        ]
        resource = ConfigResource(ResourceType.GROUP, group_id, incremental_configs=entries)
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
        until_s = time.monotonic() + TIMEOUT_S
        while not config.items() <= self._config_of(admin, group_id).items():  # the broker hears of it a little later
            assert time.monotonic() < until_s, f"{group_id} does not have {config}"

    @staticmethod
    def _config_of(admin: AdminClient, group_id: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.GROUP, group_id)
        found = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
        return {name: entry.value for name, entry in found.items()}


class RealKafka(KafkaCluster):
    """An `OwnKafka` in JVMs."""

    def __init__(
        self,
        brokers: int = 1,
        *,
        settings: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = JVM_OPTIONS,
    ) -> None:
        quick = {name: str(value) for name, value in QUICK_GROUPS.items()}
        super().__init__(brokers, settings={**quick, **(settings or {})}, jvm_options=jvm_options)

    def __enter__(self) -> RealKafka:
        self.start()
        return self

    def configure_group(self, group_id: str, config: Mapping[str, str]) -> None:
        """As `SharedKafka`."""
        GivenKafka(self.bootstrap_servers).configure_group(group_id, config)

    def let_lead(self, tp: TopicPartition, broker: int) -> None:
        """As `OwnKafka`. A replica has to have caught up before it may lead."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        until_s = time.monotonic() + TIMEOUT_S
        while True:
            admin.elect_leaders(ElectionType.PREFERRED, [AdminTopicPartition(*tp)]).result(TIMEOUT_S)
            partition = admin.list_topics(tp.topic, timeout=TIMEOUT_S).topics[tp.topic].partitions[tp.partition]
            if partition.leader == broker:
                return
            assert time.monotonic() < until_s, f"{tp}: broker {partition.leader} leads, not {broker}"
            time.sleep(0.1)


class FakeKafka(Cluster):
    """An `OwnKafka` in this process, set up as `kwire.testing.kafka` sets up real ones; the rest only takes time."""

    def __init__(self, brokers: int = 1, *, settings: Mapping[str, object] | None = None) -> None:
        defaults = {
            "default.replication.factor": min(brokers, 3),
            "group.min.session.timeout.ms": 500,
            "broker.session.timeout.ms": 1_000,
            **QUICK_GROUPS,
        }
        racks = [f"rack-{number}" for number in range(brokers)]
        super().__init__(brokers, settings={**defaults, **(settings or {})}, racks=racks)

    def __enter__(self) -> FakeKafka:
        self.start()
        return self

    def is_running(self, broker: int) -> bool:
        """As `OwnKafka`."""
        return self._state.brokers[broker].is_up

    def stop_broker(self, broker: int) -> None:
        """Its leaders have moved when it is gone, as if it had been shut down in order."""
        self.kill_broker(broker)

    def restart_broker(self, broker: int) -> None:
        """As `OwnKafka`."""
        self.stop_broker(broker)
        self.start_broker(broker)

    def wait_ready(self) -> None:
        """All brokers know all others at any time."""

    def let_lead(self, tp: TopicPartition, broker: int) -> None:
        """As `OwnKafka`."""
        self.move_leader(tp.topic, tp.partition, broker)


OWN_KAFKAS: Mapping[Side, StartKafka] = {Side.KAFKA: RealKafka, Side.FAKE: FakeKafka}
