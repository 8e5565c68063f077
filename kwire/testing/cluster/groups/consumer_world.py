"""What consumer groups see of their cluster: topics, settings, chance. `ClusterState` is one; tests have their own."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sized
    from random import Random
    from uuid import UUID

    from kwire.testing.cluster.settings import BrokerSettings

UUID_BYTES = 16


class TopicFacts(Protocol):
    """A topic, as far as groups care."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> UUID: ...

    @property
    def partitions(self) -> Sized: ...


class GroupCluster(Protocol):
    """The cluster as a consumer group needs it."""

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """By group id, then by Kafka's name: what was set for one group alone."""
        ...

    @property
    def random(self) -> Random: ...

    @property
    def topics(self) -> Mapping[str, TopicFacts]: ...


Fingerprint = tuple[tuple[str, "UUID", int], ...]
"""The topics of a subscription; another one means another assignment (KIP-1101)."""


class GroupWorld:
    """The cluster as one group sees it."""

    def __init__(self, group_id: str, world: GroupCluster) -> None:
        self._group_id = group_id
        self._world = world

    @property
    def session_timeout_ms(self) -> int:
        return self._setting("consumer.session.timeout.ms", self.settings.group_consumer_session_timeout_ms)

    @property
    def heartbeat_interval_ms(self) -> int:
        return self._setting("consumer.heartbeat.interval.ms", self.settings.group_consumer_heartbeat_interval_ms)

    @property
    def assignment_interval_ms(self) -> int:
        return self._setting("consumer.assignment.interval.ms", self.settings.group_consumer_assignment_interval_ms)

    @property
    def settings(self) -> BrokerSettings:
        return self._world.settings

    @property
    def topics(self) -> Mapping[str, TopicFacts]:
        return self._world.topics

    def _setting(self, name: str, default: int) -> int:
        return int(self._world.group_configs.get(self._group_id, {}).get(name, default))

    def new_member_id(self) -> str:
        """A random id as Kafka writes its own: base64, and no dash in front."""
        while True:
            made = urlsafe_b64encode(self._world.random.randbytes(UUID_BYTES)).decode().rstrip("=")
            if not made.startswith("-"):
                return made

    def existing(self, names: frozenset[str]) -> list[TopicFacts]:
        """The topics of those names that there are, by name."""
        return [self.topics[name] for name in sorted(names) if name in self.topics]

    def fingerprint(self, names: frozenset[str]) -> Fingerprint:
        """What an assignment of those topics depends on."""
        return tuple((topic.name, topic.topic_id, len(topic.partitions)) for topic in self.existing(names))

    def named(self, topic_id: UUID) -> str | None:
        """The name of that topic, if there is one."""
        return next((topic.name for topic in self.topics.values() if topic.topic_id == topic_id), None)
