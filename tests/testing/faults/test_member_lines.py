"""The lines of all verifiable consumers are read; what is no line is quoted."""

from __future__ import annotations

import pytest

from kwire.model import TopicPartition
from kwire.testing.faults.lines import (
    BadLineError,
    BatchLine,
    Callback,
    CommitLine,
    Datum,
    Failure,
    Line,
    Moment,
    Span,
    read_line,
)

T3 = TopicPartition("t", 3)
SPAN = '{"topic":"t","partition":3,"count":2,"minOffset":7,"maxOffset":8}'
WHERE = '"topic":"t","partition":3'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"timestamp":5,"name":"startup_complete"}\n', Moment(5, "startup_complete")),
        ('{"timestamp":5,"name":"closing"}', Moment(5, "closing")),
        (
            f'{{"timestamp":5,"name":"partitions_assigned","partitions":[{{{WHERE}}}]}}',
            Callback(5, "partitions_assigned", (T3,)),
        ),
        ('{"timestamp":5,"name":"partitions_lost","partitions":[]}', Callback(5, "partitions_lost", ())),
        # Java puts the name behind the timestamp, and the record's fields in this order.
        (
            f'{{"timestamp":5,"name":"record_data","key":null,"value":"v",{WHERE},"offset":7}}',
            Datum(5, T3, 7, "v"),
        ),
        (
            f'{{"timestamp":5,"name":"records_consumed","count":2,"partitions":[{SPAN}]}}',
            BatchLine(5, (Span(T3, 2, 7, 8),)),
        ),
        (
            f'{{"timestamp":5,"name":"offsets_committed","offsets":[{{{WHERE},"offset":9}}],"success":true}}',
            CommitLine(5, ((T3, 9),), ""),
        ),
        (
            '{"timestamp":5,"name":"offsets_committed","offsets":[],"error":"too late","success":false}',
            CommitLine(5, (), "too late"),
        ),
        (
            '{"timestamp":5,"name":"poll_failed","error":"CorruptRecordError","message":"why"}',
            Failure(5, "CorruptRecordError", "why"),
        ),
    ],
)
def test_each_line_is_an_event(text: str, line: Line) -> None:
    assert read_line(text) == line


@pytest.mark.parametrize(
    "text",
    [
        "Exception in thread main",
        "[]",
        "7",
        '{"timestamp":5}',
        '{"timestamp":5,"name":"unheard_of"}',
        '{"timestamp":"5","name":"closing"}',
        '{"timestamp":true,"name":"closing"}',
        '{"name":"closing"}',
        '{"timestamp":5,"name":"partitions_assigned","partitions":{}}',
        '{"timestamp":5,"name":"partitions_assigned","partitions":["t-3"]}',
        '{"timestamp":5,"name":"partitions_assigned","partitions":[{"topic":"t"}]}',
        f'{{"timestamp":5,"name":"record_data","value":null,{WHERE},"offset":7}}',
    ],
)
def test_what_is_no_line_is_quoted(text: str) -> None:
    with pytest.raises(BadLineError) as refused:
        read_line(text)
    assert text in str(refused.value)


def test_a_long_line_is_quoted_in_part() -> None:
    with pytest.raises(BadLineError) as refused:
        read_line("x" * 1_000_000)
    assert len(str(refused.value)) < 500
