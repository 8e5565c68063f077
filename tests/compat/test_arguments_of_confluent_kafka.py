"""What confluent-kafka and the adapter refuse, of calls and settings: the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from kwire.compat import confluent_kafka as adapter
from kwire.testing import Cluster

if TYPE_CHECKING:
    from tests.compat.confluent_settings import settings
else:
    from confluent_settings import settings

pytestmark = pytest.mark.slow
BOTH = pytest.mark.parametrize("module", [confluent_kafka, adapter], ids=["confluent-kafka", "kwire"])


# --- topics -------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("topics", ["^orders", "orders", ("orders",), {"orders"}, {"orders": 1}, None])
def test_topics_that_are_no_list_are_refused(cluster: Cluster, module: Any, topics: object) -> None:  # noqa: ANN401
    """Each character of a str was a topic, and "^" a pattern: the program read nearly all topics of the cluster."""
    consumer = module.Consumer(settings(cluster))
    with pytest.raises(TypeError, match="expected list of topic unicode strings"):
        consumer.subscribe(topics)
    consumer.close()


@BOTH
@pytest.mark.parametrize("topics", [[], ["orders", "orders"], [""]])
def test_lists_that_name_no_topics_are_refused(cluster: Cluster, module: Any, topics: list[str]) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    with pytest.raises(module.KafkaException) as caught:
        consumer.subscribe(topics)
    assert caught.value.args[0].code() == module.KafkaError._INVALID_ARG
    consumer.close()


def test_a_pattern_without_its_mark_is_answered_with_the_list_that_has_it(cluster: Cluster) -> None:
    """The advice was kwire's own, subscribe(re.compile(...)), which this consumer refuses."""
    consumer = adapter.Consumer(settings(cluster))
    for topics in (["orders*"], ["orders*", "^bills"]):
        with pytest.raises(adapter.KafkaException) as caught:
            consumer.subscribe(topics)
        assert "subscribe(['^orders.*'])" in caught.value.args[0].str()
    consumer.subscribe(["^orders.*"])
    consumer.close()


def test_topics_that_are_refused_leave_the_assignment(cluster: Cluster) -> None:
    consumer = adapter.Consumer(settings(cluster))
    consumer.assign([adapter.TopicPartition("orders", 0)])
    with pytest.raises(adapter.KafkaException):
        consumer.subscribe([])
    assert len(consumer.assignment()) == 1
    consumer.close()


# --- commits ------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("numbers", [[], [0], [0, 1]])
def test_offsets_without_an_offset_are_nothing_to_commit(cluster: Cluster, module: Any, numbers: list[int]) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    offsets = [module.TopicPartition("orders", number) for number in numbers]
    with pytest.raises(module.KafkaException) as caught:
        consumer.commit(offsets=offsets, asynchronous=False)
    assert caught.value.args[0].code() == module.KafkaError._NO_OFFSET
    assert consumer.commit(offsets=offsets, asynchronous=True) is None
    consumer.close()


@BOTH
def test_a_commit_answers_for_partitions_without_an_offset_too(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    offsets = [module.TopicPartition("orders", 0), module.TopicPartition("orders", 1, 2)]
    found = consumer.commit(offsets=offsets, asynchronous=False)
    assert [(one.partition, one.offset) for one in found] == [(0, module.OFFSET_INVALID), (1, 2)]
    consumer.close()


# --- settings -----------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("name", [1, None, b"client.id"])
def test_a_name_of_a_setting_that_is_no_text_is_refused(cluster: Cluster, module: Any, name: object) -> None:  # noqa: ANN401
    given: dict[Any, object] = {**settings(cluster), name: "x"}
    with pytest.raises(module.KafkaException) as caught:
        module.Consumer(given)
    assert caught.value.args[0].code() == module.KafkaError._INVALID_ARG
