"""What is handed out together when processes share a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.shared_runs import REAL_KAFKA, lane
else:
    from shared_runs import REAL_KAFKA, lane

INTEGRATION = "tests/integration/consumer/test_groups.py"


@pytest.mark.parametrize(
    "node_id",
    [
        f"{INTEGRATION}::test_commits[kafka]",
        f"{INTEGRATION}::test_members_share[kafka-range]",
        f"{INTEGRATION}::test_members_share[fakery-kafka]",
        f"{INTEGRATION}::test_whatever_has_one_side_only",
        "tests/testing/kafka/test_kafka_cluster_real.py::test_a_broker_dies_comes_back_and_pauses",
        "tests/benchmarks/test_bench_latency.py::test_records_of_a_real_broker_are_timed",
    ],
)
def test_whatever_needs_a_real_kafka_stays_together(node_id: str) -> None:
    assert lane(node_id) == REAL_KAFKA


@pytest.mark.parametrize("name", ["test_commits[fake]", "test_members_share[fake-range]", "test_it[1-fake-kafka]"])
def test_what_runs_on_the_one_in_the_process_stays_with_its_file(name: str) -> None:
    assert lane(f"{INTEGRATION}::{name}") == INTEGRATION


def test_other_tests_stay_with_their_file() -> None:
    assert lane("tests/test_clock.py::test_it[a::b]") == "tests/test_clock.py"
