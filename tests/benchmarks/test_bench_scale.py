"""`scripts/bench scale` against a real Kafka, small: everybody reads all there is, and nothing where nothing is."""

from __future__ import annotations

import pytest

from benchmarks import scale
from benchmarks.scale import FEW, MANY, PEER, idle_case, targets, throughput_case
from benchmarks.turns import OWN, Figures

RECORDS = 2_000


def test_its_targets_are_about_kwire_with_many_against_kwire_with_few() -> None:
    case = throughput_case(10_000)
    results = [
        Figures(case=case, name="million_per_s", participant=f"{OWN}, {FEW}", rounds=(2.0,)),
        Figures(case=case, name="million_per_s", participant=f"{OWN}, {MANY}", rounds=(1.0,)),
        Figures(case=idle_case(1_000), name="core_percent", participant=OWN, rounds=(2.0,)),
    ]
    throughput, idle = (target.verdict(results) for target in targets(10_000, 1_000))
    assert throughput.startswith("MISSED 10 of 10,000 with data: million_per_s of kwire, all assigned is 0.5")
    assert idle == "met    1,000 idle: core_percent of kwire is 2, wanted at most 2"


@pytest.mark.integration
@pytest.mark.slow
def test_partitions_with_and_without_data_of_a_real_broker() -> None:
    results = scale.run(rounds=1, partitions=40, idle=20, records=RECORDS, seconds=0.5)
    found = {(each.case, each.name, each.participant): each.median for each in results}
    for participant in (OWN, PEER):
        for how in (FEW, MANY):
            assert found[throughput_case(40), "million_per_s", f"{participant}, {how}"] > 0
        assert 0 <= found[idle_case(20), "core_percent", participant] < 100
