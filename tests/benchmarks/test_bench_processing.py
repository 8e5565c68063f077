"""`scripts/bench processing`: what it counts, what it wants, and that a client that loses a record has no figure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from benchmarks import processing
from benchmarks.cli import parser
from benchmarks.processing import (
    CASES,
    FIVE_MS_CASE,
    NO_OP_CASE,
    NO_OPS,
    PLAIN,
    PYRALLEL,
    WORKER,
    Work,
    capacity,
    published,
    reach,
    targets,
)
from benchmarks.throughput.turn import WrongAnswerError
from benchmarks.turns import Figures, run_worker
from kwire.testing import Cluster
from kwire.testing.cluster.batches import NewRecord

RECORDS = 1_200


def test_its_targets_are_about_what_was_measured_in_the_same_round() -> None:
    results = [Figures(case=NO_OP_CASE, name="thousand_per_s", participant=PLAIN, rounds=(1000.0, 100.0, 500.0))]
    results += [
        Figures(case=NO_OP_CASE, name="thousand_per_s", participant=name, rounds=(600.0, 49.0, 300.0))
        for name in NO_OPS
    ]
    results += [
        Figures(case=FIVE_MS_CASE, name="thousand_per_s", participant="threads", rounds=(11.0,)),
        Figures(case=FIVE_MS_CASE, name="thousand_per_s", participant="asyncio", rounds=(12.0,)),
        published(FIVE_MS_CASE, "thousand_per_s", PYRALLEL, 2.206, 1),
    ]
    verdicts = [target.verdict(results).split()[0] for target in targets(["no-op", "five-ms"])]
    assert verdicts == ["met", "met", "met", "MISSED", "met"]


def test_all_cases_are_measured_unless_some_are_named() -> None:
    assert parser().parse_args(["processing"]).case == []
    assert parser().parse_args(["processing", "--case", "no-op"]).case == ["no-op"]
    assert set(processing.TARGETS) == set(CASES)


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_a_map_reaches_far_and_none_further_than_its_entropy_allows(share: float) -> None:
    bound = reach(share)
    assert 0.5 * bound < capacity(share, round(1.2 * bound), Random(7))["offsets"] < 1.05 * bound


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Cluster(brokers=1) as cluster:
        cluster.create_topic("some", partitions=2)
        for number in range(RECORDS):
            cluster.produce("some", NewRecord(b"", key=b"%d" % (number % 30)), partition=number % 2)
        yield cluster.bootstrap_servers


@pytest.mark.slow
@pytest.mark.parametrize("participant", ["threads", "trio"])
def test_a_topic_is_worked_on_to_its_end(servers: str, participant: str) -> None:
    figures = run_worker(
        "drain", participant, worker=WORKER, servers=servers, topic="some", records=RECORDS, ordering="key", most_ms=0.1
    )
    assert figures["seconds"] > 0
    assert figures["thousand_per_s"] == pytest.approx(RECORDS / figures["seconds"] / 1000)


@pytest.mark.slow
def test_a_turn_may_be_another_clones(servers: str, tmp_path: Path) -> None:
    """Its kwire, measured by this one's worker."""
    (tmp_path / "kwire").mkdir()
    (tmp_path / "kwire" / "__init__.py").write_text("WHO = 'the other'\n")
    worker = tmp_path / "worker.py"
    worker.write_text("import json, kwire\nprint(json.dumps({kwire.WHO: 1.0}))\n")
    assert run_worker("drain", "threads", tmp_path, worker=worker, servers=servers) == {"the other": 1.0}


@pytest.mark.slow
def test_a_turn_that_has_done_with_more_than_there_is_has_no_figure(servers: str) -> None:
    options: Work = {"topic": "some", "records": RECORDS - 500}
    with pytest.raises(WrongAnswerError, match=f"records were done with, of {RECORDS - 500}"):
        run_worker("drain", "plain", worker=WORKER, servers=servers, **options)


@pytest.mark.slow
def test_what_so_many_workers_could_do_is_what_counts(servers: str) -> None:
    work: Work = {"topic": "some", "ordering": "none", "workers": 2, "least_ms": 20.0, "most_ms": 20.0, "seconds": 0.5}
    figures = run_worker("steady", "threads", worker=WORKER, servers=servers, **work)
    assert 0 < figures["efficiency_percent"] <= 110
    assert figures["thousand_per_s"] == pytest.approx(0.1 * figures["efficiency_percent"] / 100)
