"""`scripts/bench groups`: what it tells of a group on a virtual clock is the same each time."""

from __future__ import annotations

import pytest

from benchmarks.large_groups import PROTOCOLS, Protocol, Size, evidence, run
from benchmarks.turns import Figures

SMALL = Size(members=4, partitions=40, brokers=4)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_small_group_is_told_the_same_twice(protocol: Protocol) -> None:
    figures = run(SMALL, [protocol], memory=False)
    assert figures == run(SMALL, [protocol], memory=False)
    told = {(each.name, each.participant): each.median for each in figures}
    whole = {name: figure for (name, size), figure in told.items() if size == str(SMALL)}
    assert {"start_ms", "join_ms", "leave_ms", "rest_requests_per_s_busiest_broker"} <= whole.keys()
    assert all(figure > 0 for figure in whole.values())
    # Each member fetches from each broker twice a second.
    assert whole["rest_requests_per_s_a_broker"] >= 2 * SMALL.members


def test_sizes_are_scaled_together_and_never_to_nothing() -> None:
    assert Size(members=200, partitions=10_000, brokers=50).scaled(0.25) == Size(
        members=50, partitions=2_500, brokers=12
    )
    assert Size(members=2, partitions=4, brokers=1).scaled(0.25) == Size(members=2, partitions=4, brokers=1)


def test_evidence_has_a_figure_for_each_protocol_and_size() -> None:
    told = {"start_ms": 5_100.0, "join_ms": 3_000.0, "leave_ms": 3_000.0, "rest_requests_per_s_busiest_broker": 67.0}
    results = [
        Figures(case=protocol, name=name, participant=str(SMALL), rounds=(value,))
        for protocol in PROTOCOLS
        for name, value in told.items()
    ]
    found = evidence(results, SMALL, date="2026-11-26", kwire="f9c0837")
    value = "settled after the start in 5.1 s, after a join in 3.0 s, after a leave in 3.0 s; "
    value += "67 requests a second of the busiest broker at rest"
    assert [(figure.what, figure.value) for figure in found.figures] == [
        (f"4 members, 40 partitions, 4 brokers, {protocol}", value) for protocol in PROTOCOLS
    ]
