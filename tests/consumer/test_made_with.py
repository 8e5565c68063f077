"""What a consumer is made with: keywords, a dictionary, topics. None of these reaches a broker."""

from __future__ import annotations

from typing import Any

import pytest

from kwire import AsyncConsumer, Consumer, TopicPartition, read
from kwire.errors import ConfigError, InvalidArgumentError

SERVERS = "localhost:1"


def test_a_dictionary_of_settings_comes_first_as_in_confluent_kafka() -> None:
    with Consumer({"bootstrap.servers": SERVERS, "group.id": "billing"}) as consumer:
        assert consumer.config.group_id == "billing"
        assert consumer.subscription() == frozenset()


def test_topics_stand_behind_the_dictionary() -> None:
    with Consumer({"bootstrap_servers": SERVERS, "group_id": "billing"}, "orders", "refunds") as consumer:
        assert consumer.subscription() == {"orders", "refunds"}


def test_keywords_may_come_beside_it() -> None:
    with Consumer({"bootstrap.servers": SERVERS}, group_id="billing", max_poll_records=7) as consumer:
        assert (consumer.config.group_id, consumer.config.max_poll_records) == ("billing", 7)


def test_a_setting_in_both_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"group_id is given twice, as 'group\.id' and as 'group_id'; give it once"):
        Consumer({"bootstrap.servers": SERVERS, "group.id": "billing"}, group_id="audit")


def test_two_dictionaries_are_refused() -> None:
    with pytest.raises(ConfigError, match="given twice, as the first argument and as config="):
        Consumer({"bootstrap.servers": SERVERS}, config={"group.id": "g"})  # type: ignore[call-overload]  # the same


def test_a_dictionary_behind_the_topics_is_refused_without_being_shown() -> None:
    with pytest.raises(InvalidArgumentError, match="must be the first argument") as caught:
        Consumer("orders", {"sasl.password": "hunter2"})  # type: ignore[call-overload]  # the same
    assert "hunter2" not in str(caught.value)


def test_a_topic_that_is_no_text_is_refused_before_anything_is_started() -> None:
    with pytest.raises(InvalidArgumentError, match=r"a topic name must be a str, not \['orders'\]"):
        Consumer(["orders"], bootstrap_servers=SERVERS)  # type: ignore[call-overload]  # the same


@pytest.mark.parametrize("topics", [["orders", "refunds"], ("orders", "refunds")])
def test_a_list_of_topics_is_answered_with_how_they_are_given(topics: object) -> None:
    given: Any = topics
    with pytest.raises(InvalidArgumentError, match=r"; give them one by one: 'orders', 'refunds'$"):
        Consumer(given, bootstrap_servers=SERVERS)
    with pytest.raises(InvalidArgumentError, match=r"; give them one by one: 'orders', 'refunds'$"):
        read(given, bootstrap_servers=SERVERS)


def test_a_file_of_settings_as_a_topic_is_answered_with_how_it_is_read() -> None:
    """It said only that there are no brokers, which the file has."""
    with pytest.raises(ConfigError, match=r"is missing; .*: Consumer\(load_properties\('c\.properties'\), 'orders'\)$"):
        Consumer("c.properties", "orders", group_id="billing")
    with pytest.raises(ConfigError, match=r"is missing; .*: AsyncConsumer\(load_properties\('c\.properties'\)\)$"):
        AsyncConsumer("c.properties", group_id="billing")
    with pytest.raises(ConfigError, match=r"is missing; .*: read\(load_properties\('c\.properties'\), 'orders'\)$"):
        read("c.properties", "orders")
    with pytest.raises(ConfigError, match=r"as in localhost:9092$"):
        Consumer("orders")


def test_its_repr_says_how_many_partitions_it_has() -> None:
    """One partition was `1 partitions`."""
    with Consumer({"bootstrap.servers": SERVERS}) as consumer:
        assert repr(consumer).endswith(" 0 partitions>")
        consumer.assign([TopicPartition("orders", 0)])
        assert repr(consumer).endswith(" 1 partition>")
