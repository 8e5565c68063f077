"""What is handed out together when processes share a run, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from tests.shared_runs import SPARK, lane, longest_first
else:
    from shared_runs import SPARK, lane, longest_first

GROUPS = "tests/integration/consumer/test_groups.py"
Marked: TypeAlias = Callable[..., pytest.Item]


class NamedItem(pytest.Item):
    """A test of which only its name and its marks are known."""

    def runtest(self) -> None:
        raise NotImplementedError


@pytest.fixture
def marked(request: pytest.FixtureRequest) -> Marked:
    def make(node_id: str, *marks: str) -> pytest.Item:
        item: pytest.Item = NamedItem.from_parent(request.session, name=node_id.partition("::")[2], nodeid=node_id)
        for mark in marks:
            item.add_marker(mark)
        return item

    return make


@pytest.mark.parametrize("name", ["test_commits[kafka]", "test_commits[fake]", "test_it[a::b]", "test_plain"])
def test_the_tests_of_a_file_stay_together(name: str) -> None:
    assert lane(f"{GROUPS}::{name}") == GROUPS


def test_the_tests_of_spark_stay_together() -> None:
    names = ("tests/integration/spark/test_batch.py::test_it[kafka]", "tests/spark/audit/test_audit.py::test_it")
    assert [lane(name) for name in names] == [SPARK, SPARK]


def test_the_file_that_takes_longest_goes_first_and_keeps_its_order(marked: Marked) -> None:
    quick = [marked(f"tests/test_quick.py::test_{number}") for number in range(10)]
    slow = [marked("tests/test_slow.py::test_b"), marked("tests/test_slow.py::test_a", "slow")]
    real = [marked("tests/test_real.py::test_it", "slow", "integration")]
    assert longest_first([*quick, *slow, *real]) == [*real, *slow, *quick]


def test_what_runs_on_the_kafka_in_the_process_takes_no_time_unless_it_says_so(marked: Marked) -> None:
    names = ("test_it[fake]", "test_it[fake-range]", "test_it[1-fake-kafka]")
    fakes = [marked(f"tests/integration/test_fakes.py::{name}", "integration") for name in names]
    slow = [marked("tests/integration/test_slow.py::test_it[fake]", "integration", "slow")]
    real = [marked(f"{GROUPS}::test_it[fakery-kafka]", "integration")]
    assert longest_first([*fakes, *slow, *real]) == [*real, *slow, *fakes]


def test_files_that_take_equally_long_have_one_order_in_all_processes(marked: Marked) -> None:
    first, second = marked("tests/test_a.py::test_it"), marked("tests/test_b.py::test_it")
    assert longest_first([second, first]) == longest_first([first, second])
