"""The list of metrics, which exporters and the documentation go by, is what consumers answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from kwire import CatchUpProgress, Consumer, TopicPartition
from kwire.metrics.catalogue import CATALOGUE, description_of
from kwire.parallel_rebalance.metrics import metrics_of
from tools.metrics_docs import PAGE, page

if TYPE_CHECKING:
    from kwire.testing import Cluster

TOP = Path(__file__).parents[2]


def test_every_metric_is_described_and_every_description_is_of_one(kafka_cluster: Cluster) -> None:
    kafka_cluster.create_topic("orders")
    kafka_cluster.produce("orders", b"an order")
    with Consumer[bytes, bytes](
        bootstrap_servers=kafka_cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        while not consumer.poll(1.0):
            pass
        found = {description_of(metric) for metric in consumer.metrics()}
    lag = CatchUpProgress(
        topic_partition=TopicPartition("orders", 0), ranges=(range(9),), done=1, left=8, rate_per_s=1.0, left_s=8.0
    )
    found |= {description_of(metric) for metric in metrics_of([lag], "me")}
    assert found == set(CATALOGUE)


def test_names_are_words_with_dashes_and_are_there_once() -> None:
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", each.name) for each in CATALOGUE)
    assert len({each[:3] for each in CATALOGUE}) == len(CATALOGUE)


def test_the_page_lists_them() -> None:
    """`python -m tools.metrics_docs` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()
