"""The cluster that programs of other clients read from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.testing import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as found:
        found.create_topic("orders", partitions=2)
        for number in range(6):
            found.produce("orders", b"%d" % number, partition=number % 2)
        yield found
