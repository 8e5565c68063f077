"""The settings of the cluster in the process: each one does something."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from kwire.errors import InvalidArgumentError
from kwire.testing import cluster
from kwire.testing.cluster.settings import BrokerSettings, TopicSettings
from kwire.testing.cluster.state import ClusterState

SOURCES = [path for path in Path(cluster.__path__[0]).rglob("*.py") if path.name != "settings.py"]


def test_each_setting_is_looked_at() -> None:
    """Four were taken and did nothing: a test that set one would have proved nothing."""
    source = "\n".join(path.read_text() for path in SOURCES)
    names = {field.name for kind in (BrokerSettings, TopicSettings) for field in fields(kind)}
    names -= {"cleanup_policy", "message_max_bytes"}  # looked at by `settings.py`
    assert {name for name in names if f".{name}" not in source} == set()


def test_a_setting_that_the_cluster_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="has no setting 'producer_id_expiration_ms'"):
        BrokerSettings.of({"producer.id.expiration.ms": "1"})


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("num.partitions", "many", "takes a whole number, not 'many'"),
        ("num.partitions", None, "takes a whole number, not None"),
        ("num.partitions", True, "takes a whole number, not True"),
        ("auto.create.topics.enable", "no", "takes true or false, not 'no'"),
        ("auto.create.topics.enable", 0, "takes true or false, not 0"),
        ("group.consumer.assignors", "uniform,sticky", "takes of uniform, range, not 'uniform,sticky'"),
        ("group.consumer.assignors", (), r"takes of uniform, range, not \(\)"),
        ("group.consumer.migration.policy", "none", "takes of bidirectional, upgrade, downgrade, disabled, not 'none'"),
    ],
)
def test_a_value_that_a_setting_does_not_take_is_refused(name: str, value: object, told: str) -> None:
    """What was not "true" was taken for false, and 0 was told to clients as a number."""
    with pytest.raises(InvalidArgumentError, match=told):
        BrokerSettings.of({name: value})


@pytest.mark.parametrize("value", ["range, uniform", ["range", "uniform"], ("range", "uniform")])
def test_a_list_may_be_text_as_in_kafkas_files(value: object) -> None:
    """The text stayed text: its first letter was the assignor of groups that name none."""
    assert BrokerSettings.of({"group.consumer.assignors": value}).group_consumer_assignors == ("range", "uniform")


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "config", "told"),
    [
        ("bad name", 1, 1, {}, "contains one or more characters other than ASCII alphanumerics"),
        ("", 1, 1, {}, "the empty string is not allowed"),
        ("here", 1, 1, {}, "Topic 'here' already exists"),
        ("is_here", 1, 1, {}, "collides with existing topic: is.here"),
        ("new", 0, 1, {}, "topic 'new' has at least one partition, not 0"),
        ("new", -1, 1, {}, "topic 'new' has at least one partition, not -1"),
        ("new", 1, 0, {}, "topic 'new' has at least one replica, not 0"),
        ("new", 1, 1, {"retenton.ms": "5"}, "Unknown topic config name: retenton.ms"),
        ("new", 1, 1, {"retention.ms": "long"}, "Not a number of type LONG"),
        ("new", 1, 1, {"cleanup.policy": "compat"}, "String must be one of: compact, delete"),
    ],
)
def test_a_topic_that_kafka_would_not_make_is_not_made_for_a_test_either(
    name: str, partitions: int, replicas: int, config: dict[str, str], told: str
) -> None:
    """A misspelled setting had no effect, and a topic without partitions was one that nobody could read."""
    cluster = ClusterState()
    for there in ("here", "is.here"):
        cluster.create_topic(there)
    with pytest.raises(InvalidArgumentError, match=told):
        cluster.create_topic(name, partitions, replicas, config)
    assert set(cluster.topics) == {"here", "is.here"}


def test_the_settings_of_a_topic_or_group_may_be_numbers() -> None:
    """They were told to clients as they were, which ended the connection."""
    cluster = ClusterState()
    topic = cluster.create_topic("orders", config={"retention.ms": 5, "preallocate": True})  # type: ignore[dict-item]  # not typed
    assert (topic.config, topic.settings.retention_ms) == ({"retention.ms": "5", "preallocate": "true"}, 5)
    cluster.configure_group("billing", {"consumer.session.timeout.ms": 6_000})  # type: ignore[dict-item]  # the same
    assert cluster.group_configs == {"billing": {"consumer.session.timeout.ms": "6000"}}


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("consumer.session.timout.ms", "6000", "Unknown group config name: consumer.session.timout.ms"),
        ("consumer.session.timeout.ms", "soon", "Not a number of type INT"),
    ],
)
def test_a_group_s_setting_that_kafka_would_not_take_is_refused(name: str, value: str, told: str) -> None:
    cluster = ClusterState()
    with pytest.raises(InvalidArgumentError, match=told):
        cluster.configure_group("billing", {name: value})
    assert cluster.group_configs.get("billing", {}) == {}
