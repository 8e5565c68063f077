"""Which topics names and patterns choose."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

import pytest

from kwire.cli.topic_choice import TopicChoice
from kwire.errors import ConfigError, InvalidArgumentError
from kwire.model import PartitionInfo

TOPICS = {"orders": 2, "orders-dead": 1, "bills": 1, "__consumer_offsets": 1}


class Listing:
    """A consumer that knows `TOPICS`."""

    def partitions_for(self, topic: str, /, *, timeout: float | None = None) -> Sequence[PartitionInfo]:
        return [
            PartitionInfo(
                topic=topic, partition=number, leader=None, leader_epoch=None, replicas=(), in_sync_replicas=()
            )
            for number in range(TOPICS.get(topic, 0))
        ]

    def list_topics(self, *, timeout: float | None = None) -> Mapping[str, Sequence[PartitionInfo]]:
        return {topic: self.partitions_for(topic) for topic in TOPICS}


def found(*given: str, include: Sequence[str] = (), numbers: Sequence[int] = ()) -> list[str]:
    return [str(partition) for partition in TopicChoice.of(given, include).find(Listing(), numbers)]


@pytest.mark.parametrize(
    ("given", "include", "partitions"),
    [
        (["orders"], [], ["orders-0", "orders-1"]),
        (["bills", "orders"], [], ["bills-0", "orders-0", "orders-1"]),
        (["bills,orders"], [], ["bills-0", "orders-0", "orders-1"]),
        (["^orders"], [], ["orders-0", "orders-1", "orders-dead-0"]),
        (["^(bills|orders-dead)$"], [], ["bills-0", "orders-dead-0"]),
        (["bills", "^orders-"], [], ["bills-0", "orders-dead-0"]),
        ([], ["orders"], ["orders-0", "orders-1"]),
        ([], ["order.*"], ["orders-0", "orders-1", "orders-dead-0"]),
        ([], ["bills,orders-.*"], ["bills-0", "orders-dead-0"]),
        (["^"], [], ["bills-0", "orders-0", "orders-1", "orders-dead-0"]),
        (["^__consumer"], [], ["__consumer_offsets-0"]),
    ],
)
def test_names_and_patterns(given: list[str], include: list[str], partitions: list[str]) -> None:
    assert sorted(found(*given, include=include)) == partitions


@pytest.mark.parametrize(
    ("given", "named", "argument"),
    [
        ("orders*", "orders*", "^orders.*"),
        ("bills,orders*", "orders*", "^orders.*"),
        ("*.orders", "*.orders", r"^.*\.orders$"),
    ],
)
def test_a_glob_is_answered_with_a_command_that_a_shell_takes(given: str, named: str, argument: str) -> None:
    """It was taken for the name of one topic, which is not valid; and the first answer had two backslashes for one."""
    with pytest.raises(ConfigError) as caught:
        TopicChoice.of([given])
    said, _, command = str(caught.value).partition(". For a pattern: ")
    assert said == f"{named!r} cannot be a topic's name"
    assert command == f"kwire consume '{argument}'"
    assert shlex.split(command) == ["kwire", "consume", argument]


def test_another_pattern_without_its_mark_is_told_how_patterns_begin() -> None:
    said = "'orders|refunds' cannot be a topic's name. A pattern is a regular expression that begins with ^, such as "
    with pytest.raises(ConfigError, match=re.escape(f"{said}'^orders'.")):
        TopicChoice.of(["orders|refunds"])


def test_partitions_are_of_each_topic() -> None:
    assert found("orders", "bills", numbers=[0]) == ["orders-0", "bills-0"]
    with pytest.raises(InvalidArgumentError, match="topic 'bills' has no partition 1; it has 1, from 0 on"):
        found("orders", "bills", numbers=[1])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["order"], "there is no topic 'order', or this client may not see it; did you mean 'orders'?"),
        (
            ["x"],
            "there is no topic 'x', or this client may not see it; 'kwire topics list' shows those that it may see",
        ),
        (["^x"], "no topic is found by '^x' among those that this client may see"),
    ],
)
def test_topics_that_there_are_not(given: list[str], said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{re.escape(said)}$"):
        found(*given)


def test_a_command_without_a_topic_says_what_to_name() -> None:
    with pytest.raises(ConfigError, match="which topic"):
        found()


def test_what_is_no_regular_expression_is_refused() -> None:
    with pytest.raises(ConfigError, match=re.escape("'^orders(' is no regular expression: ")):
        found("^orders(")


def test_a_group_subscribes_to_names_or_to_one_pattern() -> None:
    assert TopicChoice.of(["a", "b"]).subscription() == ("a", "b")
    pattern = TopicChoice.of(["a.b", "^c", "^d$"]).subscription()
    assert isinstance(pattern, re.Pattern)
    assert [name for name in ("a.b", "axb", "cc", "d", "dd") if pattern.search(name)] == ["a.b", "cc", "d"]


@pytest.mark.parametrize("given", [["^"], ["^.*s$"], ["^__"], ["^.*__c"], ["__consumer_offsets", "^b"], ["^b|o", "^d"]])
def test_a_group_finds_the_topics_that_are_found_without_one(given: list[str]) -> None:
    """Its pattern found names that begin with two underscores, whatever it said."""
    pattern = TopicChoice.of(given).subscription()
    assert isinstance(pattern, re.Pattern)
    by_group = {name for name in TOPICS if pattern.search(name)}
    assert by_group == {each.rpartition("-")[0] for each in found(*given)}
