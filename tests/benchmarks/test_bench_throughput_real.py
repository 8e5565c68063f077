"""`scripts/bench throughput` with real processes: from a real broker everybody reads exactly what was written."""

from __future__ import annotations

import pytest

from benchmarks.throughput.measure import measure_case
from benchmarks.throughput.report import misses, panels
from benchmarks.throughput.topics import CASES, values
from benchmarks.throughput.turn import CONTENDERS
from kwire.testing.kafka import KafkaCluster

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SCALE = 0.0002


@pytest.mark.parametrize("name", ["zstd", "headers"])
def test_every_contender_finds_keys_values_and_offsets_of_a_compressed_topic(name: str) -> None:
    case = CASES[name]
    with KafkaCluster() as kafka:
        results = measure_case(case, kafka.bootstrap_servers, rounds=1, scale=SCALE, contenders=CONTENDERS)
    assert [(result.contender, result.failures) for result in results] == [(one.name, ()) for one in CONTENDERS]
    for result in results:
        assert result.content.records == case.scaled(SCALE) > 100
        value_bytes = sum(map(len, values(case, result.content.records)))
        assert result.content.size_bytes == value_bytes + result.content.records * len(b"customer-0000000")
        assert result.rate > 0
        assert result.cpu_s_per_million > 0
        assert result.peak_mb > 10
    assert len(panels(results)[0].bars) == len(CONTENDERS)
    assert all("instead of" in missed for missed in misses(results))  # of so few records the times say nothing
