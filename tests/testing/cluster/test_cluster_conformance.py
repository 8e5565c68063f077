"""The protocol conformance suite, which real Kafka passes, against the in-process cluster."""

from __future__ import annotations

import pytest

from kwire.conformance.report import CaseStatus
from kwire.conformance.runner import run
from kwire.testing import Cluster

MIN_PASSED = 900


@pytest.mark.slow
@pytest.mark.parametrize("brokers", [1, 3])
def test_the_cluster_speaks_as_kafka_does(brokers: int) -> None:
    with Cluster(brokers) as cluster:
        report = run(cluster.bootstrap_servers)
    assert [str(result) for result in report.results if result.status is CaseStatus.FAILED] == []
    assert sum(result.status is CaseStatus.PASSED for result in report.results) >= MIN_PASSED
    assert report.leftovers == ()
