"""What `scripts/prove spark-kills` finds wrong with a table."""

from __future__ import annotations

import pytest

from proofs.spark.kills import judged

ENDS = [10, 20]
WHOLE = {"0": [10, 10, 0, 9, 0], "1": [20, 20, 0, 19, 0]}


def test_a_table_with_each_record_once() -> None:
    assert list(judged(WHOLE, ENDS)) == []


@pytest.mark.parametrize(
    ("partition", "what"),
    [
        ([21, 20, 0, 19, 0], "1 records are there more than once"),
        ([19, 19, 0, 19, 0], "1 of 20 records are missing"),
        ([20, 20, 1, 20, 0], "offsets 1 to 20"),
        ([20, 20, 0, 19, 3], "3 records are not what was written"),
    ],
)
def test_what_is_wrong_is_told_of_its_partition(partition: list[int], what: str) -> None:
    (line,) = judged({**WHOLE, "1": partition}, ENDS)
    assert line.startswith("partition 1: ")
    assert what in line


def test_an_empty_table_lacks_everything() -> None:
    assert list(judged({}, ENDS)) == [
        "partition 0: 10 of 10 records are missing",
        "partition 1: 20 of 20 records are missing",
    ]
