"""`scripts/bench throughput` with real processes: from a real broker everybody reads exactly what was written."""

from __future__ import annotations

import pytest

from benchmarks.throughput.measure import measure_case
from benchmarks.throughput.report import misses, panels
from benchmarks.throughput.topics import CASES
from benchmarks.throughput.turn import CLIENTS
from kwire.testing.kafka import KafkaCluster

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SCALE = 0.0002


@pytest.mark.parametrize(("name", "records", "value_bytes"), [("zstd", 400, 400 * 100), ("headers", 180, 42_597)])
def test_every_client_finds_keys_values_and_offsets_of_a_compressed_topic(
    name: str, records: int, value_bytes: int
) -> None:
    with KafkaCluster() as kafka:
        results = measure_case(CASES[name], kafka.bootstrap_servers, rounds=1, scale=SCALE, clients=CLIENTS)
    assert [(result.client, result.failures) for result in results] == [(one.name, ()) for one in CLIENTS]
    for result in results:
        assert result.content.records == records
        assert result.content.size_bytes == value_bytes + records * len(b"customer-0000000")
        assert result.rate > 0
        assert result.cpu_s_per_million > 0
        assert result.peak_mb > 10
    assert len(panels(results)[0].bars) == len(CLIENTS)
    assert all("instead of" in missed for missed in misses(results))  # of so few records the times say nothing
