"""Where a member that catches up stands, by its lines."""

from __future__ import annotations

import pytest

from kwire.model import TopicPartition
from kwire.testing.faults.catalogue import KINDS
from kwire.testing.faults.lines import BatchLine, Callback, CommitLine, Line, Span
from kwire.testing.faults.moments import MOMENTS, MemberMoments

T0 = TopicPartition("t", 0)
ASSIGNED = Callback(1, "partitions_assigned", (T0,))
NOTHING = Callback(1, "partitions_assigned", ())
REVOKED = Callback(1, "partitions_revoked", (T0,))


def batch(*cursors: str) -> BatchLine:
    return BatchLine(1, tuple(Span(T0, 1, 5, 5, cursor) for cursor in cursors))


def commit(*cursors: str, error: str = "") -> CommitLine:
    return CommitLine(1, tuple((T0, 6) for _ in cursors), error, cursors)


@pytest.mark.parametrize(
    ("lines", "at"),
    [
        ([], []),
        ([ASSIGNED], ["handed-over"]),
        ([NOTHING], []),
        ([ASSIGNED, REVOKED], []),
        ([ASSIGNED, batch("main")], []),
        ([ASSIGNED, NOTHING], ["handed-over"]),
        ([ASSIGNED, BatchLine(1, (Span(TopicPartition("t", 1), 1, 5, 5, "main"),))], ["handed-over"]),
        ([ASSIGNED, batch("main", "child")], ["catching-up"]),
        ([ASSIGNED, batch("child")], ["catching-up"]),
        ([ASSIGNED, batch("child"), commit("child")], ["catching-up"]),
        ([batch("child"), batch("main")], []),
        ([batch("child"), REVOKED], []),
        ([batch("main", "child"), commit("main")], ["catching-up", "between-commits"]),
        ([batch("main", "child"), commit("main", error="why")], ["catching-up"]),
        ([batch("main", "child"), commit("main"), commit("child")], ["catching-up"]),
        ([batch("main", "child"), commit("main", "child")], ["catching-up"]),
        ([batch("main", "child"), commit("main"), batch("main", "child")], ["catching-up"]),
        ([batch("")], []),
    ],
)
def test_each_line_may_be_a_moment(lines: list[Line], at: list[str]) -> None:
    moments = MemberMoments()
    for line in lines:
        moments.take(line)
    assert [moment for moment in MOMENTS if moments.is_at(moment)] == [each for each in MOMENTS if each in at]


def test_a_schedule_names_the_moments_that_there_are() -> None:
    (moment, _ending) = KINDS["catch-up-end"].parameters
    assert moment.allowed == " or ".join(MOMENTS)
