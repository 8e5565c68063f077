"""Tables of Spark's file sink, as the proofs read and judge them; and the picture of a pipeline's progress."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proofs.spark import picture, tables
from proofs.spark.tables import Audit, audit


class Table:
    """Writes as the sink does: files, and then an entry of the log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / tables.LOG
        self.log.mkdir()
        self.entries: list[str] = []

    def file(self, name: str, partition: int, offsets: range) -> Path:
        path = self.folder / name
        count = len(offsets)
        columns = {"partition": pa.array([partition] * count, pa.int32()), "offset": pa.array(offsets, pa.int64())}
        pq.write_table(pa.table(columns), path)
        return path

    def batch(self, number: int, *paths: Path, is_compact: bool = False) -> None:
        entries = [json.dumps({"path": path.as_uri(), "action": "add"}) for path in paths]
        self.entries += entries
        name, lines = (f"{number}.compact", self.entries) if is_compact else (str(number), entries)
        (self.log / name).write_text("\n".join(["v1", *lines]))
        (self.log / f".{name}.crc").write_bytes(b"")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    folder = tmp_path / "a table"
    folder.mkdir()
    return Table(folder)


def test_files_that_no_batch_names_are_no_part_of_the_table(table: Table) -> None:
    table.batch(0, table.file("a.parquet", 0, range(5)))
    table.file("left-by-a-kill.parquet", 0, range(5))
    assert [file.name for file in tables.files(table.folder)] == ["a.parquet"]
    assert tables.files_of_batch(table.folder, 1) == []


def test_a_compact_entry_has_all_in_front_of_it_and_later_ones_follow(table: Table) -> None:
    first, second, third = (
        table.file(f"{number}.parquet", 0, range(5 * number, 5 * number + 5)) for number in range(3)
    )
    table.batch(0, first)
    table.batch(1, second, is_compact=True)
    table.batch(2, third)
    assert tables.files(table.folder) == [first, second, third]
    assert [tables.files_of_batch(table.folder, number) for number in range(3)] == [[first], [second], [third]]
    assert list(tables.offsets([first, third])[0]) == [*range(5), *range(10, 15)]


def test_a_table_that_is_the_topic_passes(table: Table) -> None:
    paths = [table.file("a.parquet", 0, range(3, 5)), table.file("b.parquet", 0, range(3))]
    assert audit(tables.offsets(paths), {0: 5}) == Audit(rows=5, missing=0, twice=0, strange=0)


@pytest.mark.parametrize(
    ("offsets", "ends", "found"),
    [
        ([0, 1, 3], {0: 4}, Audit(rows=3, missing=1, twice=0, strange=0)),
        ([0, 1, 1, 2], {0: 3}, Audit(rows=4, missing=0, twice=1, strange=0)),
        ([0, 1, 2], {0: 2}, Audit(rows=3, missing=0, twice=0, strange=1)),
        ([0], {0: 1, 1: 7}, Audit(rows=1, missing=7, twice=0, strange=0)),
    ],
)
def test_what_is_missing_twice_or_strange_is_counted(offsets: list[int], ends: dict[int, int], found: Audit) -> None:
    assert audit({0: np.array(offsets, np.int64)}, ends) == found


def metrics(batch: int, rows: int, total: int, backfill: int) -> dict[str, object]:
    return {
        "batch": batch,
        "ended_ms": 1_000 * batch,
        "took_ms": 1_000,
        "rows": rows,
        "rows_total": total,
        "rows_per_second": 100.0,
        "lag": backfill,
        "backfill": backfill,
        "seconds_left": float(backfill),
    }


def test_the_picture_shows_three_moments_of_the_longest_run(tmp_path: Path) -> None:
    killed = [metrics(0, 7, 7, 900)]
    run = [metrics(3 + number, 100, 100 + 100 * number, 300 - 100 * number) for number in range(4)]
    assert picture.moments(picture.longest_run([*killed, *run])) == [
        ("The first batch", 0),
        ("Half of the backfill", 2),
        ("All of it", 3),
    ]
    picture.draw([*killed, *run], tmp_path / "picture.svg")
    drawn = (tmp_path / "picture.svg").read_text().replace("&#160;", " ")
    for said in ("100 rows", "300 rows behind", "400 rows", "up to date"):
        assert said in drawn
    assert "900" not in drawn
