"""What `scripts/prove losses` counts as lost, and its table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proofs.losses.cell import ALL, TARGET, Cell, Place
from proofs.losses.faults import Fault
from proofs.losses.judge import Outcome, lost_records
from proofs.losses.sense import why_not
from proofs.losses.spark import obey
from proofs.losses.spark_judge import committed_by_stream, rows_of_table
from proofs.losses.table import table
from proofs.losses.ways import Way

EVERYTHING = {0: 100, 1: 100}


def test_a_record_behind_the_commit_that_nobody_has_handled_is_lost() -> None:
    missing = Place(1, 42)
    assert lost_records(Way.POLL_COMMIT, Fault.NONE, ALL - {missing}, EVERYTHING) == [missing]


def test_what_is_not_committed_comes_again_and_is_not_lost() -> None:
    assert lost_records(Way.POLL_COMMIT, Fault.NONE, ALL - {Place(1, 42)}, {0: 100, 1: 42}) == []


@pytest.mark.parametrize(("way", "lost"), [(Way.BY_KEY, []), (Way.DEAD_LETTERS, [TARGET]), (Way.PIPELINE, [TARGET])])
def test_a_bad_record_may_be_missing_unless_there_is_a_place_for_it(way: Way, lost: list[Place]) -> None:
    assert lost_records(way, Fault.BAD_VALUE, ALL - {TARGET}, EVERYTHING) == lost


@pytest.mark.parametrize(("fault", "gap"), [(Fault.RETENTION_NONE, range(40)), (Fault.CORRUPT, range(40, 60))])
def test_what_the_log_does_not_have_may_be_missing_and_nothing_next_to_it(fault: Fault, gap: range) -> None:
    gone = {Place(0, offset) for offset in gap}
    behind = Place(0, gap.stop)
    assert lost_records(Way.POLL_AUTO, fault, ALL - gone, EVERYTHING) == []
    assert lost_records(Way.POLL_AUTO, fault, ALL - gone - {behind}, EVERYTHING) == [behind]


def test_the_table_names_what_was_lost_and_why_cells_are_missing() -> None:
    kept = Outcome(Way.POLL_COMMIT, Fault.BAD_VALUE, delivered=199, handled=199, committed=200, lives=1)
    lossy = Outcome(Way.POLL_AUTO, Fault.FORK, committed=200, lost=[TARGET], told=["Error: losses-01234567-0 | gone"])
    senseless = Outcome(Way.COMMAND, Fault.BAD_KEY, why_not(Way.COMMAND, Fault.BAD_KEY))
    lines = table([kept, lossy, senseless]).splitlines()
    assert "| poll-commit | bad-value | 199 | 199 | 200 | 0 | 0 | 1 |  |" in lines
    assert "| poll-auto-commit | fork | 0 | 0 | 200 | 1 | 0 | 0 | Error: topic-0 / gone |" in lines
    assert "* bad-key: it prints bytes as they are (command-line)." in lines


def test_a_checkpoint_covers_the_batches_that_are_through(tmp_path: Path) -> None:
    cell = Cell(Way.SPARK_STREAM.value, Fault.NONE.value, "", "a", str(tmp_path))
    assert committed_by_stream(cell) == {}
    for folder, names in {"offsets": "012", "commits": "01"}.items():
        cell.path("checkpoint", folder).mkdir(parents=True)
        for name in names:
            end = 40 * (int(name) + 1)
            cell.path("checkpoint", folder, name).write_text(f'v1\n{{}}\n{{"a": {{"0": {end}, "1": {end}}}}}')
    assert committed_by_stream(cell) == {0: 80, 1: 80}


def test_good_rows_and_bad_ones_of_a_table_are_told_apart(tmp_path: Path) -> None:
    cell = Cell(Way.SPARK_BATCH.value, Fault.NONE.value, "", "a", str(tmp_path))
    assert list(rows_of_table(cell)) == []
    cell.path("table", "job-000").mkdir(parents=True)
    rows = pa.table({"partition": [0, 1], "offset": [7, 8], "is_handled": [True, False]})
    pq.write_table(rows, cell.path("table", "job-000", "part.parquet"))
    assert list(rows_of_table(cell)) == [("handled", 0, 7), ("buried", 1, 8)]


@pytest.mark.parametrize(
    ("said", "fault", "step"),
    [
        ("set the source option failOnDataLoss to false", Fault.RETENTION_NONE, "skip-loss"),
        ("set the source option kwire.skipDamagedBatches to true", Fault.CORRUPT, "skip-damage"),
        ("does not fit value_schema; on_bad = keep puts", Fault.BAD_VALUE, "skip-failure"),
    ],
)
def test_a_program_of_spark_does_what_the_error_says(tmp_path: Path, said: str, fault: Fault, step: str) -> None:
    cell = Cell(Way.PIPELINE.value, fault.value, "", "a", str(tmp_path))
    obey(cell, said)
    assert [path.name for path in tmp_path.iterdir()] == [step]
