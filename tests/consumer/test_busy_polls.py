"""A loop of polls that do not wait: it leaves the interpreter to the network thread soon enough."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from kwire import Consumer, TopicPartition
from kwire.switch_interval import SHORT_INTERVAL_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.testing import Cluster

BEFORE_S = sys.getswitchinterval()


@pytest.fixture
def consumer(kafka_cluster: Cluster) -> Iterator[Consumer[bytes, bytes]]:
    kafka_cluster.create_topic("t", partitions=1)
    with Consumer(bootstrap_servers=kafka_cluster.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        yield consumer


def test_the_switch_interval_is_short_in_a_loop_of_polls_that_do_not_wait(consumer: Consumer[bytes, bytes]) -> None:
    """With the usual 5 ms, each step of the network thread waited for as long: a record took 22 ms, not 6."""
    behind_each = []
    for _ in range(50):
        consumer.poll(0)
        behind_each.append(sys.getswitchinterval())
    assert min(behind_each) == pytest.approx(SHORT_INTERVAL_S)


def test_it_is_as_it_was_behind_a_poll_alone(consumer: Consumer[bytes, bytes]) -> None:
    consumer.poll(0)
    assert sys.getswitchinterval() == pytest.approx(BEFORE_S)
