"""The pytest fixture `kafka_cluster`: a cluster of one's own for each test that asks for it.

    def test_orders(kafka_cluster):
        kafka_cluster.create_topic("orders", partitions=3)
        ...

    @pytest.mark.kafka_cluster(brokers=3, settings={"auto.create.topics.enable": False})
    def test_failover(kafka_cluster): ...

The mark takes the arguments of `kwire.testing.Cluster`; a test's own takes the place of its class's. pytest loads this
package into every run of an environment that has kwire, so it stands outside `kwire`: nothing of that is loaded until a
test asks for the fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.testing import Cluster

MARK = "kafka_cluster"


def pytest_configure(config: pytest.Config) -> None:
    """Makes the mark known."""
    config.addinivalue_line("markers", f"{MARK}(brokers=1, **arguments): how the fixture {MARK} makes its Cluster")


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running Kafka cluster in this process; `bootstrap_servers` says where."""
    from kwire.testing import Cluster

    mark = request.node.get_closest_marker(MARK)  # of the marks of a test, its class and its module
    with Cluster(*mark.args, **mark.kwargs) if mark is not None else Cluster() as cluster:
        yield cluster
