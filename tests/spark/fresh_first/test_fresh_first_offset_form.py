"""Offsets of a fresh-first query in Spark's checkpoint."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import InvalidArgumentError
from kwire.model import TopicPartition
from kwire.offset_set import OffsetSet
from kwire.spark.fresh_first.coverage import Coverage
from kwire.spark.fresh_first.offset_form import from_form, has_gaps, to_form

P0, P1, P10 = (TopicPartition("orders", number) for number in (0, 1, 10))
RETURNS = TopicPartition("returns", 0)


def test_without_gaps_it_is_what_spark_s_own_source_writes() -> None:
    covered = {RETURNS: Coverage(3), P10: Coverage(7), P0: Coverage(500), P1: Coverage(0)}
    assert json.dumps(to_form(covered)) == '{"orders": {"0": 500, "1": 0, "10": 7}, "returns": {"0": 3}}'
    assert not has_gaps(covered)


def test_a_partition_with_gaps_says_its_head_and_its_gaps_and_the_others_stay_plain() -> None:
    covered = {P0: Coverage(500, gaps=OffsetSet((range(100, 300),))), P1: Coverage(8), P10: Coverage(90, begin=70)}
    assert json.dumps(to_form(covered)) == (
        '{"orders": {"0": {"head": 500, "gaps": [[100, 300]]}, "1": 8, "10": {"head": 90, "begin": 70}}}'
    )
    assert has_gaps(covered)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"orders": 5}, "topic orders: 5 is no object"),
        ({"orders": {"x": 5}}, "orders-x"),
        ({"orders": {"0": -1}}, "orders-0: -1 is no offset"),
        ({"orders": {"0": True}}, "orders-0: True is no offset"),
        ({"orders": {"0": {"gaps": []}}}, "orders-0: None is no offset"),
        ({"orders": {"0": {"head": 5, "tail": 3}}}, "orders-0: 'tail' is not known here"),
        ({"orders": {"0": {"head": 5, "gaps": 3}}}, "orders-0: 3 is no list"),
        ({"orders": {"0": {"head": 5, "gaps": [[1]]}}}, "orders-0: "),
        ({"orders": {"0": {"head": 5, "gaps": [[3, 9]]}}}, "orders-0: gaps lie between 0 and 5"),
        ({"orders": {"0": {"head": 5, "gaps": [[3, 3]]}}}, "orders-0: gaps are in order"),
        ({"orders": {"0": {"head": 5, "begin": 9}}}, "orders-0: a partition is read from 9 to 5"),
    ],
)
def test_an_offset_that_makes_no_sense_names_its_partition(form: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        from_form(form)


GAPS = st.lists(st.tuples(st.integers(0, 80), st.integers(1, 9)), max_size=5)


@given(st.dictionaries(st.sampled_from([P0, P1, P10, RETURNS]), GAPS))
def test_what_is_written_is_read_again(drawn: dict[TopicPartition, list[tuple[int, int]]]) -> None:
    covered = {
        tp: Coverage(100, gaps=OffsetSet(range(start, start + length) for start, length in gaps))
        for tp, gaps in drawn.items()
    }
    assert from_form(json.loads(json.dumps(to_form(covered)))) == covered
