"""The pytest fixture `kafka_cluster`: each test that asks for it gets a cluster of its own.

    def test_orders(kafka_cluster):
        kafka_cluster.create_topic("orders", partitions=3)
        ...

    @pytest.mark.kafka_cluster(brokers=3, settings={"auto.create.topics.enable": False})
    def test_failover(kafka_cluster): ...

The mark takes the arguments of `kwire.testing.Cluster`; the mark of a test replaces that of its class. pytest imports
this package in every environment that has kwire. The package is outside `kwire` so that `kwire` itself is imported only
when a test asks for the fixture.
"""

from __future__ import annotations

from inspect import Signature, signature
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.testing import Cluster

MARK = "kafka_cluster"


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", f"{MARK}(brokers=1, **arguments): how the fixture {MARK} makes its Cluster")


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running Kafka cluster in this process; `bootstrap_servers` has its address."""
    from kwire.testing import Cluster

    mark = request.node.get_closest_marker(MARK)  # the mark of the test, or else of its class or module
    if mark is not None:
        _check(signature(Cluster), mark)
    with Cluster(*mark.args, **mark.kwargs) if mark is not None else Cluster() as cluster:
        yield cluster


def _check(wanted: Signature, mark: pytest.Mark) -> None:
    """Fails the test if the mark has another argument than a Cluster: the error would be about a call nobody wrote."""
    try:
        wanted.bind(*mark.args, **mark.kwargs)
    except TypeError as error:
        pytest.fail(f"@pytest.mark.{MARK}: {error}; it takes {', '.join(wanted.parameters)}", pytrace=False)
